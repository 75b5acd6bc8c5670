"""JSON-LD documents that are whole: their contexts stand in them, none is fetched.

A context may be given by its address, and rdflib would open it: a connection, or a file of this
machine whose words then become names of relations. No reader opens anything but the file it was
given, so that such a document is refused before rdflib sees it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.plain_data import parse_json

CONTEXT, IMPORT = "@context", "@import"


def read_document(file: BinaryIO) -> object:
    """Return the data of a JSON-LD file; a context elsewhere is an error that names it."""
    document = parse_json(file.read().decode("utf-8-sig"))
    if (address := next(addresses(document), None)) is not None:
        raise InputError(
            f"the context {address!r} lies elsewhere, and nothing is opened but this "
            f'file: write what it holds under its own "{CONTEXT}" in place of the address.'
        )
    return document


def addresses(document: object) -> Iterator[str]:
    """Yield the contexts that a document takes from elsewhere, at any depth.

    >>> list(addresses([{"@context": ["http://x.org/", {"a": {"@context": "b.json"}}]}]))
    ['http://x.org/', 'b.json']
    >>> list(addresses({"@context": {"@vocab": "http://x.org/"}, "knows": "http://x.org/b"}))
    []
    """
    waiting = [(document, False)]
    while waiting:
        part, is_context = waiting.pop()
        if isinstance(part, str) and is_context:
            yield part
        elif isinstance(part, list):
            waiting.extend((item, is_context) for item in reversed(part))
        elif isinstance(part, dict):
            inner = ((value, key in (CONTEXT, IMPORT)) for key, value in part.items())
            waiting.extend(inner)

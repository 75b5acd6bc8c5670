"""Names as IRIs, both ways: one mapping for whatever speaks RDF.

A name that is an IRI stays what it is, ``_:b1`` is a blank node, and any other name stands behind
`NAMESPACE`, its odd characters percent-encoded: ``Star Wars`` is ``<urn:name:Star%20Wars>``, which
the query language reads as the name.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from pyoxigraph import NamedNode

from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query.language.names import NAMESPACE

BLANK = re.compile(r"_:(?=\w)[\w:.-]*[\w:-]")
_IRI = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://|urn:|mailto:)[^\s<>\"{}|\\^`]*")
_ODD = re.compile(r"[^\w.~:@!$&'()*+,;=/-]")


def is_iri(name: str) -> bool:
    """Whether a name is an IRI as it stands, and no name of a table that has a colon in it.

    >>> is_iri("http://example.org/Fargo"), is_iri("gene:17"), is_iri("http://a:b/")
    (True, False, False)
    """
    return bool(_IRI.fullmatch(name)) and is_valid(name)


def iri_of(name: str) -> str:
    """The IRI of an entity, a relation or a type that is no blank node.

    >>> iri_of("http://example.org/Fargo"), iri_of("Star Wars"), iri_of("100 %")
    ('http://example.org/Fargo', 'urn:name:Star%20Wars', 'urn:name:100%20%25')
    """
    if is_iri(name):
        return name
    readable = NAMESPACE + _ODD.sub(lambda odd: _quoted(odd[0]), name)
    return readable if is_valid(readable) else NAMESPACE + _quoted(name)


def name_of(iri: str) -> str:
    """The name that an IRI stands for.

    >>> name_of("urn:name:Star%20Wars"), name_of("http://example.org/Fargo")
    ('Star Wars', 'http://example.org/Fargo')
    """
    if not iri.startswith(NAMESPACE):
        return iri
    return unquoted(iri.removeprefix(NAMESPACE))


def unquoted(text: str) -> str:
    """The text that percent-encoded signs stand for; what stands for none stays as it is.

    >>> unquoted("Star%20Wars"), unquoted("a%FF")
    ('Star Wars', 'a%FF')
    """
    try:
        return unquote(text, errors="surrogatepass")
    except UnicodeDecodeError:
        return text


def entity_of(iri: str, graph: KnowledgeGraph) -> int | None:
    """The entity that an IRI stands for, None where the graph has none."""
    found = graph.entities.get(name_of(iri))
    return graph.entities.get(iri) if found is None else found


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")


def is_valid(iri: str) -> bool:
    """Whether a text with a scheme is an IRI: it then has no sign that would end one."""
    try:
        NamedNode(iri)
    except (ValueError, UnicodeEncodeError):
        return False
    return True

"""RDF/XML by rdflib, within bounds that its parser does not have.

XML lets a file name a text and repeat it by name, and name a text of such names: a few lines
unfold to gigabytes. Ontologies do name their namespaces so, hence names are read, but not what
unfolds to many times the file.
"""

from __future__ import annotations

from typing import Any, BinaryIO
from xml.sax.xmlreader import InputSource

from rdflib import Graph
from rdflib.plugins.parsers.rdfxml import RDFXMLHandler, create_parser

from knowledge_sheaves.errors import InputError

FREE_CHARACTERS = 1 << 20
MOST_UNFOLDED = 20
DEEPEST = 500
"""Elements inside each other, and prefixes that hold at once: for each rdflib copies the others."""


def parse(file: BinaryIO, graph: Graph, base: str) -> None:
    """Read a file into a graph; what goes beyond the bounds is an `InputError` without its path."""
    source = InputSource()
    source.setByteStream(file)
    source.setPublicId(base)
    parser = create_parser(source, graph)  # type: ignore[arg-type]
    handler = _Handler(graph, file)
    handler.setDocumentLocator(source)  # type: ignore[arg-type]
    parser.setContentHandler(handler)
    parser.parse(source)


class _Handler(RDFXMLHandler):
    def __init__(self, graph: Graph, file: BinaryIO) -> None:
        super().__init__(graph)
        self._file, self._read = file, 0
        self._text: list[str] = []

    def startPrefixMapping(self, prefix: str | None, namespace: str) -> None:
        if len(self._ns_contexts) > DEEPEST:
            raise InputError(f"more than {DEEPEST} prefixes are declared inside each other.")
        super().startPrefixMapping(prefix, namespace)

    def startElementNS(self, name: Any, qname: Any, attrs: Any) -> None:
        self._tell_text()
        if len(self.stack) > DEEPEST:
            raise InputError(f"more than {DEEPEST} elements are nested; write them side by side.")
        self._count(sum(map(len, attrs.values())))
        super().startElementNS(name, qname, attrs)

    def endElementNS(self, name: Any, qname: Any) -> None:
        self._tell_text()
        super().endElementNS(name, qname)

    def characters(self, content: str) -> None:
        """Keep the pieces of a text: rdflib would copy all of it for each piece."""
        self._count(len(content))
        self._text.append(content)

    def _tell_text(self) -> None:
        if self._text:
            super().characters("".join(self._text))
            self._text.clear()

    def _count(self, characters: int) -> None:
        self._read += characters
        if self._read > FREE_CHARACTERS + MOST_UNFOLDED * self._file.tell():
            raise InputError(
                f"its entities unfold to more than {MOST_UNFOLDED} times the file; write them out."
            )

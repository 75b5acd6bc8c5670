"""RDF files: N-Triples and N-Quads by polars, the other forms by rdflib.

`rdf:type` gives the types, `rdfs:label` the labels of entities, types and relations (in the
language that is wanted, else without one, else in English). What RDFS and OWL say of types and
relations is schema: see `ontology`.
Literals and the names of graphs are kept beside the facts, for SPARQL: no model learns from them.
An entity is named by its IRI, or by the label of its blank node (`_:b1`, numbered by appearance
where rdflib reads).
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.files import DAMAGED, damaged, located, open_bytes
from knowledge_sheaves.graph.readers.jsonld import read_document
from knowledge_sheaves.graph.readers.lines import text_lines
from knowledge_sheaves.graph.readers.ntriples import LABEL, Statements, read_lines
from knowledge_sheaves.graph.readers.ontology import SUBCLASS, read_ontology
from knowledge_sheaves.graph.readers.raw import ENDS, Raw, number_names
from knowledge_sheaves.graph.statements import LANGUAGE, SCHEMA, TEXT, of_links

BY_LINE = {".nt": "N-Triples", ".nq": "N-Quads"}
BY_RDFLIB = {
    ".ttl": "turtle",
    ".turtle": "turtle",
    ".rdf": "xml",
    ".owl": "xml",
    ".xml": "xml",
    ".jsonld": "json-ld",
}
SUFFIXES = tuple(f"{kind}{packed}" for kind in (*BY_LINE, *BY_RDFLIB) for packed in ("", ".gz"))

HALVES = re.compile("[\ud800-\udfff]")
# Relative IRIs need a base; this one does not tell where the file happened to lie.
BASE = "file:///"


def read_rdf(files: dict[str, Path], lang: str | None = None) -> Raw:
    """Read RDF files, one for each split; labels in a language where there are such."""
    said = {split: _statements(path) for split, path in files.items()}
    links = pl.concat([part.links for part in said.values()])
    ontology, is_fact = read_ontology(links)
    frames = {split: part.links.filter(is_fact) for split, part in said.items()}
    literals = sum(part.literals for part in said.values())
    labels = _best_labels((label for part in said.values() for label in part.labels), lang)
    schema = of_links(links.filter(~is_fact | (pl.col("relation") == SUBCLASS)))
    beside = pl.concat([schema, *(part.beside for part in said.values())]).unique(
        maintain_order=True
    )
    return replace(
        number_names(frames),
        types=ontology.types or None,
        subclass_of=ontology.subclass_of or None,
        heads=ontology.heads,
        tails=ontology.tails,
        says=ontology.says,
        labels=labels or None,
        relation_labels=labels or None,
        statements=beside if len(beside) else None,
        notes=(*ontology.notes, *_skipped(literals)),
    )


def _skipped(literals: int) -> tuple[str, ...]:
    if not literals:
        return ()
    are = "value is" if literals == 1 else "values are"
    return (f"{literals} literal {are} kept for SPARQL over the facts: no model learns them.",)


def _statements(path: Path) -> Statements:
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    kind = suffixes[-1]
    return read_lines(path, BY_LINE[kind]) if kind in BY_LINE else _parse(path, BY_RDFLIB[kind])


def _best_labels(labels: Iterable[tuple[str, str, str]], lang: str | None = None) -> dict[str, str]:
    """Keep one label a node: as wanted, else without a language, in English, in the first."""

    def preference(label: tuple[str, str, str]) -> tuple[bool, bool, bool, str]:
        language = label[2].lower()
        wanted = lang is not None and _is(language, lang.lower())
        return not wanted, language != "", not _is(language, "en"), label[2]

    # From the least to the most preferred; of equals, the first in the file stays.
    ordered = sorted(labels, key=preference)[::-1]
    return {node: text for node, text, _ in ordered}


def _is(language: str, wanted: str) -> bool:
    """Whether a language is the one that is wanted: en-GB is English.

    >>> _is("en-gb", "en"), _is("enm", "en")
    (True, False)
    """
    return language == wanted or language.startswith(f"{wanted}-")


def _parse(path: Path, form: str) -> Statements:
    # rdflib takes a third of a second to import, and only these forms need it.
    from rdflib import BNode, Graph, Literal
    from rdflib.parser import PythonInputSource
    from rdflib.plugins.stores.memory import Memory

    from knowledge_sheaves.graph.readers import rdfxml

    rows: list[tuple[Any, Any, Any, str | None]] = []

    class Recorder(Memory):
        """Keeps statements in the order of the file, which a set would lose."""

        def add(self, triple: Any, context: Any, quoted: bool = False) -> None:
            place = getattr(context, "identifier", context)
            rows.append((*triple, None if isinstance(place, BNode) else str(place)))

    class Unbound(Graph):
        """Keeps no prefixes: rdflib seeks a free one for each by going through all others."""

        def bind(self, *arguments: Any, **options: Any) -> None:
            """Do nothing."""

    try:
        with open_bytes(path) as file, _quiet("rdflib.term"):
            graph = Unbound(store=Recorder())
            if form == "xml":
                rdfxml.parse(file, graph, BASE)
            elif form == "json-ld":
                document = PythonInputSource(read_document(file))
                graph.parse(document, format=form, publicID=BASE)
            else:
                graph.parse(file, format=form, publicID=BASE)
    except InputError as error:
        raise located(path, error) from None
    except DAMAGED as error:
        raise damaged(path, error) from None
    except Exception as error:  # each parser of rdflib has errors of its own
        if isinstance(error, UnicodeDecodeError):
            deque(text_lines(path), maxlen=0)  # which raises, with the line
        raise InputError(f"{path}{_where(error)}: not readable as {form}: {_why(error)}.") from None

    blank: dict[Any, str] = {}

    def name(node: Any) -> str:
        if isinstance(node, BNode):
            return blank.setdefault(node, f"_:b{len(blank) + 1}")
        return _whole(path, str(node))

    links, labels, literals = [], [], 0
    beside: list[tuple[str | None, ...]] = []
    for head, relation, tail, place in rows:
        verb = _whole(path, str(relation))
        if not isinstance(tail, Literal):
            links.append((name(head), verb, name(tail)))
            if place is not None:
                beside.append((*links[-1], None, None, place))
            continue
        text = _whole(path, str(tail))
        kind = LANGUAGE if tail.language else str(tail.datatype or TEXT)
        beside.append((name(head), verb, text, kind, tail.language, place))
        if verb == LABEL:
            labels.append((name(head), text, tail.language or ""))
        else:
            literals += 1
    frame = pl.DataFrame(links, schema=dict.fromkeys(ENDS, pl.String), orient="row")
    return Statements(frame, labels, literals, pl.DataFrame(beside, schema=SCHEMA, orient="row"))


def _whole(path: Path, text: str) -> str:
    if not text.isascii() and HALVES.search(text):
        raise InputError(
            f"{path}: {text[:80]!r} holds half of a character, by an escape such as \\uD800; "
            "correct it."
        )
    return text


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Keep rdflib from printing a traceback for each literal that its datatype does not fit."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


# How rdflib's reader of RDF/XML starts its own sentences: the file, the line, the column.
_BEFORE = re.compile(r"None:(\d+):\d+: ")


def _where(error: Exception) -> str:
    """Return the line, which each parser keeps in its own way."""
    if hasattr(error, "getLineNumber"):
        return f", line {error.getLineNumber()}"
    if hasattr(error, "lineno") and isinstance(error.lineno, int):
        return f", line {error.lineno}"
    if found := _BEFORE.match(str(error)):
        return f", line {found[1]}"
    lines = getattr(error, "lines", None)
    return f", line {lines + 1}" if isinstance(lines, int) else ""


def _why(error: Exception) -> str:
    for name in ("_why", "msg"):
        if isinstance(reason := getattr(error, name, None), str):
            return reason
    if hasattr(error, "getMessage"):
        return str(error.getMessage())
    return " ".join(_BEFORE.sub("", str(error)).split())[:200] or type(error).__name__

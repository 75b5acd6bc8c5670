"""What a full SPARQL query gives: rows, yes or no, or a graph, in the forms of the W3C."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pyoxigraph as ox

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.budget import Budget, OutOfBudget
from knowledge_sheaves.query.language.iris import name_of

FORMATS = {
    "json": ox.QueryResultsFormat.JSON,
    "xml": ox.QueryResultsFormat.XML,
    "csv": ox.QueryResultsFormat.CSV,
    "tsv": ox.QueryResultsFormat.TSV,
}
GRAPH_FORMATS = {
    "ttl": ox.RdfFormat.TURTLE,
    "nt": ox.RdfFormat.N_TRIPLES,
    "jsonld": ox.RdfFormat.JSON_LD,
}
Kind = Literal["select", "ask", "graph"]
_NUMBERS = ("integer", "int", "long", "short", "byte", "nonNegativeInteger", "positiveInteger")


@dataclass(frozen=True)
class Result:
    """An answer, written in one form and readable in all others of its kind.

    ``kind`` is "select", "ask" or "graph" (of CONSTRUCT and DESCRIBE); ``notes`` say what a careful
    reader should know. A result can be sent to another process.
    """

    kind: Kind
    data: bytes
    form: str
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether an ASK holds; of others, whether there is anything."""
        if self.kind == "ask":
            return bool(_parsed(self.data, self.form))
        return next(iter(self), None) is not None

    @property
    def variables(self) -> tuple[str, ...]:
        """The columns of a SELECT, with question marks."""
        if self.kind != "select":
            return ()
        return tuple(f"?{name.value}" for name in _parsed(self.data, self.form).variables)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """The rows of a SELECT or the triples of a graph, as terms of RDF; None is unbound."""
        if self.kind == "graph":
            for quad in ox.parse(self.data, GRAPH_FORMATS[self.form]):
                yield quad.subject, quad.predicate, quad.object
        elif self.kind == "select":
            yield from (tuple(row) for row in _parsed(self.data, self.form))

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows of a SELECT by column, with names and numbers as Python has them."""
        for row in self:
            yield dict(zip(self.variables, map(plain_value, row), strict=True))

    def to_polars(self) -> Any:
        """The rows of a SELECT as a polars frame."""
        import polars as pl

        columns: dict[str, list[Any]] = {name.removeprefix("?"): [] for name in self.variables}
        for row in self:
            for cells, term in zip(columns.values(), row, strict=True):
                cells.append(plain_value(term))
        return pl.DataFrame(columns, strict=False)

    def serialize(self, form: str) -> bytes:
        """The result in a form by name: of `FORMATS`, for graphs of `GRAPH_FORMATS`."""
        check_form(self.kind, form)
        if form == self.form:
            return self.data
        if self.kind == "graph":
            quads = ox.parse(self.data, GRAPH_FORMATS[self.form])
            triples = (ox.Triple(quad.subject, quad.predicate, quad.object) for quad in quads)
            return _bytes(ox.serialize(triples, format=GRAPH_FORMATS[form]))
        return _bytes(_parsed(self.data, self.form).serialize(format=FORMATS[form]))


def _bytes(data: bytes | None) -> bytes:
    assert data is not None, "without a file the bytes are returned"
    return data


def _parsed(data: bytes, form: str) -> Any:
    return ox.parse_query_results(data, format=FORMATS[form])


def check_form(kind: Kind, form: str) -> None:
    """Refuse a form in which a result of this kind cannot be written."""
    forms = GRAPH_FORMATS if kind == "graph" else FORMATS
    if form not in forms:
        what = "A graph is" if kind == "graph" else "Rows, and yes and no, are"
        raise InputError(f"{what} written as {', '.join(forms)}, not as {form!r}.")


def kind_of(found: object) -> Kind:
    """What kind of result Oxigraph gave."""
    if isinstance(found, ox.QueryBoolean):
        return "ask"
    return "graph" if isinstance(found, ox.QueryTriples) else "select"


def write(found: Any, form: str, budget: Budget | None) -> bytes:
    """Write what Oxigraph finds, while it finds it, within a budget."""
    kind = kind_of(found)
    check_form(kind, form)
    forms: dict[str, Any] = GRAPH_FORMATS if kind == "graph" else FORMATS
    if kind == "ask":
        return _bytes(found.serialize(format=forms[form]))
    buffer = _Bounded(budget)
    found.serialize(buffer, forms[form])
    return buffer.getvalue()


class _Bounded(io.BytesIO):
    """Takes what is written as long as time and memory last: a query finds rows as it goes."""

    def __init__(self, budget: Budget | None) -> None:
        super().__init__()
        self.budget = budget

    def write(self, data: Any) -> int:
        if self.budget is not None:
            self.budget.check_time()
            if self.tell() + len(data) > self.budget.memory:
                raise OutOfBudget(
                    f"The answer has more than {self.budget.memory:,} bytes, its memory limit: "
                    "ask for less of it with LIMIT, or raise the limit."
                )
        return super().write(data)


def plain_value(term: Any) -> Any:
    """A term as Python has it: names for IRIs, numbers and truth for literals of those kinds.

    >>> plain_value(ox.NamedNode("urn:name:Star%20Wars")), plain_value(ox.Literal(0.5))
    ('Star Wars', 0.5)
    """
    if isinstance(term, ox.NamedNode):
        return name_of(term.value)
    if isinstance(term, ox.BlankNode):
        return f"_:{term.value}"
    if not isinstance(term, ox.Literal):
        return None if term is None else str(term)
    kind = term.datatype.value.rpartition("#")[2]
    try:
        if kind in _NUMBERS:
            return int(term.value)
        if kind in ("double", "float", "decimal"):
            return float(term.value)
    except ValueError:
        return term.value
    return term.value in ("true", "1") if kind == "boolean" else term.value

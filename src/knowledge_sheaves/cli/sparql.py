"""What `sheaves query` and `sheaves ask` print of full SPARQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

from knowledge_sheaves.cli.output import named, print_table, say, without_empty

if TYPE_CHECKING:
    from knowledge_sheaves.graph import KnowledgeGraph
    from knowledge_sheaves.query.asking import Asker
    from knowledge_sheaves.query.full import Result


_LONG = tuple(f"http://www.w3.org/2001/XMLSchema#{kind}" for kind in ("double", "float"))


def refuse_options(given: Sequence[str]) -> None:
    """Refuse options that speak of the answers to a plain pattern."""
    from knowledge_sheaves.errors import InputError

    if given:
        raise InputError(
            f"{given[0]} is for plain patterns: in full SPARQL a block says what it wants, as in "
            "ks:answers ks:top 5 ; ks:new true, and binds ks:reason; LIMIT bounds the rows."
        )


def show_full(asker: Asker, text: str, form: str | None, facts_only: bool = False) -> None:
    """Answer a query in full SPARQL, as a table for people or in a form of the W3C."""
    from knowledge_sheaves.query.full import Sparql

    result = Sparql(asker).run(text, form, facts_only=facts_only)
    if form is not None:
        written = result.data.decode()
        typer.echo(written, nl=not written.endswith("\n"))
    elif result.kind == "ask":
        say("\n".join(["yes" if result else "no", *result.notes]))
    elif result.kind == "graph":
        say(result.serialize("nt").decode().rstrip())
    elif rows := list(_rows(result, asker.graph)):
        said = without_empty(rows)
        print_table("", said if any(said) else rows, " ".join(result.notes))
    else:
        typer.echo("\n".join(["No answers.", *result.notes]))


def _rows(result: Result, graph: KnowledgeGraph) -> Iterator[dict[str, Any]]:
    """The rows for people: things by label with their names beside, values as they are written."""
    from pyoxigraph import BlankNode, Literal, NamedNode

    from knowledge_sheaves.graph.labels import Name
    from knowledge_sheaves.query.full.results import plain_value

    others = {str(name): name for name in graph.schema.labelled_names}
    others = {kind: Name(kind, graph.type_label(kind)) for kind in graph.type_names} | others
    for row in result:
        cells: dict[str, Any] = {}
        for column, term in zip(result.variables, row, strict=True):
            value = plain_value(term)
            if isinstance(term, (NamedNode, BlankNode)):
                entity = graph.entities.get(value)
                name = others.get(value, value) if entity is None else graph.name(entity)
                cells |= named(column, name)
            elif isinstance(term, Literal) and term.datatype.value not in _LONG:
                cells[column] = term.value  # as it is written: a year is divided by no comma
            else:
                cells[column] = value
        yield cells

"""What the commands print: tables for people, one JSON document for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowledge_sheaves.plain import json_text, printable, printable_lines

if TYPE_CHECKING:
    from rich.table import Table

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Top = Annotated[int, typer.Option("--top", min=1, help="How many to show.")]


def print_json(document: object) -> None:
    """Print one JSON document."""
    typer.echo(json_text(document, indent=2))


def say(text: object, err: bool = False) -> None:
    """Print a text in which names from files may stand, none of which acts on the terminal."""
    typer.echo(printable_lines(str(text)), err=err)


def print_table(title: str, rows: Sequence[Mapping[str, Any]], note: str = "") -> None:
    """Print rows under the names of their fields."""
    from rich.console import Console

    console = Console()
    console.print(table(title, rows))
    if note:
        console.print(printable_lines(note), markup=False, highlight=False)


def print_facts(title: str, facts: Iterable[tuple[str, object]]) -> None:
    """Print names and what they are, without those of which nothing is known."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(title=Text(printable(title)), title_justify="left", box=SIMPLE, show_header=False)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts:
        if shown(value):
            grid.add_row(Text(printable(name)), Text(shown(value)))
    Console().print(grid)


def table(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Make a table of rows that have the same fields; numbers stand on the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    made = Table(title=Text(printable(title)), title_justify="left", box=SIMPLE_HEAD)
    for column in rows[0] if rows else []:
        numbers = all(type(row[column]) in (int, float) for row in rows)
        made.add_column(
            Text(printable(column)), overflow="fold", justify="right" if numbers else "left"
        )
    for row in rows:
        # Names are the user's, not markup.
        made.add_row(*(Text(_cell(value)) for value in row.values()))
    return made


def shown(value: object) -> str:
    """Return a value as people read it."""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}"
    return "" if value is None else printable(str(value))


def _cell(value: object) -> str:
    # Numbers that stand in one column have their points in one line.
    return f"{value:,.4f}" if isinstance(value, float) else shown(value)


def named(column: str, name: str) -> dict[str, str | None]:
    """The cells of a thing: its label, for people, and its name, which questions can use."""
    from knowledge_sheaves.graph.labels import label_of

    return {f"{column} label": label_of(name), column: str(name)}


def without_empty(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Drop the fields that say nothing in any row."""
    said = {name for row in rows for name, value in row.items() if value is not None}
    return [{name: value for name, value in row.items() if name in said} for row in rows]

"""What the commands print: tables for people, one JSON document for programs.

Every command that can print a table takes ``--format``, and every command ``--quiet``: `app` adds
them (`cli.options`), and the functions here look at what was chosen.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowledge_sheaves.plain import json_text, printable, printable_lines

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs: --format json.")]
Top = Annotated[int, typer.Option("--top", min=1, help="How many to show.")]

FORMATS = ("table", "csv", "tsv", "json", "markdown")
WIDE = 100_000
"""The width of a file or a pipe: nothing is cut there."""


@dataclass(frozen=True)
class Style:
    """How tables are printed, and whether only they are."""

    format: str = "table"
    quiet: bool = False

    @property
    def is_table(self) -> bool:
        return self.format == "table"


USUAL = Style()
STYLE: ContextVar[Style] = ContextVar("style", default=USUAL)


def check_format(name: str) -> str:
    """Refuse a form that tables do not have."""
    from knowledge_sheaves.errors import InputError

    if name not in FORMATS:
        raise InputError(f"--format is one of {', '.join(FORMATS)}, not {name!r}.")
    return name


def print_json(document: object) -> None:
    """Print one JSON document."""
    typer.echo(json_text(document, indent=2))


def say(text: object, err: bool = False) -> None:
    """Print a text in which names from files may stand, none of which acts on the terminal."""
    typer.echo(printable_lines(str(text)), err=err)


def print_table(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    note: str = "",
    wrapped: Collection[str] = (),
) -> None:
    """Print rows under the names of their fields; sentences in ``wrapped`` columns may wrap."""
    style = STYLE.get()
    if style.is_table:
        _console().print(table(title, rows, wrapped))
    else:
        plain = [{name: _plain(value) for name, value in row.items()} for row in rows]
        _write(title, list(rows[0]) if rows else [], [list(row.values()) for row in plain])
    _note(note)


def print_rich(*tables: Table | Group | str, width: int = 0) -> None:
    """Print tables that a report has made, at least so wide."""
    from rich.console import Console, Group
    from rich.table import Table

    style = STYLE.get()
    for each in tables:
        if isinstance(each, Group):
            print_rich(*each.renderables, width=width)  # type: ignore[arg-type]
        elif not isinstance(each, Table):
            _note(str(each))
        elif style.is_table:
            Console(width=max(width, _console().width)).print(each)
        else:
            columns = [[_text(cell) for cell in column.cells] for column in each.columns]
            header = [_text(column.header) for column in each.columns]
            _write(_text(each.title or ""), header, list(map(list, zip(*columns, strict=True))))


def print_facts(title: str, facts: Iterable[tuple[str, object]]) -> None:
    """Print names and what they are, without those of which nothing is known."""
    from rich.box import SIMPLE
    from rich.table import Table
    from rich.text import Text

    known = [(name, value) for name, value in facts if shown(value)]
    if not STYLE.get().is_table:
        _write(title, ["name", "value"], [[name, _plain(value)] for name, value in known])
        return
    grid = Table(title=Text(printable(title)), title_justify="left", box=SIMPLE, show_header=False)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in known:
        grid.add_row(Text(printable(name)), Text(shown(value)))
    _console().print(grid)


def table(title: str, rows: Sequence[Mapping[str, Any]], wrapped: Collection[str] = ()) -> Table:
    """Make a table of rows that have the same fields; numbers stand on the right.

    No name is broken over lines: where a terminal is too narrow, it is cut.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    made = Table(title=Text(printable(title)), title_justify="left", box=SIMPLE_HEAD)
    for column in rows[0] if rows else []:
        numbers = all(type(row[column]) in (int, float) for row in rows)
        side = "right" if numbers else "left"
        made.add_column(Text(printable(column), no_wrap=True), no_wrap=numbers, justify=side)  # type: ignore[arg-type]
    for row in rows:
        # Names are the user's, not markup.
        made.add_row(
            *(
                Text(_cell(value), no_wrap=name not in wrapped, overflow="ellipsis")
                for name, value in row.items()
            )
        )
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


def named(column: str, name: str) -> dict[str, str | None]:
    """The cells of a thing: its label, for people, and its name, which questions can use."""
    from knowledge_sheaves.graph.labels import label_of

    return {f"{column} label": label_of(name), column: str(name)}


def without_empty(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Drop the fields that say nothing in any row."""
    said = {name for row in rows for name, value in row.items() if value is not None}
    return [{name: value for name, value in row.items() if name in said} for row in rows]


def _console() -> Console:
    """The terminal as wide as it is; a file or a pipe as wide as may be needed."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=WIDE)


def _note(text: str) -> None:
    style = STYLE.get()
    if text and not style.quiet:
        # In a file of values there is no place for a sentence.
        say(text, err=style.format in ("csv", "tsv"))


def _cell(value: object) -> str:
    # Numbers that stand in one column have their points in one line.
    return f"{value:,.4f}" if isinstance(value, float) else shown(value)


def _plain(value: object) -> str:
    """A value as programs read it: all digits, no commas."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def _text(cell: object) -> str:
    return str(getattr(cell, "plain", cell))


def _write(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table as text for programs, or as Markdown."""
    if STYLE.get().format != "markdown":
        for line in _values("," if STYLE.get().format == "csv" else "\t", [header, *rows]):
            typer.echo(line)
        return
    if title:
        say(f"**{title}**\n")
    cells = [[printable(cell).replace("|", "\\|") for cell in row] for row in [header, *rows]]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    typer.echo("\n".join([lines[0], "|" + " --- |" * len(header), *lines[1:]]) + "\n")


def _values(delimiter: str, rows: Iterable[Sequence[str]]) -> list[str]:
    r"""Lines of CSV; TSV has no quotes, and needs none: a tab within a value is written out.

    >>> _values(",", [["a,b", "c"]]), _values("\t", [["a\tb", "c"]])
    (['"a,b",c'], ['a\\tb\tc'])
    """
    safe = [[printable(cell) for cell in row] for row in rows]
    if delimiter == "\t":
        return ["\t".join(row) for row in safe]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(safe)
    return text.getvalue().splitlines()

"""`sheaves schema`: read a schema file, check it, show it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from knowledge_sheaves.graph import Schema


def schema(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A schema in YAML or JSON.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Check a schema file and show its entity types and relations.

    \b
    Example:
      sheaves schema films.yaml
    """
    from knowledge_sheaves.graph import Schema

    described = _describe(Schema.load(file))
    if as_json:
        typer.echo(json.dumps(described, ensure_ascii=False, indent=2))
        return
    from rich.console import Console

    console = Console()
    for title, rows in described.items():
        console.print(_table(title, rows))


def _describe(loaded: Schema) -> dict[str, list[dict[str, Any]]]:
    return {
        "types": [asdict(kind) for kind in loaded.types],
        "relations": [asdict(relation) for relation in loaded.relations],
    }


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for column in rows[0] if rows else []:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(escape(_shown(value)) for value in row.values()))
    return table


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    return "" if value is None else str(value)

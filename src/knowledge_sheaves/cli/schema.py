"""`sheaves schema`: read a schema file, check it, show it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowledge_sheaves.cli.output import AsJson, print_json, print_table

if TYPE_CHECKING:
    from knowledge_sheaves.graph import EntityType, Relation, Schema

USUAL = {"name", "head", "tail", "shared", "symmetric", "functional", "dim"}


def schema(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A schema in YAML or JSON.")],
    as_json: AsJson = False,
) -> None:
    """Check a schema file and show its entity types and relations.

    \b
    Example:
      sheaves schema films.yaml
    """
    from knowledge_sheaves.graph import Schema

    described = _describe(Schema.load(file))
    if as_json:
        print_json(described)
        return
    for title, rows in described.items():
        columns = dict.fromkeys(key for row in rows for key in row)
        print_table(title, [{key: row.get(key) for key in columns} for row in rows])


def _describe(loaded: Schema) -> dict[str, list[dict[str, Any]]]:
    return {
        "types": [_fields(kind) for kind in loaded.types],
        "relations": [_fields(relation) for relation in loaded.relations],
    }


def _fields(part: EntityType | Relation) -> dict[str, Any]:
    """What a part of a schema is; what few have, and this has not, goes without saying."""
    return {key: value for key, value in asdict(part).items() if value or key in USUAL}

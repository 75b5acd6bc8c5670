"""`sheaves schema`: read a schema file, check it, show it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowledge_sheaves.cli.output import AsJson, print_json, print_table

if TYPE_CHECKING:
    from knowledge_sheaves.graph import Schema


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
        unlabelled = all(row["label"] is None for row in rows)
        shown = [{k: v for k, v in row.items() if k != "label" or not unlabelled} for row in rows]
        print_table(title, shown)


def _describe(loaded: Schema) -> dict[str, list[dict[str, Any]]]:
    return {
        "types": [asdict(kind) for kind in loaded.types],
        "relations": [asdict(relation) for relation in loaded.relations],
    }

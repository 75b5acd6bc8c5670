"""What a model's source says beside facts: in memory, or in the folder until it is needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from knowledge_sheaves.embedding.folder import check_file, read_file
from knowledge_sheaves.graph import statements

if TYPE_CHECKING:
    from knowledge_sheaves.embedding.model import SheafEmbedding


class Kept(NamedTuple):
    """A file of statements that is read when it is needed, and the checksum that it must have."""

    path: Path
    sha256: str


def statements_of(model: SheafEmbedding) -> pl.DataFrame | None:
    """What the source said beside facts, as `graph.statements` has it."""
    kept = model.info.statements if model.info else None
    if isinstance(kept, Kept):
        check_file(kept.path, {"sha256": {kept.path.name: kept.sha256}})
        return read_file(kept.path, statements.read)
    return kept


def has_values(model: SheafEmbedding, predicate: str) -> bool:
    """Whether the source gives values, such as numbers and texts, by this predicate."""
    kept = statements_of(model)
    if kept is None:
        return False
    values = kept.filter((pl.col("predicate") == predicate) & pl.col("datatype").is_not_null())
    return len(values) > 0

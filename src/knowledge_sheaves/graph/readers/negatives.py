"""Triples that are known to be false, beside the splits, as the CoDEx benchmark has them."""

from __future__ import annotations

from pathlib import Path

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.readers.about import find_file
from knowledge_sheaves.graph.readers.layout import TextFormat
from knowledge_sheaves.graph.readers.raw import ENDS
from knowledge_sheaves.graph.readers.tables import SUFFIXES, read_table


def read_false(path: str | Path) -> list[tuple[str, str, str]]:
    """Read triples by name that are known to be false, from a file of any kind of table."""
    return [(h, r, t) for h, r, t in read_table(Path(path), ENDS, TextFormat()).iter_rows()]


def read_negatives(folder: str | Path, split: str) -> list[tuple[str, str, str]]:
    """Read false triples by name, from ``valid_negatives`` or ``test_negatives`` in a folder."""
    place = Path(folder)
    path = find_file(place, (f"{split}_negatives", f"{split}-negatives"))
    if path is None:
        raise InputError(
            f"{place}: there is no file {split}_negatives here that ends in {', '.join(SUFFIXES)}."
        )
    return [(h, r, t) for h, r, t in read_table(path, ENDS, TextFormat()).iter_rows()]

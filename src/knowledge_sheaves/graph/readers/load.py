"""One door for all data: a name, a file or a folder becomes a data set."""

from __future__ import annotations

from pathlib import Path

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers.pykeen_data import bundled_folder
from knowledge_sheaves.graph.readers.raw import ENDS, Typing, assemble, drop_unseen, number_names
from knowledge_sheaves.graph.readers.text import TextFormat, read_table


def load(source: str | Path, *, text: TextFormat | None = None) -> Dataset:
    """Read a data set.

    >>> load("nations")
    Dataset('nations': 14 entities of 1 types, 55 relations, triples: 1592 train, 199 valid, \
201 test)
    """
    form = text or TextFormat()
    folder = Path(source)
    if not folder.exists():
        found = bundled_folder(str(source))
        if found is None:
            raise InputError(f"{source}: no such file, folder or data set.")
        folder = found
    frames = {
        split: read_table(folder / f"{split}.txt", ENDS, form)
        for split in ("train", "valid", "test")
        if (folder / f"{split}.txt").exists()
    }
    raw = drop_unseen(number_names(frames))
    return assemble(raw, Typing(), name=Path(source).name, source=str(source))

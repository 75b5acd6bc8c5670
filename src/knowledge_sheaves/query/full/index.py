"""The store of a large model, kept in its folder: filling it again would take seconds each time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pyoxigraph as ox

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.folder import GENERATION, INDEX, read_config
from knowledge_sheaves.errors import SheafError
from knowledge_sheaves.files import replacing

STORE, MARK = "store", "of.txt"
FORMAT = 1


def kept_store(model: SheafEmbedding, quads: Callable[[], Iterable[ox.Quad]]) -> ox.Store | None:
    """The store in a model's folder, filled if it is not there; None where it cannot be kept.

    A model that is in no folder, or in one that may not be written, has none.
    """
    info = model.info
    if info is None or info.place is None or info.generation is None:
        return None
    place, mark = info.place / INDEX, f"{FORMAT} {ox.__version__} {info.generation}"
    found = _opened(place, mark)
    if found is not None:
        return found
    try:
        if read_config(info.place).get(GENERATION) != info.generation:
            return None  # another model has taken its place
        with replacing(place, (STORE, MARK)) as new:
            _fill(new, quads(), mark)
    except (SheafError, OSError):
        return None
    return _opened(place, mark)


def _opened(place: Path, mark: str) -> ox.Store | None:
    try:
        if (place / MARK).read_text(encoding="utf-8") == mark:
            return ox.Store.read_only(str(place / STORE))
    except (OSError, ValueError):
        pass
    return None


def _fill(new: Path, quads: Iterable[ox.Quad], mark: str) -> None:
    store = ox.Store(str(new / STORE))
    store.bulk_extend(quads)
    store.optimize()
    store.flush()
    del store  # which closes its files
    (new / MARK).write_text(mark, encoding="utf-8")

"""Tables whatever their form: text or Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.readers.layout import TextFormat, find_places
from knowledge_sheaves.graph.readers.text import read_text

TEXT_SUFFIXES = (".tsv", ".txt", ".csv")
SUFFIXES = (*TEXT_SUFFIXES, ".parquet", *(f"{suffix}.gz" for suffix in TEXT_SUFFIXES))


def read_table(
    path: Path, wanted: Sequence[str], form: TextFormat, *, extra: bool = False
) -> pl.DataFrame:
    """Read the wanted columns of a table as strings, none of them empty."""
    if path.suffix.lower() != ".parquet":
        return read_text(path, wanted, form, extra=extra)
    try:
        header = list(pl.read_parquet_schema(path))
        places, _ = find_places(path, wanted, form, header, len(header), extra=extra)
        names = {header[place]: name for name, place in places.items()}
        frame = pl.read_parquet(path, columns=list(names))
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: not a readable Parquet file ({reason}).") from None
    return _filled(path, frame.rename(names).select(wanted))


def _filled(path: Path, frame: pl.DataFrame) -> pl.DataFrame:
    for name, kind in frame.schema.items():
        if kind.is_nested() or kind == pl.Binary:
            raise InputError(f"{path}: the {name} column holds {kind}; names are text or numbers.")
    frame = frame.cast(pl.String)
    for name in frame.columns:
        empty = frame[name].is_null() | (frame[name].str.strip_chars() == "")
        if empty.any():
            row = int(empty.fill_null(True).arg_max() or 0) + 1
            raise InputError(f"{path}, row {row}: the {name} is empty; name it or drop the row.")
    return frame

"""Tables whatever their form: text or Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.files import check_plain
from knowledge_sheaves.graph.readers.layout import TextFormat, find_places
from knowledge_sheaves.graph.readers.text import read_text

TEXT_SUFFIXES = (".tsv", ".txt", ".csv")
FREE_ROWS = 1 << 20
MOST_ROWS = 16
"""Rows in a byte of a Parquet file: two in one is what a graph comes to at best."""
# A damaged file can make polars panic; that is no Exception, so that nobody catches it by mistake.
_Panic = pl.exceptions.PanicException

SUFFIXES = (*TEXT_SUFFIXES, ".parquet", *(f"{suffix}.gz" for suffix in TEXT_SUFFIXES))


def read_table(
    path: Path, wanted: Sequence[str], form: TextFormat, *, extra: bool = False
) -> pl.DataFrame:
    """Read the wanted columns of a table as strings, none of them empty."""
    if path.suffix.lower() != ".parquet":
        return read_text(path, wanted, form, extra=extra)
    check_plain(path)
    try:
        return _filled(path, _read_parquet(path, wanted, form, extra))
    except (OSError, pl.exceptions.PolarsError, _Panic) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path}: not a readable Parquet file ({reason}).") from None


def _read_parquet(path: Path, wanted: Sequence[str], form: TextFormat, extra: bool) -> pl.DataFrame:
    header = list(pl.read_parquet_schema(path))
    places, _ = find_places(path, wanted, form, header, len(header), extra=extra)
    names = {header[place]: name for name, place in places.items()}
    rows = int(pl.scan_parquet(path).select(pl.len()).collect().item())
    if rows > FREE_ROWS + MOST_ROWS * path.stat().st_size:
        raise InputError(f"{path}: {rows:,} rows in so small a file are one row again and again.")
    return pl.read_parquet(path, columns=list(names)).rename(names).select(wanted)


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

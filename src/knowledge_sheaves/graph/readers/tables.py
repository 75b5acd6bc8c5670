"""Tables whatever their form: text or Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.files import check_plain
from knowledge_sheaves.graph.readers.layout import TextFormat, find_places
from knowledge_sheaves.graph.readers.text import text_parts

TEXT_SUFFIXES = (".tsv", ".txt", ".csv")
FREE_ROWS = 1 << 20
MOST_ROWS = 16
"""Rows in a byte of a Parquet file: two in one is what a graph comes to at best."""
AT_ONCE = 1 << 20
"""How many rows of a Parquet file are in memory at a time."""
# A damaged file can make polars panic; that is no Exception, so that nobody catches it by mistake.
_Panic = pl.exceptions.PanicException

SUFFIXES = (*TEXT_SUFFIXES, ".parquet", *(f"{suffix}.gz" for suffix in TEXT_SUFFIXES))


def read_table(
    path: Path, wanted: Sequence[str], form: TextFormat, *, extra: bool = False
) -> pl.DataFrame:
    """Read the wanted columns of a table as strings, none of them empty."""
    none = pl.DataFrame(schema=dict.fromkeys(wanted, pl.String))
    return pl.concat([none, *table_parts(path, wanted, form, extra=extra)])


def table_parts(
    path: Path, wanted: Sequence[str], form: TextFormat, *, extra: bool = False
) -> Iterator[pl.DataFrame]:
    """Read the same part by part: a large file is never in memory as a whole."""
    if path.suffix.lower() != ".parquet":
        parts = text_parts(path, wanted, form, extra=extra)
        yield from (part.select(wanted) for part in parts)
        return
    check_plain(path)
    try:
        done = 0
        for part in _parquet_parts(path, wanted, form, extra):
            yield _filled(path, part, done)
            done += len(part)
    except (OSError, pl.exceptions.PolarsError, _Panic) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path}: not a readable Parquet file ({reason}).") from None


def _parquet_parts(
    path: Path, wanted: Sequence[str], form: TextFormat, extra: bool
) -> Iterator[pl.DataFrame]:
    header = list(pl.read_parquet_schema(path))
    places, _ = find_places(path, wanted, form, header, len(header), extra=extra)
    frame = pl.scan_parquet(path)
    rows = int(frame.select(pl.len()).collect().item())
    if rows > FREE_ROWS + MOST_ROWS * path.stat().st_size:
        raise InputError(f"{path}: {rows:,} rows in so small a file are one row again and again.")
    columns = frame.select(pl.col(header[places[name]]).alias(name) for name in wanted)
    for start in range(0, max(rows, 1), AT_ONCE):
        yield columns.slice(start, AT_ONCE).collect()


def _filled(path: Path, frame: pl.DataFrame, before: int) -> pl.DataFrame:
    """Names as text; an error counts the rows that were read ``before``."""
    for name, kind in frame.schema.items():
        if kind.is_nested() or kind == pl.Binary:
            raise InputError(f"{path}: the {name} column holds {kind}; names are text or numbers.")
    frame = frame.cast(pl.String)
    for name in frame.columns:
        empty = frame[name].is_null() | (frame[name].str.strip_chars() == "")
        if empty.any():
            row = before + int(empty.fill_null(True).arg_max() or 0) + 1
            raise InputError(f"{path}, row {row}: the {name} is empty; name it or drop the row.")
    return frame

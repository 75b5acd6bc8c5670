"""Tables in text files as they occur: delimiters, headers, quotes, blank lines, gzip.

polars reads them. Where it refuses a file, or finds a gap in it, a slow reader of ours goes
through the lines: it finds the line to name in the error, or reads what polars cannot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import polars as pl

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.files import for_polars
from knowledge_sheaves.graph.readers.layout import DELIMITERS, Layout, TextFormat, find_layout
from knowledge_sheaves.graph.readers.lines import split_lines


def read_text(
    path: Path, wanted: Sequence[str], form: TextFormat, *, extra: bool = False
) -> pl.DataFrame:
    """Read the wanted columns as strings, none of them empty.

    Lines that are blank, or nothing but delimiters, are skipped.
    """
    layout = find_layout(path, wanted, form, extra=extra)
    source = for_polars(path)
    if source is None:
        return _read_slowly(layout)
    try:
        frame = _read_fast(layout, source)
    except (pl.exceptions.PolarsError, OSError):
        return _read_slowly(layout)
    empty = pl.any_horizontal(pl.all().is_null() | (pl.all().str.strip_chars() == ""))
    return _read_slowly(layout) if frame.select(empty.any()).item() else frame


def line_of_row(path: Path, wanted: Sequence[str], form: TextFormat, row: int) -> int:
    """Return the line of a row that was read before."""
    rows = _checked_rows(find_layout(path, wanted, form, extra=False))
    return next(islice(rows, row, None))[0]


def _read_fast(layout: Layout, source: Path | bytes) -> pl.DataFrame:
    names = [str(place) for place in range(layout.width)]
    frame = pl.read_csv(
        source,
        has_header=False,
        schema=dict.fromkeys(names, pl.String),
        separator=layout.delimiter,
        quote_char='"' if layout.quoted else None,
        comment_prefix=layout.comment,
    )
    frame = frame.filter(~pl.all_horizontal(pl.all().is_null())).slice(int(layout.has_header))
    return frame.select(pl.col(str(place)).alias(name) for name, place in layout.places.items())


def _read_slowly(layout: Layout) -> pl.DataFrame:
    rows = [fields for _, fields in _checked_rows(layout)]
    return pl.DataFrame(rows, schema=dict.fromkeys(layout.places, pl.String), orient="row")


def _checked_rows(layout: Layout) -> Iterator[tuple[int, list[str]]]:
    records = split_lines(layout.path, layout.delimiter, layout.quoted, layout.comment)
    filled = ((line, fields) for line, fields in records if any(fields))
    for line, fields in islice(filled, int(layout.has_header), None):
        where, found = f"{layout.path}, line {line}", len(fields)
        if found > layout.width or found <= max(layout.places.values()):
            delimiter = DELIMITERS.get(layout.delimiter, repr(layout.delimiter))
            raise InputError(
                f"{where}: {found} {'column' if found == 1 else 'columns'} where {layout.width} "
                f"are expected (the delimiter is the {delimiter}); correct the line, "
                "or give the delimiter."
            )
        for name, place in layout.places.items():
            if not fields[place].strip():
                raise InputError(f"{where}: the {name} is empty; name it or delete the line.")
        yield line, [fields[place] for place in layout.places.values()]

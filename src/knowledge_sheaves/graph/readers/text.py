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
from knowledge_sheaves.graph.files import (
    DAMAGED,
    begins_packed,
    damaged,
    for_polars,
    open_bytes,
)
from knowledge_sheaves.graph.readers.layout import DELIMITERS, Layout, TextFormat, find_layout
from knowledge_sheaves.graph.readers.lines import split_lines

BLOCK = 1 << 25
"""How many bytes of a file are in memory at a time."""
ROWS = 1 << 16
"""How many rows of it the slow reader hands over at a time."""


def read_text(
    path: Path, wanted: Sequence[str], form: TextFormat, *, extra: bool = False
) -> pl.DataFrame:
    """Read the wanted columns as strings, none of them empty.

    Lines that are blank, or nothing but delimiters, are skipped.
    """
    none = pl.DataFrame(schema=dict.fromkeys(wanted, pl.String))
    parts = (part.select(wanted) for part in text_parts(path, wanted, form, extra=extra))
    return pl.concat([none, *parts])


def text_parts(
    path: Path, wanted: Sequence[str], form: TextFormat, *, extra: bool = False
) -> Iterator[pl.DataFrame]:
    """Read the same part by part: a large file is never in memory as a whole."""
    layout = find_layout(path, wanted, form, extra=extra)
    gap = pl.any_horizontal(pl.all().is_null() | (pl.all().str.strip_chars() == ""))
    skip, done = int(layout.has_header), 0
    try:
        for block in _blocks(layout):
            found = _read_fast(layout, block)
            frame, skip = found.slice(skip), max(0, skip - len(found))
            if frame.select(gap.any()).item():
                break
            done += len(frame)
            yield frame
        else:
            return
    except (pl.exceptions.PolarsError, OSError, _NoText):
        pass
    yield from _read_slowly(layout, done)


class _NoText(Exception):
    """What polars would unpack, and without a bound."""


def _blocks(layout: Layout) -> Iterator[bytes | Path]:
    """A file in pieces that end where a line does.

    Within quotes a line may end where a row does not: such a file is one piece.
    """
    if layout.quoted:
        source = for_polars(layout.path)
        if source is None:
            raise _NoText
        yield source
        return
    pieces = list[bytes]()
    try:
        with open_bytes(layout.path) as file:
            while piece := file.read(BLOCK):
                cut = piece.rfind(b"\n") + 1
                pieces.append(piece[:cut] if cut else piece)
                if cut:
                    yield _plain(b"".join(pieces))
                    pieces = [piece[cut:]]
            if any(pieces):
                yield _plain(b"".join(pieces))
    except DAMAGED as error:
        raise damaged(layout.path, error) from None


def _plain(block: bytes) -> bytes:
    if begins_packed(block):
        raise _NoText
    return block


def line_of_row(path: Path, wanted: Sequence[str], form: TextFormat, row: int) -> int:
    """Return the line of a row that was read before."""
    rows = _checked_rows(find_layout(path, wanted, form, extra=False))
    return next(islice(rows, row, None))[0]


def _read_fast(layout: Layout, source: Path | bytes) -> pl.DataFrame:
    """The rows that have anything in them, the header with them."""
    names = [str(place) for place in range(layout.width)]
    frame = pl.read_csv(
        source,
        has_header=False,
        schema=dict.fromkeys(names, pl.String),
        separator=layout.delimiter,
        quote_char='"' if layout.quoted else None,
        comment_prefix=layout.comment,
    )
    frame = frame.filter(~pl.all_horizontal(pl.all().is_null()))
    return frame.select(pl.col(str(place)).alias(name) for name, place in layout.places.items())


def _read_slowly(layout: Layout, done: int) -> Iterator[pl.DataFrame]:
    """The rows behind those that were read already."""
    rows = islice(_checked_rows(layout), done, None)
    while some := [fields for _, fields in islice(rows, ROWS)]:
        yield pl.DataFrame(some, schema=dict.fromkeys(layout.places, pl.String), orient="row")


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

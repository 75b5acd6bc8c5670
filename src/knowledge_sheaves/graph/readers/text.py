"""Tables in text files as they occur: delimiters, headers, quotes, blank lines, gzip.

polars reads them. Where it refuses a file, or finds a gap in it, a slow reader of ours goes
through the lines: it finds the line to name in the error, or reads what polars cannot.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import polars as pl

from knowledge_sheaves.errors import InputError

DELIMITERS = {"\t": "tab", ",": "comma", ";": "semicolon", " ": "space"}
SNIFFED_BYTES, SNIFFED_LINES = 1 << 16, 50
DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)

# Single letters are not here: h, r and t are as likely to be the names of things.
HEADERS: Mapping[str, str] = {
    "head": "head head_id head_entity subject subject_id subj source source_id src from start "
    "start_id :start_id entity1 node1",
    "relation": "relation relation_id relation_type rel predicate predicate_id pred property "
    "metaedge edge edge_type relationship relationship_type type :type label",
    "tail": "tail tail_id tail_entity object object_id obj target target_id dst to end end_id "
    ":end_id entity2 node2",
    "entity": "entity entity_id id node node_id name iri uri",
    "type": "type types kind class category entity_type node_type",
    "label": "label text name title entity_name entity_label",
}


@dataclass(frozen=True)
class TextFormat:
    """What is known of a text file beforehand; what is None is guessed from its first lines.

    ``columns`` says where head, relation and tail stand, by header or by number from 1.
    ``quoted`` tells whether double quotes enclose names (the guess: not with tabs). Lines that
    begin with ``comment`` are skipped.

    >>> TextFormat(delimiter=";", columns=(3, 1, 2)).delimiter
    ';'
    """

    delimiter: str | None = None
    header: bool | None = None
    columns: Sequence[str | int] | None = None
    quoted: bool | None = None
    comment: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None and len(self.delimiter.encode()) != 1:
            raise InputError(
                f"A delimiter is one plain character, not {self.delimiter!r}; for a tab give '\\t'."
            )


@dataclass(frozen=True)
class _Layout:
    """What is known of a text file after a look at it."""

    path: Path
    delimiter: str
    quoted: bool
    comment: str | None
    width: int
    places: Mapping[str, int]
    skip: bool  # whether the first line is a header


def read_table(
    path: Path, wanted: Sequence[str], form: TextFormat, *, extra: bool = False
) -> pl.DataFrame:
    """Read the wanted columns as strings, none of them empty; blank lines are skipped.

    A file without a header must have just these columns, or more where ``extra`` are ignored.
    """
    layout = _look(path, wanted, form, extra)
    try:
        frame = _read_fast(layout)
    except (pl.exceptions.ComputeError, pl.exceptions.NoDataError, *DAMAGED):
        return _read_slowly(layout)
    blank = pl.all_horizontal(pl.all().is_null())
    frame = frame.filter(~blank)
    empty = pl.any_horizontal(pl.all().is_null() | (pl.all().str.strip_chars() == ""))
    return _read_slowly(layout) if frame.select(empty.any()).item() else frame


def _read_fast(layout: _Layout) -> pl.DataFrame:
    names = [str(place) for place in range(layout.width)]
    frame = pl.read_csv(
        layout.path,
        has_header=layout.skip,
        schema=dict.fromkeys(names, pl.String),
        columns=sorted(layout.places.values()),
        separator=layout.delimiter,
        quote_char='"' if layout.quoted else None,
        comment_prefix=layout.comment,
    )
    return frame.select(pl.col(str(place)).alias(name) for name, place in layout.places.items())


def _read_slowly(layout: _Layout) -> pl.DataFrame:
    rows = list(_checked_rows(layout))
    return pl.DataFrame(rows, schema=dict.fromkeys(layout.places, pl.String), orient="row")


def _checked_rows(layout: _Layout) -> Iterator[list[str]]:
    skip = layout.skip
    for line, fields in _rows(layout.path, layout.delimiter, layout.quoted, layout.comment):
        if not any(fields):
            continue
        if skip:
            skip = False
            continue
        where = f"{layout.path}, line {line}"
        found = len(fields)
        if found > layout.width or found <= max(layout.places.values()):
            raise InputError(
                f"{where}: {_columns(found)} where {layout.width} are expected (the delimiter is "
                f"the {DELIMITERS.get(layout.delimiter, repr(layout.delimiter))}); "
                "correct the line or give the delimiter."
            )
        for name, place in layout.places.items():
            if not fields[place].strip():
                raise InputError(f"{where}: the {name} is empty; name it or delete the line.")
        yield [fields[place] for place in layout.places.values()]


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading, through gzip where it begins as gzip does."""
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        return cast(BinaryIO, gzip.open(path)) if packed else path.open("rb")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}.") from None


def text_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file with their ends; a bad byte is an error with its line."""
    try:
        with open_bytes(path) as file:
            for number, line in enumerate(file, 1):
                try:
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise InputError(
                        f"{path}, line {number}: the byte 0x{line[error.start]:02x} is not UTF-8; "
                        "save the file as UTF-8."
                    ) from None
                yield text
    except DAMAGED as error:
        raise InputError(f"{path}: the gzip file is damaged ({error}); get it again.") from None


def _rows(
    path: Path, delimiter: str, quoted: bool, comment: str | None
) -> Iterator[tuple[int, list[str]]]:
    lines = text_lines(path)
    if comment:
        # Emptied, not dropped: the numbers of the other lines stay right.
        lines = ("\n" if line.startswith(comment) else line for line in lines)
    if not quoted:
        for number, line in enumerate(lines, 1):
            yield number, line.rstrip("\r\n").split(delimiter)
        return
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    start = 1
    try:
        for fields in reader:
            yield start, fields
            start = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{path}, line {start}: the quotes do not match ({error}); "
            "close them, or read the file as unquoted."
        ) from None


def _look(path: Path, wanted: Sequence[str], form: TextFormat, extra: bool) -> _Layout:
    lines = _first_lines(path, form.comment)
    if not lines:
        raise InputError(f"{path}: the file is empty.")
    delimiter = form.delimiter or _guess_delimiter(path, lines, len(wanted))
    quoted = delimiter != "\t" if form.quoted is None else form.quoted
    rows = [_split(line, delimiter, quoted) for line in lines]
    header = _find_header(rows[0], wanted)
    if form.columns is not None:
        places, named = _given_columns(path, wanted, form.columns, rows[0])
        skip = named or (bool(header) if form.header is None else form.header)
        width = len(rows[0]) if skip else _usual([len(row) for row in rows])
    elif header and form.header is not False:
        places, skip, width = header, True, len(rows[0])
    else:
        places, skip = {name: place for place, name in enumerate(wanted)}, bool(form.header)
        width = _usual([len(row) for row in rows])
        if width > len(wanted) and not extra:
            raise InputError(
                f"{path}: {width} columns and no header that names {_listed(wanted)}; "
                "say which columns they are."
            )
        width = max(width, len(wanted))
    return _Layout(path, delimiter, quoted, form.comment, width, places, skip)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1]


def _first_lines(path: Path, comment: str | None) -> list[str]:
    try:
        with open_bytes(path) as file:
            start = file.read(SNIFFED_BYTES)
    except DAMAGED as error:
        raise InputError(f"{path}: the gzip file is damaged ({error}); get it again.") from None
    lines = start.decode("utf-8-sig", errors="replace").split("\n")
    if len(start) == SNIFFED_BYTES and len(lines) > 1:
        del lines[-1]
    lines = [line.rstrip("\r") for line in lines if not (comment and line.startswith(comment))]
    return [line for line in lines if line.strip()][:SNIFFED_LINES]


def _split(line: str, delimiter: str, quoted: bool) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter)) if quoted else line.split(delimiter)


def _usual(values: Sequence[int]) -> int:
    return Counter(values).most_common(1)[0][0]


def _guess_delimiter(path: Path, lines: Sequence[str], at_least: int) -> str:
    """Return the delimiter that gives most lines the same number of columns, enough of them."""

    def agreement(delimiter: str) -> float:
        counts = [len(_split(line, delimiter, delimiter != "\t")) for line in lines]
        usual = _usual(counts)
        return counts.count(usual) / len(counts) if usual >= at_least else 0.0

    best = max(DELIMITERS, key=agreement)  # the first of equals
    if agreement(best) == 0.0:
        raise InputError(
            f"{path}, line 1: {lines[0][:60]!r} has fewer than {at_least} columns by tab, comma, "
            "semicolon and space; give the delimiter."
        )
    return best


def _find_header(row: Sequence[str], wanted: Sequence[str]) -> dict[str, int]:
    """Return the place of each wanted column where the row is a header, else nothing."""
    names = [field.strip().lower() for field in row]
    places: dict[str, int] = {}
    for column in wanted:
        free = [place for place, name in enumerate(names) if place not in places.values()]
        fitting = [place for place in free if names[place] in HEADERS[column].split()]
        if not fitting:
            return {}
        places[column] = fitting[0]
    return places


def _given_columns(
    path: Path, wanted: Sequence[str], columns: Sequence[str | int], first: Sequence[str]
) -> tuple[dict[str, int], bool]:
    """Return the places of columns given by number or by header, and whether there is a header."""
    if len(columns) != len(wanted):
        raise InputError(f"Give {len(wanted)} columns, for {_listed(wanted)}, not {len(columns)}.")
    header = [field.strip() for field in first]
    places = {}
    for name, column in zip(wanted, columns, strict=True):
        if isinstance(column, int):
            place = column - 1
        elif column in header:
            place = header.index(column)
        else:
            raise InputError(
                f"{path}, line 1: there is no column {column!r}; the columns are "
                f"{', '.join(map(repr, header))}."
            )
        if not 0 <= place < len(first):
            raise InputError(f"{path}: there is no column {column} among {len(first)}, from 1.")
        places[name] = place
    return places, any(isinstance(column, str) for column in columns)

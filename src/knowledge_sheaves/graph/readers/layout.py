"""How a table is laid out, from what the user says and from a look at its first lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.readers.lines import first_lines, split_start

DELIMITERS = {"\t": "tab", ",": "comma", ";": "semicolon", " ": "space"}
MOST_LINES = 50

# The names of columns, the surest first. Single letters are not here: h, r and t are as likely
# to be the names of things.
HEADERS: Mapping[str, str] = {
    "head": "head head_id head_entity subject subject_id subj source source_id src from start "
    "start_id :start_id entity1 node1",
    "relation": "relation relation_id relation_type rel predicate predicate_id pred property "
    "metaedge edge edge_type relationship relationship_type type :type label",
    "tail": "tail tail_id tail_entity object object_id obj target target_id dst to end end_id "
    ":end_id entity2 node2",
    "entity": "entity entity_id id node node_id iri uri name",
    "type": "type types kind class category entity_type node_type",
    "label": "label name title text entity_name entity_label",
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
class Layout:
    """What is known of a text file after a look at it; ``places`` are those of the columns."""

    path: Path
    delimiter: str
    quoted: bool
    comment: str | None
    width: int
    places: Mapping[str, int]
    has_header: bool


def find_layout(path: Path, wanted: Sequence[str], form: TextFormat, *, extra: bool) -> Layout:
    """Look at the first lines of a text file; what the format gives is not guessed."""
    lines = first_lines(path, form.comment, MOST_LINES)
    if not lines:
        raise InputError(f"{path}: the file is empty.")
    delimiter = form.delimiter or _guess_delimiter(path, lines, len(wanted))
    quoted = delimiter != "\t" if form.quoted is None else form.quoted
    rows = split_start(lines, delimiter, quoted)
    width = max(_usual([len(row) for row in rows]), len(wanted))
    places, has_header = find_places(path, wanted, form, rows[0], width, extra=extra)
    return Layout(path, delimiter, quoted, form.comment, width, places, has_header)


def find_places(
    path: Path,
    wanted: Sequence[str],
    form: TextFormat,
    first: Sequence[str],
    width: int,
    *,
    extra: bool,
) -> tuple[dict[str, int], bool]:
    """Return the place of each wanted column, and whether the first row is a header.

    A table without a header has just the wanted columns, or more where ``extra`` are ignored.
    """
    header = {} if form.header is False else _find_header(first, wanted)
    if form.columns is not None:
        places = _given_columns(path, wanted, form.columns, first, width)
        by_name = any(isinstance(column, str) for column in form.columns)
        return places, by_name or bool(header or form.header)
    if header:
        return header, True
    if width < len(wanted):
        raise InputError(f"{path}: {width} columns where {_listed(wanted)} are needed.")
    if width > len(wanted) and not extra:
        raise InputError(
            f"{path}: {width} columns and no header that names {_listed(wanted)}; "
            "say which columns they are."
        )
    return {name: place for place, name in enumerate(wanted)}, bool(form.header)


def _usual(counts: Sequence[int]) -> int:
    return Counter(counts).most_common(1)[0][0]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1]


def _guess_delimiter(path: Path, lines: Sequence[str], at_least: int) -> str:
    """Return the delimiter that gives most lines the same number of columns, enough of them."""

    def agreement(delimiter: str) -> float:
        counts = [len(row) for row in split_start(lines, delimiter, delimiter != "\t")]
        usual = _usual(counts)
        return counts.count(usual) / len(counts) if usual >= at_least else 0.0

    best = max(DELIMITERS, key=agreement)  # the first of equals
    if agreement(best) == 0.0:
        raise InputError(
            f"{path}: its first line {lines[0][:60]!r} has fewer than {at_least} columns by tab, "
            "comma, semicolon and space; give the delimiter."
        )
    return best


def _find_header(row: Sequence[str], wanted: Sequence[str]) -> dict[str, int]:
    """Return the place of each wanted column where the row is a header, else nothing."""
    names = [field.strip().lower() for field in row]
    places: dict[str, int] = {}
    for column in wanted:
        known = (name for name in HEADERS[column].split() if name in names)
        free = (names.index(name) for name in known)
        place = next((place for place in free if place not in places.values()), None)
        if place is None:
            return {}
        places[column] = place
    return places


def _given_columns(
    path: Path,
    wanted: Sequence[str],
    columns: Sequence[str | int],
    first: Sequence[str],
    width: int,
) -> dict[str, int]:
    if len(columns) != len(wanted):
        raise InputError(f"Give {len(wanted)} columns, for {_listed(wanted)}, not {len(columns)}.")
    header = [field.strip() for field in first]
    places = {}
    for name, column in zip(wanted, columns, strict=True):
        if isinstance(column, str) and column not in header:
            known = ", ".join(map(repr, header))
            raise InputError(f"{path}: there is no column {column!r}; the columns are {known}.")
        place = header.index(column) if isinstance(column, str) else column - 1
        if not 0 <= place < width:
            raise InputError(f"{path}: there is no column {column}; they count from 1 to {width}.")
        places[name] = place
    if len(set(places.values())) < len(places):
        raise InputError(f"{_listed(wanted).capitalize()} stand in columns of their own.")
    return places

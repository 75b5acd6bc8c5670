"""What is said about entities besides the triples: their types and labels, in files or names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.readers.layout import TextFormat
from knowledge_sheaves.graph.readers.tables import SUFFIXES, read_table
from knowledge_sheaves.graph.type_rules import TypesOf

TYPE_FILES = ("entity_types", "types", "entity2types")
LABEL_FILES = ("entity_names", "labels", "entity_labels")
RELATION_LABEL_FILES = ("relation_names", "relation_labels")


def find_file(
    folder: Path, stems: Sequence[str], suffixes: Sequence[str] = SUFFIXES
) -> Path | None:
    """Return the one file in the folder with one of these names; two of them are an error."""
    found = [
        folder / f"{stem}{suffix}"
        for stem in stems
        for suffix in suffixes
        if (folder / f"{stem}{suffix}").is_file()
    ]
    if len(found) > 1:
        names = " and ".join(path.name for path in found)
        raise InputError(f"{folder}: {names} say the same thing; keep one of them.")
    return found[0] if found else None


def read_types(
    path: Path, separator: str | None = None, columns: Sequence[str | int] | None = None
) -> dict[str, list[str]]:
    """Read a table of entity and type; an entity may have several rows.

    With a separator, one field may hold several types. ``columns`` says which two columns they are.
    """
    frame = read_table(path, ("entity", "type"), TextFormat(columns=columns))
    if separator is not None:
        frame = frame.with_columns(pl.col("type").str.split(separator)).explode("type")
        frame = frame.filter(pl.col("type") != "")
    grouped = frame.group_by("entity", maintain_order=True).agg("type")
    return dict(grouped.iter_rows())


def read_labels(path: Path) -> dict[str, str]:
    """Read a table of entity and label, of which the first counts; more columns are ignored."""
    frame = read_table(path, ("entity", "label"), TextFormat(), extra=True)
    return dict(frame.unique("entity", keep="first", maintain_order=True).iter_rows())


def read_relation_labels(path: Path) -> dict[str, str]:
    """Read a table of relation and label in the same way."""
    frame = read_table(path, ("relation", "label"), TextFormat(), extra=True)
    return dict(frame.unique("relation", keep="first", maintain_order=True).iter_rows())


def types_from_names(names: Sequence[str], pattern: str) -> dict[str, str]:
    """Return the types that names carry: what the group of a regular expression matches.

    The expression is matched from the start of the name; where it does not match, there is
    no type.

    >>> types_from_names(["concept_city_paris", "48.85,2.35"], "concept_([a-z]+)_")
    {'concept_city_paris': 'city'}
    >>> types_from_names(["Gene::2625"], "(.+?)::")
    {'Gene::2625': 'Gene'}
    """
    try:
        expression = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise InputError(f"{pattern!r} is not a regular expression: {error}.") from None
    if expression.groups != 1:
        raise InputError(
            f"The regular expression {pattern!r} needs one group in parentheses, for the type; "
            f"it has {expression.groups}."
        )
    matches = ((name, expression.match(name)) for name in names)
    return {name: found[1] for name, found in matches if found and found[1]}


def types_of(
    given: TypesOf | str | Path,
    names: Sequence[str],
    separator: str | None,
    columns: Sequence[str | int] | None = None,
) -> tuple[TypesOf | None, tuple[str, ...]]:
    """Return the types that the user points to, and what to note about them."""
    if isinstance(given, Mapping):
        return given, ()
    if given == "none":
        return None, ()
    if not str(given).startswith("regex:"):
        return read_types(Path(given), separator, columns), ()
    found = types_from_names(names, str(given).removeprefix("regex:"))
    without = len(names) - len(found)
    note = f"{without} of {len(names)} names carry no type."
    return found, (note,) if without else ()

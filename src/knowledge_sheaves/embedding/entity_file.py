"""The names of a model's entities as a file of lines: name, type and label, divided by tabs.

Of a large graph the names stay in columns: millions of strings of Python would take gigabytes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from knowledge_sheaves.embedding.folder import ESCAPES, HEADER, read_text
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.files import encoded
from knowledge_sheaves.graph import IntArray, KnowledgeGraph, Schema, Vocabulary

LARGE = 1 << 24
"""Files from so many bytes on are read in columns."""
AT_ONCE = 1 << 18
"""How many lines are written at a time."""


def write_entities(path: Path, graph: KnowledgeGraph) -> None:
    """Write a line for every entity, in the order of ids."""
    escape = str.maketrans(ESCAPES)
    types = [kind.name.translate(escape) for kind in graph.schema.types]
    labels = graph.labels or {}
    kinds = graph.entity_types
    names = iter(graph.entities)
    with path.open("wb") as file:
        file.write(encoded("\t".join(HEADER) + "\n"))
        for start in range(0, len(kinds), AT_ONCE):
            part = kinds[start : start + AT_ONCE].tolist()
            lines = [
                f"{next(names).translate(escape)}\t{types[kind]}\t"
                f"{labels.get(place, '').translate(escape)}\n"
                for place, kind in enumerate(part, start)
            ]
            file.write(encoded("".join(lines)))


def read_entities(path: Path, schema: Schema, train: IntArray) -> KnowledgeGraph:
    """The graph whose entities a file names."""
    found = _in_columns(path, schema) if path.stat().st_size >= LARGE else None
    entities, types, labels = _line_by_line(path, schema) if found is None else found
    return KnowledgeGraph(schema, entities, types, *train.T, labels=labels or None)


Entities = tuple[Vocabulary, IntArray, dict[int, str]]


def _in_columns(path: Path, schema: Schema) -> Entities | None:
    """Read a file by polars; None where a person is to be told what is wrong with it."""
    try:
        table = pl.read_csv(
            path,
            separator="\t",
            quote_char=None,
            schema=dict.fromkeys(HEADER, pl.String),
        ).fill_null("")
    except pl.exceptions.PolarsError:
        return None
    with path.open("rb") as file:
        if file.readline() != encoded("\t".join(HEADER) + "\n"):
            return None
    for name in HEADER:
        escaped = table[name].str.contains("\\", literal=True)
        if escaped.any():
            places = escaped.arg_true()
            plain = [_unescape(text) for text in table[name].gather(places).to_list()]
            table = table.with_columns(table[name].scatter(places, plain))
    kinds = table["type"].unique(maintain_order=True)
    ids = schema.type_names.ids(kinds.to_list())
    types = table["type"].replace_strict(kinds, pl.Series(ids)).to_numpy()
    places = (table["label"] != "").arg_true()
    labels = zip(places.to_list(), table["label"].gather(places).to_list(), strict=True)
    return Vocabulary(table["name"].rechunk()), np.asarray(types, np.int64), dict(labels)


def _line_by_line(path: Path, schema: Schema) -> Entities:
    names: list[str] = []
    kinds: list[str] = []
    labels: dict[int, str] = {}
    header, *lines = read_text(path).removesuffix("\n").split("\n")
    if tuple(header.split("\t")) != HEADER:
        raise InputError(f"the first line must be {' '.join(HEADER)}, divided by tabs.")
    for place, line in enumerate(lines):
        fields_ = line.split("\t")
        if len(fields_) != len(HEADER):
            raise InputError(f"line {place + 2} has {len(fields_)} fields, not {len(HEADER)}.")
        if "\\" in line:
            fields_ = [_unescape(text) for text in fields_]
        names.append(fields_[0])
        kinds.append(fields_[1])
        if fields_[2]:
            labels[place] = fields_[2]
    return Vocabulary(names), schema.type_names.ids(kinds), labels


def _unescape(text: str) -> str:
    # A backslash pairs with what follows it, so look from the left and never twice.
    parts, rest = [], text
    while "\\" in rest:
        before, _, after = rest.partition("\\")
        parts += [before, {"t": "\t", "n": "\n", "r": "\r"}.get(after[:1], after[:1])]
        rest = after[1:]
    return "".join([*parts, rest])

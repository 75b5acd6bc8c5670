"""Triples given by names: into columns, into edges of a schema, and what to say of misfits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn, TypeAlias

import numpy as np

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.arrays import BoolArray, IntArray
from knowledge_sheaves.graph.schema import Schema
from knowledge_sheaves.graph.vocabulary import Vocabulary

Row: TypeAlias = Sequence[str]
MOST_REPORTED = 10


def transpose(rows: Iterable[Row]) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    """Return the columns of rows (head, relation, tail).

    >>> transpose([("a", "r", "b"), ("b", "r", "c")])
    (['a', 'b'], ['r', 'r'], ['b', 'c'])
    """
    table = rows if isinstance(rows, list) else list(rows)
    if not set(map(len, table)) <= {3} or str in set(map(type, table)):
        bad = next(n for n, row in enumerate(table) if isinstance(row, str) or len(row) != 3)
        raise InputError(f"Row {bad + 1}: {table[bad]!r} is not a head, a relation and a tail.")
    return [row[0] for row in table], [row[1] for row in table], [row[2] for row in table]


def pair_counts(
    relations: Sequence[str], kinds: Vocabulary, head_types: IntArray, tail_types: IntArray
) -> dict[tuple[str, str, str], int]:
    """Count each (head type, relation, tail type), in order of first appearance."""
    names = Vocabulary(dict.fromkeys(relations), kind="relation")
    width = max(len(kinds), 1)
    keys = (names.ids(relations) * width + head_types) * width + tail_types
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    return {
        (kinds[head_types[row]], relations[row], kinds[tail_types[row]]): count
        for row, count in sorted(zip(first.tolist(), counts.tolist(), strict=True))
    }


def find_edges(
    schema: Schema,
    entities: Vocabulary,
    entity_types: IntArray,
    relations: Sequence[str],
    heads: IntArray,
    tails: IntArray,
) -> IntArray:
    """Return the edge of the schema for each row; rows whose types fit none are refused."""
    edges = schema.find_edges(relations, entity_types[heads], entity_types[tails])
    wrong = edges < 0
    if wrong.any():
        refuse(schema, entities, entity_types, wrong, relations.__getitem__, heads, tails)
    return edges


def refuse(
    schema: Schema,
    entities: Vocabulary,
    entity_types: IntArray,
    wrong: BoolArray,
    relation_of: Callable[[int], str],
    heads: IntArray,
    tails: IntArray,
) -> NoReturn:
    """Raise an error with the first offending triples: their rows (from 1), names and types."""

    def sentence(row: int) -> str:
        head, tail = int(heads[row]), int(tails[row])
        name = relation_of(row)
        given = f"{kinds[entity_types[head]]} to {kinds[entity_types[tail]]}"
        parts = (schema.relations[edge] for edge in schema.edges(name))
        allowed = " or ".join(f"{part.head} to {part.tail}" for part in parts)
        return (
            f"row {row + 1}: ({entities[head]}, {name}, {entities[tail]}) goes from {given}, "
            f"but {name!r} goes from {allowed}"
        )

    kinds = schema.type_names
    rows = np.flatnonzero(wrong)
    told = "; ".join(sentence(row) for row in rows[:MOST_REPORTED].tolist())
    more = f"; and {len(rows) - MOST_REPORTED} more" if len(rows) > MOST_REPORTED else ""
    counted = "1 triple does" if len(rows) == 1 else f"{len(rows)} triples do"
    raise InputError(f"{counted} not fit the schema: {told}{more}.")

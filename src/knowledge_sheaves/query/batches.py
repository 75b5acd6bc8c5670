"""Queries grouped by shape: what is the same is data once, what differs is rows of ids."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from knowledge_sheaves.graph import IntArray, KnowledgeGraph
from knowledge_sheaves.graph.arrays import check_ids
from knowledge_sheaves.query.pattern import Pattern, Query, Shape


@dataclass(frozen=True)
class Batch:
    """Patterns of one shape: which query each belongs to, and its entities and relations in rows.

    ``targets`` are the numbers that the shape gives to the target variables.
    """

    shape: Shape
    targets: tuple[int, ...]
    queries: IntArray
    entities: IntArray
    relations: IntArray

    def check(self, graph: KnowledgeGraph) -> None:
        """Refuse constants that the graph does not have."""
        check_ids(self.entities.ravel(), graph.num_entities, "Entities of a query")
        names = graph.schema.relation_names
        check_ids(self.relations.ravel(), len(names), "Relations of a query")


def batches(queries: Iterable[Query]) -> list[Batch]:
    """Group the patterns of queries by shape; a union has a pattern in several places.

    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "s", "c")])
    >>> rows = [("a", "r", "?x"), ("?x", "s", "c"), ("b", "s", "?x")]
    >>> asked = [Query.from_triples([row], "?x", graph) for row in rows]
    >>> [batch.queries.tolist() for batch in batches(asked)]
    [[0, 2], [1]]
    """
    groups: dict[tuple[Shape, tuple[int, ...]], list[tuple[int, Pattern]]] = {}
    for number, query in enumerate(queries):
        for pattern in query.patterns:
            targets = tuple(pattern.variables.index(target) for target in query.targets)
            groups.setdefault((pattern.shape, targets), []).append((number, pattern))
    return [_batch(*key, members) for key, members in groups.items()]


def _batch(shape: Shape, targets: tuple[int, ...], members: list[tuple[int, Pattern]]) -> Batch:
    numbers = np.array([number for number, _ in members], np.int64)
    constants = [pattern.constants for _, pattern in members]
    entities, relations = (
        np.array([each[side] for each in constants], np.int64).reshape(len(members), -1)
        for side in (0, 1)
    )
    return Batch(shape, targets, numbers, entities, relations)

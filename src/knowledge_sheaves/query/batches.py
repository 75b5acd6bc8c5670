"""Queries grouped by shape: what is the same is data once, what differs is rows of ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from knowledge_sheaves.graph import IntArray, KnowledgeGraph
from knowledge_sheaves.graph.arrays import check_ids
from knowledge_sheaves.query.pattern import Pattern, Query, Term, Variable, slot_variable


@dataclass(frozen=True)
class Batch:
    """Patterns of one shape: which query each belongs to, and its entities and relations in rows.

    ``targets`` are the target variables as the shape calls them.
    """

    shape: Pattern
    targets: tuple[Variable, ...]
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
    groups: dict[tuple[Pattern, tuple[Variable, ...]], list[tuple[int, Pattern]]] = {}
    for number, query in enumerate(queries):
        for pattern in query.patterns:
            places = map(pattern.variables.index, query.targets)
            key = pattern.shape, tuple(map(slot_variable, places))
            groups.setdefault(key, []).append((number, pattern))
    return [_batch(*key, members) for key, members in groups.items()]


def _batch(
    shape: Pattern, targets: tuple[Variable, ...], members: list[tuple[int, Pattern]]
) -> Batch:
    numbers = np.array([number for number, _ in members], np.int64)
    constants = [pattern.constants for _, pattern in members]
    entities, relations = (
        np.array([each[side] for each in constants], np.int64).reshape(len(members), -1)
        for side in (0, 1)
    )
    return Batch(shape, targets, numbers, entities, relations)


def canonical(query: Query) -> Query:
    """The same query with variables called by their roles: ?t0 … for targets, ?v0 … for others.

    >>> from knowledge_sheaves.query.pattern import Edge
    >>> canonical(Query(("?film",), (Pattern((Edge(3, 0, "?film"),)),))).targets
    ('?t0',)
    """
    names: dict[Term, Term] = {t: Variable(f"?t{i}") for i, t in enumerate(query.targets)}
    for pattern in query.patterns:
        for variable in pattern.all_variables:
            names.setdefault(variable, Variable(f"?v{len(names)}"))
    return query.map(lambda term: names.get(term, term))


def alike(queries: Sequence[Query]) -> list[Query]:
    """Queries of one shape with variables called alike: as they are, or else `canonical`."""
    first = queries[0]
    names = [pattern.all_variables for pattern in first.patterns]
    for query in queries:
        mine = [pattern.all_variables for pattern in query.patterns]
        if query.targets != first.targets or mine != names:
            return [canonical(query) for query in queries]
    return list(queries)


def by_shape(queries: Sequence[Query]) -> dict[object, list[int]]:
    """The places of queries that can be solved together: equal shapes, targets in equal places."""
    groups: dict[object, list[int]] = {}
    for place, query in enumerate(queries):
        named = canonical(query)
        key = tuple((pattern.shape, pattern.variables) for pattern in named.patterns)
        groups.setdefault((named.targets, key), []).append(place)
    return groups


def slices(length: int, step: int) -> Iterator[slice]:
    """Cut a range into pieces of at most ``step``.

    >>> list(slices(5, 3))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    step = max(1, step)
    return (slice(start, min(start + step, length)) for start in range(0, length, step))

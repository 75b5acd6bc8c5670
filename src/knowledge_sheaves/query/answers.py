"""What every solver returns: a score for every candidate of every query, best answers first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query.pattern import Edge, Pattern, Query, Term


@dataclass(frozen=True)
class Answer:
    """One answer: names of the targets, how good it is, and whether the facts hold it already."""

    names: tuple[str, ...]
    energy: float
    probability: float | None
    rank: int
    known: bool | None = None


@dataclass(frozen=True, eq=False)
class Answers:
    """The best answers of one query, in order.

    ``ids`` is (answers, targets); ``energies`` and ``probabilities`` are (answers,). ``notes`` say
    what a careful reader should know: where candidates were cut, which facts were remembered.
    """

    query: Query
    graph: KnowledgeGraph
    solver: str
    ids: Tensor
    energies: Tensor
    probabilities: Tensor | None = None
    known: Tensor | None = None
    notes: tuple[str, ...] = ()
    explanation: Any = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, place: int) -> Answer:
        names = tuple(self.graph.entities.names(self.ids[place].tolist()))
        probability = None if self.probabilities is None else float(self.probabilities[place])
        known = None if self.known is None else bool(self.known[place])
        return Answer(names, float(self.energies[place]), probability, place + 1, known)

    def __iter__(self) -> Any:
        return (self[place] for place in range(len(self)))

    def to_polars(self) -> Any:
        """The answers as a polars frame, a column per target."""
        import polars as pl

        return pl.DataFrame(self._columns())

    def to_pandas(self) -> Any:
        """The answers as a pandas frame, a column per target."""
        import pandas as pd

        return pd.DataFrame(self._columns())

    def _columns(self) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {"rank": list(range(1, len(self) + 1))}
        for place, target in enumerate(self.query.targets):
            ids = self.ids[:, place].tolist()
            columns[target.removeprefix("?")] = self.graph.entities.names(ids)
        columns["energy"] = self.energies.tolist()
        if self.probabilities is not None:
            columns["probability"] = self.probabilities.tolist()
        if self.known is not None:
            columns["known"] = self.known.tolist()
        return columns


def canonical(query: Query) -> Query:
    """The same query with variables called by their roles: ?t0 … for targets, ?v0 … for others.

    >>> canonical(Query(("?film",), (Pattern((Edge(3, 0, "?film"),)),))).targets
    ('?t0',)
    """
    names = {target: f"?t{i}" for i, target in enumerate(query.targets)}
    others = (v for pattern in query.patterns for inner in pattern.walk() for v in inner.variables)
    for variable in others:
        names.setdefault(variable, f"?v{len(names)}")
    return Query(
        tuple(names[t] for t in query.targets), tuple(_rename(p, names) for p in query.patterns)
    )


def alike(queries: Sequence[Query]) -> list[Query]:
    """Queries of one shape with variables called alike: as they are, or else `canonical`."""
    first = queries[0]
    names = [inner.variables for pattern in first.patterns for inner in pattern.walk()]
    for query in queries:
        mine = [inner.variables for pattern in query.patterns for inner in pattern.walk()]
        if query.targets != first.targets or mine != names:
            return [canonical(query) for query in queries]
    return list(queries)


def _rename(pattern: Pattern, names: dict[str, str]) -> Pattern:
    def term(old: Term) -> Term:
        return names.get(old, old) if isinstance(old, str) else old

    return Pattern(
        tuple(Edge(term(e.head), e.relation, term(e.tail)) for e in pattern.edges),
        tuple(_rename(inner, names) for inner in pattern.without),
        tuple((term(a), term(b)) for a, b in pattern.different),
        tuple((names.get(v, v), entity) for v, entity in pattern.bindings),
    )


def by_shape(queries: Sequence[Query]) -> dict[object, list[int]]:
    """The places of queries that can be solved together: equal shapes, targets in equal places."""
    groups: dict[object, list[int]] = {}
    for place, query in enumerate(queries):
        named = canonical(query)
        key = tuple((pattern.shape, pattern.variables) for pattern in named.patterns)
        groups.setdefault((named.targets, key), []).append(place)
    return groups


BLOCK = 64
"""How many neighbouring values `top` looks at as one."""


def top(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The smallest values of every row and their places, ascending; NaN counts as largest.

    In long rows only some blocks are looked into: the k smallest values lie in the k blocks with
    the smallest minima, and minima are found ten times faster than places.

    >>> top(torch.tensor([[3.0, 1.0, 2.0]]), 2)
    (tensor([[1., 2.]]), tensor([[1, 2]]))
    """
    count, width = min(count, values.shape[-1]), values.shape[-1]
    blocks = width // BLOCK
    if blocks < 4 * count:
        return _smallest(values, count)
    minima = values[..., : blocks * BLOCK].unflatten(-1, (blocks, BLOCK)).amin(-1)
    if minima.isnan().any():  # a minimum is NaN if one value is
        return _smallest(values, count)
    chosen = _smallest(minima, count)[1]
    inside = (chosen.unsqueeze(-1) * BLOCK + torch.arange(BLOCK)).flatten(-2)
    rest = torch.arange(blocks * BLOCK, width).expand(*inside.shape[:-1], -1)
    places = torch.cat([inside, rest], -1)
    best, where = _smallest(values.gather(-1, places), count)
    return best, places.gather(-1, where)


def _smallest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    best = torch.topk(values, count, dim=-1, largest=False, sorted=True)
    return best.values, best.indices

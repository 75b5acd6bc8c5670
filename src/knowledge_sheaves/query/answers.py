"""What every solver returns: a score for every candidate of every query, best answers first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query.pattern import Query


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


def by_shape(queries: Sequence[Query]) -> dict[object, list[int]]:
    """The places of queries that can be solved together: same shapes, same targets."""
    groups: dict[object, list[int]] = {}
    for place, query in enumerate(queries):
        key = (query.targets, tuple(pattern.shape for pattern in query.patterns))
        groups.setdefault(key, []).append(place)
    return groups


def top(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The smallest finite values of every row and their places, ascending."""
    count = min(count, values.shape[-1])
    best = torch.topk(values, count, dim=-1, largest=False, sorted=True)
    return best.values, best.indices

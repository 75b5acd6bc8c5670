"""Negative graphs: the triples that an assumption about the world takes to be false.

Each is, for every relation, a set of heads times a set of tails, without the known triples. That
product is never stored: it is counted, asked, walked through in chunks, or sampled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.arrays import (
    BoolArray,
    IntArray,
    as_triples,
    bisect_slices,
    columns_of,
    offsets_of,
)
from knowledge_sheaves.graph.knowledge import KnowledgeGraph

# Below this share of negatives among the candidates, drawing and rejecting is slower than listing.
LEAST_ACCEPTANCE = 0.01


class _Side(NamedTuple):
    """For each relation, the sorted entities ``pool[start : start + count]`` at one of its ends."""

    pool: IntArray
    starts: IntArray
    counts: IntArray

    def entities(self, relations: IntArray, places: IntArray) -> IntArray:
        return np.asarray(self.pool[self.starts[relations] + places])

    def contains(self, relations: IntArray, entities: IntArray) -> BoolArray:
        starts = self.starts[relations]
        stops = starts + self.counts[relations]
        found = bisect_slices(self.pool, starts, stops, entities)
        after = bisect_slices(self.pool, found, stops, entities, right=True)
        return after > found


class NegativeGraph(ABC):
    """Triples over the entities and the schema of a graph that count as false."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.graph = graph

    @abstractmethod
    def _make_sides(self) -> tuple[_Side, _Side]:
        """Return the heads and the tails that each relation may combine."""

    @cached_property
    def _sides(self) -> tuple[_Side, _Side]:
        return self._make_sides()

    @cached_property
    def _sizes(self) -> list[int]:
        # Python's integers: a thousand relations over 10^8 entities overflow int64.
        heads, tails = self._sides
        counts = zip(heads.counts.tolist(), tails.counts.tolist(), strict=True)
        return [num_heads * num_tails for num_heads, num_tails in counts]

    @property
    def num_edges(self) -> int:
        """How many negative triples there are, exactly."""
        relations = self.graph.triples[:, 1]
        known = np.bincount(relations, minlength=self.graph.num_relations).tolist()
        return sum(size - here for size, here in zip(self._sizes, known, strict=True) if size)

    def chunks(self, size: int = 65_536) -> Iterator[IntArray]:
        """Walk through the negative triples, at most ``size`` at a time, relation by relation."""
        for relation, total in enumerate(self._sizes):
            for start in range(0, total, size):
                places = np.arange(start, min(start + size, total))
                part = self._candidates(np.full(len(places), relation), places)
                part = part[~self.graph.contains(part)]
                if len(part):
                    yield part

    def __iter__(self) -> Iterator[IntArray]:
        return self.chunks()

    def edges(self, limit: int = 10_000_000) -> IntArray:
        """Return all negative triples at once; more than ``limit`` are an error."""
        if self.num_edges > limit:
            raise InputError(
                f"This negative graph has {self.num_edges} triples, more than the limit {limit}: "
                "iterate over its chunks or sample from it."
            )
        return np.concatenate([np.zeros((0, 3), self.graph.id_dtype), *self.chunks()])

    def contains(self, triples: npt.ArrayLike) -> BoolArray:
        """Tell which triples of ids count as false."""
        heads, relations, tails = columns_of(as_triples(triples))
        unknown = ~self.graph.contains(triples)
        inside = self._sides[0].contains(relations, heads)
        return unknown & inside & self._sides[1].contains(relations, tails)

    def sample(self, n: int, rng: np.random.Generator | int | None = None) -> IntArray:
        """Draw n negative triples uniformly, with replacement; ``rng`` may be a seed."""
        generator = np.random.default_rng(rng)
        num_edges, total = self.num_edges, sum(self._sizes)
        if n == 0:
            return np.zeros((0, 3), self.graph.id_dtype)
        if num_edges == 0:
            raise InputError("There is no negative triple to sample: every candidate is known.")
        acceptance = num_edges / total
        if acceptance < LEAST_ACCEPTANCE:
            everything = self.edges(limit=num_edges)
            return everything[generator.integers(len(everything), size=n)]
        weights = np.array([size / total for size in self._sizes])
        drawn: list[IntArray] = []
        missing = n
        while missing > 0:
            part = self._draw(int(missing / acceptance * 1.1) + 16, weights, generator)
            drawn.append(part[~self.graph.contains(part)][:missing])
            missing -= len(drawn[-1])
        return np.concatenate(drawn)

    def _draw(self, n: int, weights: npt.NDArray[np.float64], rng: np.random.Generator) -> IntArray:
        relations = rng.choice(len(weights), size=n, p=weights / weights.sum())
        ends = [
            side.entities(relations, rng.integers(0, side.counts[relations]))
            for side in self._sides
        ]
        return self._stack(ends[0], relations, ends[1])

    def _candidates(self, relations: IntArray, places: IntArray) -> IntArray:
        heads, tails = self._sides
        row, column = np.divmod(places, tails.counts[relations])
        return self._stack(
            heads.entities(relations, row), relations, tails.entities(relations, column)
        )

    def _stack(self, heads: IntArray, relations: IntArray, tails: IntArray) -> IntArray:
        return np.stack((heads, relations, tails), axis=1).astype(self.graph.id_dtype)

    def _of_type(self, types: IntArray) -> _Side:
        order, offsets = self.graph.by_type
        return _Side(order, offsets[types], np.diff(offsets)[types])

    def _seen(self, entities: IntArray) -> _Side:
        """For each relation, the distinct entities seen at one end of its triples."""
        width = max(self.graph.num_entities, 1)
        keys = np.unique(self.graph.triples[:, 1].astype(np.int64) * width + entities)
        counts = np.bincount(keys // width, minlength=self.graph.num_relations)
        return _Side(keys % width, offsets_of(counts)[:-1], counts)


class ClosedWorld(NegativeGraph):
    """What is not known is false: all triples of the right types that are not in the graph.

    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b")])
    >>> ClosedWorld(graph).edges().tolist()
    [[0, 0, 0], [1, 0, 0], [1, 0, 1]]
    """

    def _make_sides(self) -> tuple[_Side, _Side]:
        schema = self.graph.schema.graph
        return self._of_type(schema.heads), self._of_type(schema.tails)


class OpenWorld(NegativeGraph):
    """What is not known may be true: no negative triple at all.

    >>> OpenWorld(KnowledgeGraph.from_triples([("a", "r", "b")])).num_edges
    0
    """

    def _make_sides(self) -> tuple[_Side, _Side]:
        nobody = np.zeros(self.graph.num_relations, np.int64)
        nothing = _Side(np.zeros(0, np.int64), nobody, nobody)
        return nothing, nothing


class LocalClosedWorld(NegativeGraph):
    """What is known of a head and a relation is all: other tails of the right type are false.

    With ``by="head"`` the other heads of a known relation and tail are.

    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b")])
    >>> LocalClosedWorld(graph).edges().tolist()
    [[0, 0, 0]]
    >>> LocalClosedWorld(graph, by="head").edges().tolist()
    [[1, 0, 1]]
    """

    def __init__(self, graph: KnowledgeGraph, by: Literal["tail", "head"] = "tail") -> None:
        super().__init__(graph)
        if by not in ("tail", "head"):
            raise InputError(f"Negatives are made by 'tail' or by 'head', not by {by!r}.")
        self.by = by

    def _make_sides(self) -> tuple[_Side, _Side]:
        schema, triples = self.graph.schema.graph, self.graph.triples
        if self.by == "tail":
            return self._seen(triples[:, 0]), self._of_type(schema.tails)
        return self._of_type(schema.heads), self._seen(triples[:, 2])

"""Subgraphs, pairs of a true and a false one, and scoring functions V on them.

The paper's contrastive learning compares V(H) with V(H̃) for chosen pairs of a subgraph H of the
knowledge graph and a subgraph H̃ of the negative graph, of any shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import IntArray, KnowledgeGraph
from knowledge_sheaves.graph.negative import NegativeGraph


class HasEnergies(Protocol):
    """All that is asked of an embedding."""

    def energies(self, triples: npt.ArrayLike | None = None) -> Tensor: ...


class Subgraphs(NamedTuple):
    """Several subgraphs in one array: triple i belongs to subgraph ``owner[i]``.

    ``size`` says how many there are where the last of them have no triples.

    >>> Subgraphs.of([[(0, 0, 1), (1, 0, 2)], [(0, 0, 2)]]).owner.tolist()
    [0, 0, 1]
    """

    triples: IntArray
    owner: IntArray
    size: int | None = None

    @classmethod
    def single(cls, triples: npt.ArrayLike) -> Subgraphs:
        """Every triple a subgraph of its own."""
        rows = np.asarray(triples, dtype=np.int64).reshape(-1, 3)
        return cls(rows, np.arange(len(rows)))

    @classmethod
    def of(cls, subgraphs: Iterable[npt.ArrayLike]) -> Subgraphs:
        """A subgraph from each list of triples; an empty list is the empty one, where V is 0."""
        parts = [np.asarray(rows, dtype=np.int64).reshape(-1, 3) for rows in subgraphs]
        triples = np.concatenate([np.zeros((0, 3), np.int64), *parts])
        owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        return cls(triples, owner, len(parts))

    @property
    def number(self) -> int:
        """How many subgraphs there are."""
        if self.size is not None:
            return self.size
        return int(self.owner.max()) + 1 if len(self.owner) else 0

    def energies(self, embedding: HasEnergies) -> Tensor:
        """V(H) for every subgraph H, the sum over its triples."""
        return self.total(embedding.energies(self.triples))

    def total(self, values: Tensor) -> Tensor:
        """The sum of the values of its triples, for every subgraph."""
        owner = torch.from_numpy(self.owner).to(values.device)
        return values.new_zeros(self.number).index_add(0, owner, values)

    def take(self, places: IntArray) -> Subgraphs:
        """Some of the subgraphs, in the order of ``places``."""
        order = np.argsort(self.owner, kind="stable")
        sorted_ = self.owner[order]
        first = np.searchsorted(sorted_, places)
        sizes = np.searchsorted(sorted_, places, side="right") - first
        owner = np.repeat(np.arange(len(places)), sizes)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return Subgraphs(self.triples[order[first[owner] + within]], owner, len(places))

    def turned(self, relations: int) -> Subgraphs:
        """The same read backwards, by the reciprocals of ``relations`` relations."""
        rows = self.triples[:, ::-1] + np.array([0, relations, 0])
        return self._replace(triples=rows)

    def __add__(self, other: Subgraphs) -> Subgraphs:  # type: ignore[override]
        triples = np.concatenate([self.triples, other.triples])
        owner = np.concatenate([self.owner, other.owner + self.number])
        return Subgraphs(triples, owner, self.number + other.number)


Scoring = Callable[[Any, Subgraphs], Tensor]
"""A scoring function V: an embedding and subgraphs, to a number for each of them."""


def total_energy(embedding: HasEnergies, subgraphs: Subgraphs) -> Tensor:
    """The sum of the energies of the edges: the sheaf's own V."""
    return subgraphs.energies(embedding)


def worst_edge(embedding: HasEnergies, subgraphs: Subgraphs) -> Tensor:
    """The largest energy of an edge: a subgraph is as false as what is worst in it.

    >>> class Lengths:
    ...     def energies(self, triples=None):
    ...         return torch.tensor([abs(float(t - h)) for h, _, t in triples])
    >>> pair = Subgraphs.of([[(0, 0, 1), (0, 0, 5)], [(0, 0, 3), (0, 0, 3)]])
    >>> total_energy(Lengths(), pair).tolist(), worst_edge(Lengths(), pair).tolist()
    ([6.0, 6.0], [5.0, 3.0])
    """
    values = embedding.energies(subgraphs.triples)
    owner = torch.from_numpy(subgraphs.owner).to(values.device)
    out = values.new_zeros(subgraphs.number)
    return out.scatter_reduce(0, owner, values, "amax", include_self=False)


def one_by_one(score: Callable[[Any, IntArray], Tensor]) -> Scoring:
    """V from a function of an embedding and the triples of one subgraph."""

    def scores(embedding: Any, subgraphs: Subgraphs) -> Tensor:
        parts = [subgraphs.triples[subgraphs.owner == i] for i in range(subgraphs.number)]
        found = [score(embedding, part) for part in parts]
        return torch.stack(found) if found else torch.zeros(0)

    return scores


class Pairs(NamedTuple):
    """Pairs (H, H̃): the false subgraph j is paired with the true one of number ``of[j]``.

    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    >>> pairs = Pairs.by_name(graph, [([("a", "r", "b")], [("a", "r", "c"), ("c", "r", "a")])])
    >>> pairs.true.triples.tolist(), pairs.false.triples.tolist(), pairs.of.tolist()
    ([[0, 0, 1]], [[0, 0, 2], [2, 0, 0]], [0])
    """

    true: Subgraphs
    false: Subgraphs
    of: IntArray

    @classmethod
    def matched(cls, true: Subgraphs, false: Subgraphs) -> Pairs:
        """Subgraphs of the same number are a pair."""
        if true.number != false.number:
            raise InputError(
                f"Pairs need as many negative subgraphs as positive ones: {false.number} and "
                f"{true.number}."
            )
        return cls(true, false, np.arange(true.number))

    @classmethod
    def by_name(
        cls,
        graph: KnowledgeGraph,
        pairs: Iterable[tuple[Sequence[Sequence[str]], Sequence[Sequence[str]]]],
    ) -> Pairs:
        """Pairs of subgraphs, each a list of (head, relation, tail); an empty H has V = 0."""
        given = list(pairs)
        ends = (Subgraphs.of(_encode(graph, p[side]) for p in given) for side in (0, 1))
        return cls.matched(*ends)

    def take(self, places: IntArray) -> Pairs:
        """The pairs of some of the true subgraphs."""
        order = np.argsort(self.of, kind="stable")
        first = np.searchsorted(self.of[order], places)
        sizes = np.searchsorted(self.of[order], places, side="right") - first
        of = np.repeat(np.arange(len(places)), sizes)
        within = np.arange(len(of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return Pairs(self.true.take(places), self.false.take(order[first[of] + within]), of)

    def turned(self, relations: int) -> Pairs:
        """The same pairs read backwards, by the reciprocals of ``relations`` relations."""
        return Pairs(self.true.turned(relations), self.false.turned(relations), self.of)

    def __add__(self, other: Pairs) -> Pairs:  # type: ignore[override]
        of = np.concatenate([self.of, other.of + self.true.number])
        return Pairs(self.true + other.true, self.false + other.false, of)


NO_PAIRS = Pairs(Subgraphs.single([]), Subgraphs.single([]), np.zeros(0, np.int64))


def _encode(graph: KnowledgeGraph, rows: Sequence[Sequence[str]]) -> IntArray:
    named = [(str(h), str(r), str(t)) for h, r, t in rows]
    return np.asarray(graph.encode(named), dtype=np.int64).reshape(-1, 3)


def pairs_with_facts(
    graph: KnowledgeGraph,
    false: npt.ArrayLike,
    rng: np.random.Generator | int | None = None,
    by: str = "tail",
) -> Pairs:
    """Every false triple with a fact that is like it: one that differs ``by`` tail (or head) alone.

    Where the graph has none, one that differs by the other end, else any of the same relation;
    false triples of a relation without facts are left out.

    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("c", "r", "d")])
    >>> pairs_with_facts(graph, [[0, 0, 3], [1, 0, 0]], 0).true.triples.tolist()[0]
    [0, 0, 1]
    """
    generator = np.random.default_rng(rng)
    rows = np.asarray(false, dtype=np.int64).reshape(-1, 3)
    facts = np.full_like(rows, -1)
    heads, relations, tails = rows.T
    order, starts = graph.by_relation
    of_relation = np.asarray(order), np.stack([starts[relations], starts[relations + 1]], 1)
    drawn, there = _draw(*of_relation, generator)
    facts[there] = graph.triples[drawn[there]]
    for end in ("head", "tail") if by == "tail" else ("tail", "head"):  # the last one counts
        column = 2 if end == "tail" else 0
        found = (
            graph.tails_many(heads, relations)
            if end == "tail"
            else graph.heads_many(relations, tails)
        )
        drawn, there = _draw(found[0], np.stack([found[1][:-1], found[1][1:]], 1), generator)
        facts[there] = rows[there]
        facts[there, column] = drawn[there]
    paired = facts[:, 0] >= 0
    return Pairs.matched(Subgraphs.single(facts[paired]), Subgraphs.single(rows[paired]))


def _draw(
    pool: IntArray, spans: IntArray, generator: np.random.Generator
) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """One of each span of a pool, and which spans have any."""
    sizes = spans[:, 1] - spans[:, 0]
    places = spans[:, 0] + (generator.random(len(sizes)) * sizes).astype(np.int64)
    there = sizes > 0
    if not len(pool):
        return np.zeros(len(sizes), np.int64), there
    return np.asarray(pool[np.minimum(places, len(pool) - 1)], dtype=np.int64), there


def negative_pairs(
    world: NegativeGraph, count: int, rng: np.random.Generator | int | None = None
) -> Pairs:
    """Triples drawn from a negative graph, each with a fact that is like it.

    A negative graph without triples (the open world's) has no pairs.
    """
    generator = np.random.default_rng(rng)
    if not count or not world.num_edges:
        return NO_PAIRS
    by = getattr(world, "by", "tail")
    return pairs_with_facts(world.graph, world.sample(count, generator), generator, by)

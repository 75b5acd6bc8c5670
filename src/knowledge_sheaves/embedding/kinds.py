"""Kinds of embeddings, as predicates that say how many of their constraints hold.

*Consistent*: every triple has energy 0. *Contrastive*: that, and chosen subgraphs of the negative
graph do not. *γ-gapped*: in chosen pairs of subgraphs, the negative one lies higher by more than γ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import IntArray, KnowledgeGraph, LocalClosedWorld


class HasEnergies(Protocol):
    """All that the predicates ask of an embedding."""

    def energies(self, triples: npt.ArrayLike | None = None) -> Tensor: ...


class Subgraphs(NamedTuple):
    """Several subgraphs in one array: triple i belongs to subgraph ``owner[i]``."""

    triples: IntArray
    owner: IntArray

    @classmethod
    def single(cls, triples: npt.ArrayLike) -> Subgraphs:
        """Every triple a subgraph of its own."""
        rows = np.asarray(triples).reshape(-1, 3)
        return cls(rows, np.arange(len(rows)))

    def energies(self, embedding: HasEnergies) -> Tensor:
        """V(H) for every subgraph H, the sum over its triples."""
        values = embedding.energies(self.triples)
        count = int(self.owner.max()) + 1 if len(self.owner) else 0
        owner = torch.from_numpy(self.owner).to(values.device)
        return values.new_zeros(count).index_add(0, owner, values)


@dataclass(frozen=True)
class Verdict:
    """How many constraints of a kind hold; true when all do.

    >>> print(Verdict("consistent", held=3, total=4))
    not consistent: 3 of 4 constraints hold
    """

    kind: str
    held: int
    total: int

    def __bool__(self) -> bool:
        return self.held == self.total

    def __str__(self) -> str:
        word = self.kind if self else f"not {self.kind}"
        return f"{word}: {self.held} of {self.total} constraints hold"


def consistent(
    embedding: HasEnergies, triples: npt.ArrayLike | None = None, tol: float = 1e-9
) -> Verdict:
    """Whether the energy of every triple (of the graph, unless others are given) is 0."""
    energies = embedding.energies(triples)
    return Verdict("consistent", int((energies <= tol).sum()), len(energies))


def contrastive(embedding: HasEnergies, negatives: Subgraphs, tol: float = 1e-9) -> Verdict:
    """Whether the embedding is consistent and is no section on any of the negative subgraphs."""
    positive = consistent(embedding, tol=tol)
    apart = negatives.energies(embedding) > tol
    return Verdict("contrastive", positive.held + int(apart.sum()), positive.total + len(apart))


def gapped(
    embedding: HasEnergies, positive: Subgraphs, negative: Subgraphs, gamma: float
) -> Verdict:
    """Whether V(H̃) − V(H) > γ for every pair of subgraphs with the same number."""
    low, high = positive.energies(embedding), negative.energies(embedding)
    if len(low) != len(high):
        raise InputError(
            f"Pairs need as many negative subgraphs as positive ones: {len(high)} and {len(low)}."
        )
    return Verdict(f"{gamma:g}-gapped", int((high - low > gamma).sum()), len(low))


def corrupted_pairs(
    graph: KnowledgeGraph,
    by: Literal["tail", "head", "relation"] = "tail",
    count: int | None = None,
    seed: int = 0,
) -> tuple[Subgraphs, Subgraphs]:
    """Pairs of a triple and a type-correct one that is not in the graph, differing in one place.

    Pairs are sampled with replacement; ``count`` defaults to the number of triples. Triples for
    which no corruption exists are left out.
    """
    rng = np.random.default_rng(seed)
    count = graph.num_triples if count is None else count
    if by == "relation":
        return _relation_pairs(graph, count, rng)
    world = LocalClosedWorld(graph, by=by)
    if world.num_edges == 0:
        return Subgraphs.single([]), Subgraphs.single([])
    negative = np.asarray(world.sample(count, rng), dtype=np.int64)
    heads, relations, tails = negative.T
    if by == "tail":
        ids, offsets = graph.tails_many(heads, relations)
    else:
        ids, offsets = graph.heads_many(relations, tails)
    counts = np.diff(offsets)
    known = ids[offsets[:-1] + (rng.random(len(counts)) * counts).astype(np.int64)]
    positive = negative.copy()
    positive[:, 2 if by == "tail" else 0] = known
    return Subgraphs.single(positive), Subgraphs.single(negative)


def _relation_pairs(
    graph: KnowledgeGraph, count: int, rng: np.random.Generator
) -> tuple[Subgraphs, Subgraphs]:
    """Other edges of the schema between the same two types, where the graph has no such triple."""
    edges = graph.schema.graph
    same = (edges.heads[:, None] == edges.heads) & (edges.tails[:, None] == edges.tails)
    options = [np.flatnonzero(row) for row in same]
    positive = np.asarray(
        graph.triples[rng.integers(graph.num_triples, size=count)], dtype=np.int64
    )
    negative = positive.copy()
    negative[:, 1] = [rng.choice(options[r]) for r in positive[:, 1]]
    fresh = ~graph.contains(negative)
    return Subgraphs.single(positive[fresh]), Subgraphs.single(negative[fresh])

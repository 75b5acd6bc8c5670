"""Kinds of embeddings, as predicates that say how many of their constraints hold.

*Consistent*: every triple has energy 0. *Contrastive*: that, and chosen subgraphs of the negative
graph do not. *γ-gapped*: in chosen pairs of subgraphs, the negative one lies higher by more than γ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from knowledge_sheaves.embedding.subgraphs import (
    HasEnergies,
    Pairs,
    Scoring,
    Subgraphs,
    total_energy,
)
from knowledge_sheaves.graph import KnowledgeGraph, LocalClosedWorld


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


def contrastive(
    embedding: HasEnergies,
    negatives: Subgraphs,
    tol: float = 1e-9,
    scoring: Scoring = total_energy,
) -> Verdict:
    """Whether the embedding is consistent and is no section on any of the negative subgraphs.

    ``scoring`` is the function V that is above 0 there; it need not be a sum over edges.
    """
    positive = consistent(embedding, tol=tol)
    apart = scoring(embedding, negatives) > tol
    return Verdict("contrastive", positive.held + int(apart.sum()), positive.total + len(apart))


def gapped(
    embedding: HasEnergies,
    positive: Subgraphs,
    negative: Subgraphs,
    gamma: float,
    scoring: Scoring = total_energy,
) -> Verdict:
    """Whether V(H̃) − V(H) > γ for every pair of subgraphs with the same number.

    ``scoring`` is V; it need not be a sum over edges.
    """
    return gapped_pairs(embedding, Pairs.matched(positive, negative), gamma, scoring)


def gapped_pairs(
    embedding: HasEnergies, pairs: Pairs, gamma: float, scoring: Scoring = total_energy
) -> Verdict:
    """Whether V(H̃) − V(H) > γ for every pair."""
    low, high = scoring(embedding, pairs.true), scoring(embedding, pairs.false)
    gaps = high - low[pairs.of]
    return Verdict(f"{gamma:g}-gapped", int((gaps > gamma).sum()), len(gaps))


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

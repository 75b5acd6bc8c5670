"""Ranks of the answers of queries, as the BetaE benchmark takes them, and what sums them up.

Every answer that is ranked competes with all entities but the query's other answers. A query counts
as the mean over its answers, and a type of queries as the mean over its queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from torch import Tensor

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import IntArray
from knowledge_sheaves.graph.arrays import offsets_of
from knowledge_sheaves.query.facts.symbolic import SymbolicAnswers
from knowledge_sheaves.ranking.ranker import FloatArray, Lists, rank_among

AnswerSet: TypeAlias = Literal["hard", "easy", "hard-alone"]

RESAMPLES = 1_000


@dataclass(frozen=True)
class AnswerRanks:
    """The rank of each answer, query by query: ``ranks[offsets[i]:offsets[i + 1]]``.

    >>> ranks = AnswerRanks(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 3]))
    >>> ranks.reciprocal.tolist(), ranks.hits(1).tolist()
    ([0.75, 0.25], [0.5, 0.0])
    """

    ranks: FloatArray
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def reciprocal(self) -> FloatArray:
        """The mean reciprocal rank of each query; queries without a ranked answer are left out."""
        return self._means(1 / self.ranks)

    def hits(self, k: int) -> FloatArray:
        """The share of each query's answers that are among the first k."""
        return self._means((self.ranks <= k).astype(np.float64))

    def _means(self, values: FloatArray) -> FloatArray:
        counts = np.diff(self.offsets)
        rows = np.repeat(np.arange(len(counts)), counts)
        totals = np.bincount(rows, weights=values, minlength=len(counts))
        return totals[counts > 0] / counts[counts > 0]


def rank_answers(
    energies: Tensor, easy: SymbolicAnswers, hard: SymbolicAnswers, answers: AnswerSet = "hard"
) -> AnswerRanks:
    """Rank answers by energies (queries, entities), the lowest first; ties as the expected rank.

    ``hard``: hard answers, with all other easy and hard ones left out. ``easy`` and ``hard-alone``:
    one set of answers as if there were no other.

    >>> import torch
    >>> easy = SymbolicAnswers(np.array([0]), np.array([0, 1]))
    >>> hard = SymbolicAnswers(np.array([1, 3]), np.array([0, 2]))
    >>> rank_answers(torch.tensor([[0.0, 1.0, 2.0, 2.0]]), easy, hard).ranks.tolist()
    [1.0, 1.5]
    """
    ranked, filtered = ranked_and_filtered(easy, hard, answers)
    return AnswerRanks(rank_among(energies, ranked, filtered).realistic, ranked.offsets)


def ranked_and_filtered(
    easy: SymbolicAnswers, hard: SymbolicAnswers, answers: AnswerSet
) -> tuple[SymbolicAnswers, SymbolicAnswers]:
    """Which answers are ranked, and which do not compete with them."""
    if answers not in get_args(AnswerSet):
        raise InputError(
            f"The answers to rank are {', '.join(get_args(AnswerSet))}, not {answers!r}."
        )
    if answers == "hard":
        return hard, union(easy, hard)
    alone = easy if answers == "easy" else hard
    return alone, alone


def one_of_each(answers: SymbolicAnswers, seed: int = 0) -> SymbolicAnswers:
    """Draw one answer of every query that has any.

    >>> one_of_each(SymbolicAnswers(np.array([5, 5, 7]), np.array([0, 2, 2, 3]))).ids.tolist()
    [5, 7]
    """
    counts = answers.counts
    drawn = np.random.default_rng(seed).integers(np.maximum(counts, 1))
    there = counts > 0
    ids = answers.ids[(answers.offsets[:-1] + drawn)[there]]
    return SymbolicAnswers(ids, offsets_of(there.astype(np.int64)))


def take(answers: SymbolicAnswers, queries: IntArray) -> SymbolicAnswers:
    """The answers of some queries.

    >>> take(SymbolicAnswers(np.array([5, 6, 7]), np.array([0, 2, 3])), np.array([1])).ids.tolist()
    [7]
    """
    taken = Lists.of(answers).take(queries)
    return SymbolicAnswers(taken.ids, taken.offsets)


def union(first: SymbolicAnswers, second: SymbolicAnswers) -> SymbolicAnswers:
    """The answers that either has, query by query."""
    more = second.minus(first)
    rows = [np.repeat(np.arange(len(part)), part.counts) for part in (first, more)]
    order = np.argsort(np.concatenate(rows), kind="stable")
    ids = np.concatenate((first.ids, more.ids))[order]
    return SymbolicAnswers(ids, offsets_of(first.counts + more.counts))


@dataclass(frozen=True)
class QueryMetrics:
    """What sums up a type of queries; ``low`` and ``high`` hold 95 % of its resampled MRRs."""

    queries: int
    answers: int
    mrr: float
    hits_at_1: float
    hits_at_3: float
    hits_at_10: float
    low: float
    high: float

    @classmethod
    def of(cls, ranks: AnswerRanks, seed: int = 0) -> QueryMetrics:
        """Sum up ranks; the interval is drawn with the seed.

        >>> QueryMetrics.of(AnswerRanks(np.array([1.0, 2.0]), np.array([0, 1, 2]))).mrr
        0.75
        """
        reciprocal = ranks.reciprocal
        if not len(reciprocal):
            raise InputError("There are no ranks to sum up: no query has an answer of this kind.")
        low, high = interval([reciprocal], seed)
        return cls(
            queries=len(reciprocal),
            answers=len(ranks.ranks),
            mrr=float(reciprocal.mean()),
            hits_at_1=float(ranks.hits(1).mean()),
            hits_at_3=float(ranks.hits(3).mean()),
            hits_at_10=float(ranks.hits(10).mean()),
            low=low,
            high=high,
        )

    def to_dict(self) -> dict[str, int | float]:
        """Return the metrics by name."""
        return asdict(self)


def interval(groups: Sequence[FloatArray], seed: int = 0) -> tuple[float, float]:
    """The 95 % bootstrap interval of the mean of the groups' means, queries drawn within groups.

    >>> interval([np.array([0.5, 0.5]), np.array([1.0])])
    (0.75, 0.75)
    """
    rng = np.random.default_rng(seed)
    means = np.zeros(RESAMPLES)
    for values in groups:
        draws = (rng.integers(len(values), size=len(values)) for _ in range(RESAMPLES))
        means += [float(values[draw].mean()) for draw in draws]
    low, high = np.quantile(means / len(groups), (0.025, 0.975))
    return float(low), float(high)

"""Ranks of answers against their definition, one query and one answer at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.evaluation.queries import (
    AnswerRanks,
    AnswerSet,
    QueryMetrics,
    interval,
    one_of_each,
    rank_answers,
)
from knowledge_sheaves.graph.arrays import offsets_of
from knowledge_sheaves.query.facts.symbolic import SymbolicAnswers

ENTITIES = 12
Sets = list[set[int]]


def ragged(sets: Sets) -> SymbolicAnswers:
    ids = np.array([each for members in sets for each in sorted(members)], np.int64)
    return SymbolicAnswers(ids, offsets_of(np.array([len(members) for members in sets], np.int64)))


def by_definition(energies: list[float], answer: int, left_out: set[int]) -> float:
    """The mean of the best and the worst place that ties allow, not numbers as infinite."""
    values = [math.inf if math.isnan(energy) else energy for energy in energies]
    others = [values[e] for e in range(len(values)) if e != answer and e not in left_out]
    best = 1 + sum(value < values[answer] for value in others)
    worst = 1 + sum(value <= values[answer] for value in others)
    return (best + worst) / 2


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[list[float]], Sets, Sets]:
    value = st.one_of(st.integers(0, 4).map(float), st.sampled_from([math.inf, math.nan]))
    count = draw(st.integers(1, 5))
    energies = [draw(st.lists(value, min_size=ENTITIES, max_size=ENTITIES)) for _ in range(count)]
    some = st.sets(st.integers(0, ENTITIES - 1))
    return energies, [draw(some) for _ in range(count)], [draw(some) for _ in range(count)]


@pytest.mark.parametrize("answers", ["hard", "easy", "hard-alone"])
@given(case=cases())
def test_ranks_are_those_of_the_definition(
    answers: AnswerSet, case: tuple[list[list[float]], Sets, Sets]
) -> None:
    energies, easy, hard = case
    found = rank_answers(torch.tensor(energies), ragged(easy), ragged(hard), answers)
    expected = []
    for row, first, second in zip(energies, easy, hard, strict=True):
        ranked = first if answers == "easy" else second
        left_out = first | second if answers == "hard" else ranked
        expected += [by_definition(row, answer, left_out) for answer in sorted(ranked)]
    assert found.ranks.tolist() == expected


def test_a_query_counts_as_the_mean_over_its_answers() -> None:
    ranks = AnswerRanks(np.array([1.0, 4.0, 2.0, 20.0]), np.array([0, 2, 2, 3, 4]))
    found = QueryMetrics.of(ranks)
    assert (found.queries, found.answers) == (3, 4)
    assert found.mrr == pytest.approx((0.625 + 0.5 + 0.05) / 3)
    assert found.hits_at_1 == pytest.approx((0.5 + 0 + 0) / 3)
    assert found.hits_at_3 == pytest.approx((0.5 + 1 + 0) / 3)
    assert found.hits_at_10 == pytest.approx((1 + 1 + 0) / 3)
    assert 0.05 <= found.low < found.mrr < found.high <= 0.625


def test_the_interval_is_that_of_the_normal_distribution_where_queries_are_many() -> None:
    values = np.random.default_rng(1).random(2_000)
    low, high = interval([values])
    error = values.std() / math.sqrt(len(values))
    assert (low, high) == pytest.approx(
        (values.mean() - 1.96 * error, values.mean() + 1.96 * error), abs=0.2 * error
    )
    assert interval([values]) == (low, high)
    assert interval([values], seed=1) != (low, high)


def test_one_answer_of_each_query_is_drawn_evenly() -> None:
    answers = ragged([{1, 2, 3}, set(), {7}] * 2_000)
    drawn = one_of_each(answers, seed=3)
    assert drawn.counts.tolist() == [1, 0, 1] * 2_000
    first = drawn.ids[::2]
    assert np.bincount(first, minlength=4)[1:].min() > 550
    assert set(drawn.ids[1::2].tolist()) == {7}
    assert one_of_each(answers, seed=3).ids.tolist() == drawn.ids.tolist()


def test_what_cannot_be_ranked_is_an_error() -> None:
    nothing = ragged([set()])
    with pytest.raises(InputError, match="no query has an answer"):
        QueryMetrics.of(rank_answers(torch.zeros(1, 3), nothing, nothing))
    with pytest.raises(InputError, match="'soft'"):
        rank_answers(torch.zeros(1, 3), nothing, nothing, "soft")  # type: ignore[arg-type]

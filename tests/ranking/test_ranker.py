"""The one ranker against the definition, one answer at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_sheaves.graph.arrays import offsets_of
from knowledge_sheaves.ranking import rank_among, ranker
from knowledge_sheaves.ranking.ranker import Lists

ENTITIES = 12
Sets = list[set[int]]
Case = tuple[list[list[float]], Sets, Sets]


def lists(sets: Sets) -> Lists:
    ids = np.array([each for members in sets for each in sorted(members)], np.int64)
    return Lists(ids, offsets_of(np.array([len(members) for members in sets], np.int64)))


def by_definition(energies: list[float], answer: int, left_out: set[int]) -> list[int]:
    """The best and the worst place that ties allow, and the candidates; no number is the worst."""
    values = [math.inf if math.isnan(energy) else energy for energy in energies]
    others = [values[e] for e in range(len(values)) if e != answer and e not in left_out]
    best = 1 + sum(value < values[answer] for value in others)
    worst = 1 + sum(value <= values[answer] for value in others)
    # What is ruled out comes behind what is not, and does not make it harder to be the first.
    rivals = [v for v in others if v < math.inf or values[answer] == math.inf]
    return [best, worst, 1 + len(rivals)]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    value = st.one_of(st.integers(0, 4).map(float), st.sampled_from([math.inf, math.nan]))
    count = draw(st.integers(1, 5))
    energies = [draw(st.lists(value, min_size=ENTITIES, max_size=ENTITIES)) for _ in range(count)]
    some = st.sets(st.integers(0, ENTITIES - 1))
    return energies, [draw(some) for _ in range(count)], [draw(some) for _ in range(count)]


def compare(case: Case) -> None:
    energies, asked, known = case
    given_energies = torch.tensor(energies)
    before = given_energies.clone()
    found = rank_among(given_energies, lists(asked), lists(known))
    columns = (found.optimistic, found.pessimistic, found.candidates)
    assert np.stack(columns, 1).tolist() == [
        by_definition(row, answer, left_out)
        for row, answers, left_out in zip(energies, asked, known, strict=True)
        for answer in sorted(answers)
    ]
    assert torch.equal(given_energies.nan_to_num(-1), before.nan_to_num(-1))


@pytest.mark.parametrize(("few", "cached"), [(0, 1), (0, 10**6), (3, 30), (100, 10**6)])
def test_ranks_are_those_of_the_definition(
    few: int, cached: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranker, "FEW_ANSWERS", few)
    monkeypatch.setattr(ranker, "CACHED_SCORES", cached)
    check = settings(max_examples=50)(given(cases())(compare))
    check()

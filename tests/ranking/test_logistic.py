"""Fits of probabilities against their definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, log_expit

from knowledge_sheaves.ranking.logistic import DOUBT, LIKENESS, RIDGE, Additive

SLOPES = {"steep": 2.0, "flat": 0.3}


def examples(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, list[tuple[str, ...]]]:
    """Answers to two kinds of questions, which scores mean different things for."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 2))
    x = (x - x.mean(0)) / x.std(0)
    first = rng.choice(list(SLOPES), count)
    more = rng.choice(["r", "s", "t"], count)
    odds = np.array([SLOPES[name] for name in first]) * x[:, 0] - 1 + (more == "s")
    return x, rng.random(count) < expit(odds), list(zip(first, more, strict=True))


def against(
    found: Additive, x: np.ndarray, right: np.ndarray, kinds: list[tuple[str, ...]]
) -> float:
    """What is to be the least, by its definition, term by term; features are of one size."""
    own, total = np.array(list(found.own.values()))[:, 1:], 0.0
    for row, true, each in zip(x, right, kinds, strict=True):
        weights = np.array(found.own[each[0]])
        odds = weights[0] + row @ weights[1:] + sum(found.shifts[kind] for kind in each)
        total -= log_expit(odds if true else -odds)
    total += LIKENESS * ((own - own.mean(0)) ** 2).sum() / 2
    total += (RIDGE * len(x) / 1000 + 1e-6) * (own**2).sum() / 2
    return float(total + DOUBT * sum(shift**2 for shift in found.shifts.values()) / 2)


def nudged(found: Additive, rng: np.random.Generator, by: float) -> Additive:
    common = by * rng.normal()  # the weight alone is the same for all
    own = {
        name: (own[0] + common, *(np.array(own[1:]) + by * rng.normal(size=len(own) - 1)))
        for name, own in found.own.items()
    }
    shifts = {kind: shift + by * rng.normal() for kind, shift in found.shifts.items()}
    return Additive(found.weights, shifts, own)


def test_the_fit_is_the_least_of_its_definition() -> None:
    x, right, kinds = examples(400)
    found, rng = Additive.fit(x, right, kinds), np.random.default_rng(1)
    least = against(found, x, right, kinds)
    for by in (0.3, 0.1, 0.03, 0.01):
        for _ in range(20):
            assert against(nudged(found, rng, by), x, right, kinds) > least - 1e-4


def test_every_first_kind_has_weights_of_its_own_as_far_as_examples_show_it() -> None:
    found = Additive.fit(*examples(20_000))
    for name, slope in SLOPES.items():
        assert found.own[name][1] == pytest.approx(slope, abs=0.15)
        assert found.own[name][2] == pytest.approx(0, abs=0.1)
    few = Additive.fit(*examples(60))
    assert few.own["steep"][1] - few.own["flat"][1] < 1
    mean = np.mean([weights[1:] for weights in found.own.values()], axis=0)
    assert found.weights[1:] == pytest.approx(mean)


def test_a_first_kind_that_nothing_is_known_of_goes_by_the_common_weights() -> None:
    found = Additive.fit(*examples(2_000))
    x = np.array([[1.0, 0.5]])
    odds = found.weights[0] + x @ np.array(found.weights[1:])
    assert found(x, [("never seen",)]) == pytest.approx(expit(odds))


def test_least_weights_hold_for_every_first_kind() -> None:
    x, right, kinds = examples(2_000)
    found = Additive.fit(x, ~right, kinds, rising=[0.2, 0.0])
    assert all(own[1] >= 0.2 - 1e-9 and own[2] >= 0 for own in found.own.values())

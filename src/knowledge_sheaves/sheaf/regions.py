"""Regions of a stalk, and the probability that a Gaussian vector lies in one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from scipy import special
from torch import Tensor

from knowledge_sheaves.sheaf.blocks import to_blocks

MOST_TERMS = 4000
"""Terms of the series for a ball, before a sample takes its place."""
SAMPLES = 100_000
GOOD = 1e-9
"""The error at which the series ends."""


class Probability(NamedTuple):
    """A probability, how wrong it may be, and where it comes from.

    The error of a closed form is rounding, that of a series a bound, that of a sample one
    standard error.
    """

    value: Tensor
    error: Tensor
    how: Literal["closed form", "series", "sample"]


@dataclass(frozen=True, eq=False)
class HalfSpace:
    """All y with ⟨normal, y⟩ ≤ offset; ``normal`` is (dim,) or (dim, k)."""

    normal: Tensor
    offset: float

    def probability(self, mean: Tensor, covariance: Tensor) -> Probability:
        """Φ((offset − ⟨normal, μ⟩) / √⟨normal, Σ normal⟩)."""
        normal = to_blocks(self.normal.double(), covariance.shape[-3])
        centre = (normal * to_blocks(mean, covariance.shape[-3])).sum((-3, -2, -1))
        spread = (normal * (covariance @ normal)).sum((-3, -2, -1)).sqrt()
        value = torch.special.ndtr((self.offset - centre) / spread)
        return Probability(value.to(self.normal), torch.zeros_like(value), "closed form")


@dataclass(frozen=True, eq=False)
class Ball:
    """All y with ‖y − centre‖ ≤ radius; ``centre`` is (dim,) or (dim, k)."""

    centre: Tensor
    radius: float

    def probability(self, mean: Tensor, covariance: Tensor) -> Probability:
        """That of a sum Σ λ_i (z_i + b_i)² of independent squares, at most radius²."""
        n = covariance.shape[-3]
        away = to_blocks(mean, n) - to_blocks(self.centre.double(), n)
        values, vectors = torch.linalg.eigh(covariance)
        shifts = (vectors.mT @ away) / values.clamp(min=1e-300).sqrt().unsqueeze(-1)
        weights = values.unsqueeze(-1).expand_as(shifts)
        batch, size = shifts.shape[:-3], math.prod(shifts.shape[-3:])
        rows = (part.detach().reshape(-1, size).numpy() for part in (weights, shifts))
        found = [sum_of_squares(w, b, self.radius**2) for w, b in zip(*rows, strict=True)]
        value, error = (torch.tensor([row[i] for row in found]).reshape(batch) for i in (0, 1))
        sampled = any(row[2] == "sample" for row in found)
        return Probability(value.to(self.centre), error, "sample" if sampled else "series")


def sum_of_squares(
    weights: np.ndarray, shifts: np.ndarray, bound: float
) -> tuple[float, float, Literal["series", "sample"]]:
    """P(Σ λ_i (z_i + b_i)² ≤ bound) for independent standard normal z, λ > 0.

    Ruben's series (1962): the sum is a mixture of central χ² laws with n + 2j degrees of freedom,
    scaled by the smallest weight. What is left of the mixture bounds the error. Weights of very
    different size, or a far centre, need too many terms; then it is a sample.

    >>> value, error, how = sum_of_squares(np.ones(2), np.zeros(2), 2.0)
    >>> round(value, 6), how                       # 1 − exp(−1)
    (0.632121, 'series')
    """
    scale, count = float(weights.min()), len(weights)
    start = 0.5 * float(np.log(scale / weights).sum() - np.square(shifts).sum())
    if start < -600 or scale <= 0:
        return _sampled(weights, shifts, bound)
    rest = 1 - scale / weights
    pull = scale * np.square(shifts) / weights
    mixture, growth = np.zeros(MOST_TERMS), np.zeros(MOST_TERMS)
    power = np.ones(count)  # of rest, one less than j
    total, left = 0.0, 1.0
    for j in range(MOST_TERMS):
        if j == 0:
            mixture[0] = math.exp(start)
        else:
            growth[j] = float((j * pull * power + rest * power).sum())
            power = power * rest
            mixture[j] = float(growth[j:0:-1] @ mixture[:j]) / (2 * j)
        chance = float(special.chdtr(count + 2 * j, bound / scale))
        total += float(mixture[j]) * chance
        left -= float(mixture[j])
        if left * chance < GOOD:  # later terms have smaller chances still
            return float(min(1.0, total)), max(0.0, left * chance), "series"
    return _sampled(weights, shifts, bound)


def _sampled(
    weights: np.ndarray, shifts: np.ndarray, bound: float
) -> tuple[float, float, Literal["series", "sample"]]:
    noise = np.random.default_rng(0).standard_normal((SAMPLES, len(weights)))
    inside = float(((noise + shifts) ** 2 @ weights <= bound).mean())
    # One more hit and one more miss, so that neither 0 nor 1 counts as certain.
    share = (inside * SAMPLES + 1) / (SAMPLES + 2)
    return inside, math.sqrt(share * (1 - share) / SAMPLES), "sample"

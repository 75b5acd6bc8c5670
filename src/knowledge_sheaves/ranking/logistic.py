"""Probabilities that mean what they say: logistic regression, group by group, and how to judge it.

In `Logistic` a group (a relation) with examples enough gets a shift and a slope of its own on the
log-odds of all. In `Additive` an example is of several kinds (a shape of questions, each relation
in it), and each kind has a shift; the first of them has weights, too. All of these are shrunk: what
few examples say is held against what all say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from knowledge_sheaves.graph import BoolArray, IntArray
from knowledge_sheaves.ranking.ranker import FloatArray

SHIFT, SLOPE = 1.0, 0.3
"""How far, as a standard deviation, a group's shift and slope are expected from 0 and 1."""
FLATTEST = 0.05
DOUBT = 30.0
"""As much evidence, in examples counted, is held against the shift of a kind."""
LIKENESS = 30.0
"""And against weights of a first kind that differ from those of the others."""
RIDGE = 1e-3
VARIES = 1e-9
"""A feature of less spread than that does not vary."""
BINS = 15


Doubt = Callable[[FloatArray], tuple[float, FloatArray]]
"""What is held against weights, and its slope."""


@dataclass(frozen=True)
class Logistic:
    """Log-odds as a sum of weighted features, the first weight alone; groups bend it by their own.

    >>> features = np.repeat([[0.0], [1.0]], 100, axis=0)
    >>> right = np.arange(200) % 4 < np.where(features[:, 0] > 0, 3, 1)
    >>> found = Logistic.fit(features, right)
    >>> found(np.array([[0.0], [1.0]])).round(2).tolist()
    [0.25, 0.75]
    """

    weights: tuple[float, ...]
    groups: Mapping[int, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def fit(
        cls,
        features: npt.ArrayLike,
        right: npt.ArrayLike,
        groups: IntArray | None = None,
        least: int = 1,
        rising: Sequence[float] = (),
        times: FloatArray | None = None,
    ) -> Logistic:
        """The likeliest weights; groups of at least so many examples get a shift and a slope.

        ``rising`` are the least weights of the first features, ``times`` how often each example
        counts.
        """
        x, y = np.asarray(features, np.float64), np.asarray(right, np.float64)
        counted = np.ones(len(x)) if times is None else times
        found = cls(_weights(x, y, counted, rising))
        if groups is None:
            return found
        odds, own = found.odds(x), {}
        for group in np.unique(groups).tolist():
            mine = groups == group
            if np.count_nonzero(mine) >= least:
                own[int(group)] = _bend(odds[mine], y[mine], counted[mine])
        return cls(found.weights, own)

    def odds(self, features: npt.ArrayLike, groups: npt.ArrayLike | None = None) -> FloatArray:
        """The log-odds of examples."""
        x = np.asarray(features, np.float64)
        odds: FloatArray = self.weights[0] + x @ np.array(self.weights[1:])
        if groups is not None and self.groups:
            own = [self.groups.get(int(g), (0.0, 1.0)) for g in np.asarray(groups).tolist()]
            shifts, slopes = np.array(own).reshape(-1, 2).T
            odds = shifts + slopes * odds
        return odds

    def __call__(self, features: npt.ArrayLike, groups: npt.ArrayLike | None = None) -> FloatArray:
        """The probabilities of examples."""
        found: FloatArray = expit(self.odds(features, groups))
        return found


Kinds = Sequence[tuple[str, ...]]
"""The kinds that each of some examples is of."""


@dataclass(frozen=True)
class Additive:
    """Log-odds as a sum of weighted features, the first weight alone, and of shifts by kind.

    ``own`` are the weights of examples by their first kind, ``weights`` are those of all others.

    >>> kinds = [("red", "round"), ("red",)] * 3000
    >>> right = [number % 4 > 0 if "round" in kind else False for number, kind in enumerate(kinds)]
    >>> found = Additive.fit(np.zeros((6000, 1)), right, kinds)
    >>> found(np.zeros((2, 1)), [("red",), ("round", "new")]).round(1).tolist()
    [0.0, 0.5]
    """

    weights: tuple[float, ...]
    shifts: Mapping[str, float] = field(default_factory=dict)
    own: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if any(len(own) != len(self.weights) for own in self.own.values()):
            raise ValueError("not all have as many weights")

    @classmethod
    def fit(
        cls,
        features: npt.ArrayLike,
        right: npt.ArrayLike,
        kinds: Kinds,
        least: int = 1,
        rising: Sequence[float] = (),
        times: FloatArray | None = None,
    ) -> Additive:
        """The likeliest weights and shifts; the latter for kinds of at least so many examples.

        ``rising`` and ``times`` are as in `Logistic.fit`.
        """
        x, y = np.asarray(features, np.float64), np.asarray(right, np.float64)
        counted = np.ones(len(x)) if times is None else times
        often = Counter(kind for each in kinds for kind in set(each))
        places = {kind: place for place, kind in enumerate(k for k in often if often[k] >= least)}
        names, of = np.unique([each[0] for each in kinds], return_inverse=True)
        scale, parts = _Scale.of(x), _Parts(len(names), x.shape[1])
        low = scale.least(rising)
        found = _minimum(
            _columns(scale(x), of.ravel(), len(names), _members(kinds, places)),
            *(y, counted, _doubt(parts, *_ridge(low, len(x)))),
            [None, *low * len(names), *[None] * len(places)],
        )
        first, own, shifts = parts(found)
        return cls(
            scale.unscaled(first, own.mean(0)),
            dict(zip(places, shifts.tolist(), strict=True)),
            {str(name): scale.unscaled(first, w) for name, w in zip(names, own, strict=True)},
        )

    def __call__(self, features: npt.ArrayLike, kinds: Kinds) -> FloatArray:
        """The probabilities of examples; a kind that nothing is known of shifts nothing."""
        weights = {each[0]: self.own.get(each[0], self.weights) for each in set(kinds)}
        sums = {each: sum(self.shifts.get(kind, 0.0) for kind in each) for each in set(kinds)}
        own = np.array([weights[each[0]] for each in kinds]).reshape(-1, len(self.weights))
        odds = own[:, 0] + (np.asarray(features, np.float64) * own[:, 1:]).sum(1)
        found: FloatArray = expit(odds + np.array([sums[each] for each in kinds]))
        return found


def _members(kinds: Kinds, places: Mapping[str, int]) -> Any:
    """A row for every example, with how often it is of each kind."""
    pairs = [
        (row, places[kind]) for row, each in enumerate(kinds) for kind in each if kind in places
    ]
    rows, columns = np.array(pairs, np.int64).reshape(-1, 2).T
    ones = np.ones(len(rows))
    return sparse.csr_array((ones, (rows, columns)), shape=(len(kinds), len(places)))


def _columns(x: FloatArray, of: IntArray, count: int, members: Any) -> Any:
    """One column for all, the features of each first kind in columns of their own, the kinds."""
    rows, width = np.repeat(np.arange(len(x)), x.shape[1]), x.shape[1]
    own = (of[:, None] * width + np.arange(width)).ravel()
    blocks = sparse.csr_array((x.ravel(), (rows, own)), shape=(len(x), count * width))
    return sparse.hstack([sparse.csr_array(np.ones((len(x), 1))), blocks, members]).tocsr()


class _Parts(NamedTuple):
    """How many first kinds there are, and how many weights each has."""

    blocks: int
    width: int

    def __call__(self, w: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """The weight alone, those of each first kind, and the shifts."""
        end = 1 + self.blocks * self.width
        return float(w[0]), w[1:end].reshape(self.blocks, self.width), w[end:]


def _doubt(parts: _Parts, towards: FloatArray, ridge: FloatArray) -> Doubt:
    """What is held against weights that differ by first kind, and against shifts."""

    def doubt(w: FloatArray) -> tuple[float, FloatArray]:
        _, own, shifts = parts(w)
        apart, away = own - own.mean(0), own - towards
        value = LIKENESS * (apart**2).sum() + (ridge * away**2).sum() + DOUBT * shifts @ shifts
        slope = LIKENESS * apart + ridge * away
        return float(value / 2), np.r_[0.0, slope.ravel(), DOUBT * shifts]

    return doubt


class _Scale(NamedTuple):
    """What makes features alike in size, so that weights are."""

    start: FloatArray
    spread: FloatArray

    @classmethod
    def of(cls, x: FloatArray) -> _Scale:
        return cls(x.mean(0), x.std(0))

    def __call__(self, x: FloatArray) -> FloatArray:
        # Of a column that does not vary nothing can be learned, least of all from its rounding.
        return np.where(self.spread > VARIES, (x - self.start) / self.sizes, 0.0)

    @property
    def sizes(self) -> FloatArray:
        return np.maximum(self.spread, VARIES)

    def least(self, rising: Sequence[float]) -> list[float | None]:
        """The least weights of the first features, and none of the others."""
        low = (np.array(rising) * self.sizes[: len(rising)]).tolist()
        return [*low, *[None] * (len(self.start) - len(low))]

    def unscaled(self, first: float, weights: FloatArray) -> tuple[float, ...]:
        """The weights of the features as they are, after the one alone."""
        slopes = weights / self.sizes
        return (float(first - (slopes * self.start).sum()), *slopes.tolist())


def _ridge(low: Sequence[float | None], count: int) -> tuple[FloatArray, FloatArray]:
    """Towards what weights are held, and how much."""
    towards = np.array([0.0 if each is None else each for each in low])
    return towards, np.full(len(low), RIDGE * count / 1000 + 1e-6)


def _weights(
    x: FloatArray, y: FloatArray, times: FloatArray, rising: Sequence[float]
) -> tuple[float, ...]:
    """The likeliest weights, the one alone first."""
    scale = _Scale.of(x)
    low = scale.least(rising)
    towards, ridge = _ridge([None, *low], len(x))
    ridge[0] = 1e-6
    columns = np.column_stack([np.ones(len(x)), scale(x)])
    found = _minimum(columns, y, times, _held(towards, ridge), [None, *low])
    return scale.unscaled(found[0], found[1:])


def _held(towards: FloatArray, ridge: FloatArray) -> Doubt:
    def doubt(w: FloatArray) -> tuple[float, FloatArray]:
        away = w - towards
        return float((ridge * away**2).sum() / 2), ridge * away

    return doubt


def _minimum(
    columns: Any, y: FloatArray, times: FloatArray, doubt: Doubt, least: Sequence[float | None]
) -> Any:
    def cost(w: FloatArray) -> tuple[float, FloatArray]:
        odds = columns @ w
        value, slope = doubt(w)
        value -= (times * (y * log_expit(odds) + (1 - y) * log_expit(-odds))).sum()
        return float(value), slope + columns.T @ (times * (expit(odds) - y))

    start = np.array([0.0 if low is None else low for low in least])
    bounds = [(low, None) for low in least]
    return minimize(cost, start, jac=True, method="L-BFGS-B", bounds=bounds).x


def _bend(odds: FloatArray, y: FloatArray, times: FloatArray) -> tuple[float, float]:
    """A group's shift and slope; one below 0 would turn the order around."""
    columns = np.column_stack([np.ones(len(odds)), odds])
    doubt = _held(np.array([0.0, 1.0]), np.array([SHIFT**-2, SLOPE**-2]))
    found = _minimum(columns, y, times, doubt, [None, FLATTEST])
    return float(found[0]), float(found[1])


# How to judge it.


@dataclass(frozen=True)
class Bin:
    """Answers of about one probability: how many there are, what they promise, what they hold."""

    count: int
    promised: float
    right: float


def bins(p: npt.ArrayLike, right: npt.ArrayLike, count: int = BINS) -> list[Bin]:
    """Answers in bins of equal mass, by their probability.

    >>> bins([0.1, 0.9], [0, 1], count=2)
    [Bin(count=1, promised=0.1, right=0.0), Bin(count=1, promised=0.9, right=1.0)]
    """
    chances, truth = np.asarray(p, np.float64), np.asarray(right, np.float64)
    order = np.argsort(chances, kind="stable")
    parts = [part for part in np.array_split(order, count) if len(part)]
    return [Bin(len(i), float(chances[i].mean()), float(truth[i].mean())) for i in parts]


def calibration_error(p: npt.ArrayLike, right: npt.ArrayLike, count: int = BINS) -> float:
    """The expected calibration error: how far bins are, on average, from what they promise.

    >>> calibration_error([0.5, 0.5], [True, False], count=1)
    0.0
    """
    parts = bins(p, right, count)
    total = sum(part.count for part in parts)
    return sum(part.count * abs(part.promised - part.right) for part in parts) / max(total, 1)


def chance_error(p: npt.ArrayLike, count: int = BINS, draws: int = 20, seed: int = 0) -> float:
    """The calibration error that chance leaves where probabilities are exactly right.

    What is right is drawn by the probabilities themselves, each answer by itself: below this no
    error tells anything.

    >>> chance_error([0.0, 1.0])
    0.0
    >>> chance_error([0.5] * 15) > chance_error([0.5] * 1500)
    True
    """
    chances, rng = np.asarray(p, np.float64), np.random.default_rng(seed)
    drawn = (rng.random(len(chances)) < chances for _ in range(draws))
    return float(np.mean([calibration_error(chances, right, count) for right in drawn]))


def log_loss(p: npt.ArrayLike, right: npt.ArrayLike, least: float = 1e-6) -> float:
    """The mean surprise at what is right and what is not.

    >>> round(log_loss([0.5, 0.5], [True, False]), 3)
    0.693
    """
    chances = np.clip(np.asarray(p, np.float64), least, 1 - least)
    truth: BoolArray = np.asarray(right, np.bool_)
    return float(-np.where(truth, np.log(chances), np.log1p(-chances)).mean())


def halves(groups: Sequence[int] | IntArray, seed: int = 0) -> BoolArray:
    """Half of the groups, drawn at random: what belongs together stays together.

    >>> int(halves([0, 0, 1, 1]).sum())
    2
    """
    names, places = np.unique(np.asarray(groups), return_inverse=True)
    chosen = np.random.default_rng(seed).permutation(len(names)) < len(names) / 2
    return chosen[places]

"""What the planted rules themselves reach on the held-out facts of a made graph.

Whoever knows the classes, the moves of the relations, the weights of the entities, the rate of the
noise and the facts of train ranks the candidates by their probability. A model that learns from
the facts alone comes near to that, or does not; it has little to gain above.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from knowledge_sheaves.graph.arrays import IntArray
from knowledge_sheaves.graph.synthesis.make import Synthesis
from knowledge_sheaves.graph.synthesis.rules import HEAD, TAIL, End, Rule, end_of
from knowledge_sheaves.graph.synthesis.world import moved

CERTAIN = 1e6
"""Added to the score of what facts of train point to: that comes before what a class suggests."""
Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Ceiling:
    """Filtered metrics of the planted rules, heads and tails asked for; ties count half."""

    mrr: float
    hits_at_10: float
    facts: int


def measure_ceiling(made: Synthesis, split: str = "test", most: int = 5_000) -> Ceiling:
    """Rank held-out facts by the probabilities that made them, known facts left out."""
    ranks = np.array(list(_ranks(made, split, most)), np.float64)
    if not len(ranks):
        return Ceiling(float("nan"), float("nan"), 0)
    return Ceiling(float((1 / ranks).mean()), float((ranks <= 10).mean()), len(ranks) // 2)


def _ranks(made: Synthesis, split: str, most: int) -> list[float]:
    asked = [
        (number, pair)
        for number in range(len(made.rules))
        for pair in made.of_split(number, split).tolist()
    ]
    rng = np.random.default_rng((made.world.seed, 6))
    chosen = rng.permutation(len(asked))[:most]
    by_relation = defaultdict(list)
    for place in chosen.tolist():
        number, pair = asked[place]
        by_relation[number].append(pair)
    found = []
    for number, pairs in by_relation.items():
        judge = Judge(made, made.rules[number])
        for head, tail in pairs:
            found += [judge.rank(head, tail, TAIL), judge.rank(head, tail, HEAD)]
    return found


class Judge:
    """Ranks the answers to questions of one relation by the probabilities that made its facts."""

    def __init__(self, made: Synthesis, rule: Rule) -> None:
        self.made, self.rule, self.world = made, rule, made.world
        self.ends = end_of(made.world, rule, HEAD), end_of(made.world, rule, TAIL)
        self.known = _Facts(made.facts[rule.number])
        self.train = _Facts(made.of_split(rule.number, "train"))
        self.steps = tuple(_Facts(made.of_split(number, "train")) for number in rule.through or ())
        self.weights = tuple(self._weights(side) for side in (HEAD, TAIL))
        self.sorted = tuple(np.sort(weights) for weights in self.weights)

    def _weights(self, side: int) -> Scores:
        weights = self.ends[side].weights
        if side == HEAD and self.rule.part.functional:
            # Who has a tail already has no other.
            weights = weights.copy()
            weights[self.train.heads - self.ends[HEAD].start] = 0.0
        return weights

    def rank(self, head: int, tail: int, side: int) -> float:
        """The filtered rank of a fact among all that could stand at this end of it."""
        given, answer = (head, tail) if side == TAIL else (tail, head)
        others = self.known.partners(given, 1 - side)
        others = others[others != answer]
        special = self._special(given, side)
        scores = self._scores(given, side, np.append(others, answer), special)
        return self._place(given, side, answer, scores, special)

    def _place(
        self, given: int, side: int, answer: int, scores: Scores, special: dict[int, float]
    ) -> float:
        """The rank of the last of these scores among all candidates but the others of them."""
        mine, taken = scores[-1], scores[:-1]
        end, (lo, hi) = self.ends[side], self._block(given, side)
        inside, outside = self._factors(given, side)
        weights = self.weights[side]
        block, local = weights[lo:hi], answer - end.start
        # A quotient of rounded numbers would not be level with weights that are the same.
        is_outside = answer not in special and not lo <= local < hi
        bound = float(weights[local]) if is_outside else mine / outside
        greater = (block * inside > mine).sum() + _above(self.sorted[side], block, bound)
        equal = (block * inside == mine).sum() + _level(self.sorted[side], block, bound)
        for entity, score in special.items():
            # Counted by class so far, but its own score is what counts.
            plain = self._plain(weights, end, lo, hi, entity, inside, outside)
            greater += int(score > mine) - int(plain > mine)
            equal += int(score == mine) - int(plain == mine)
        greater -= (taken > mine).sum()
        equal -= (taken == mine).sum()
        return float(greater + (equal + 1) / 2)

    def _scores(
        self, given: int, side: int, entities: IntArray, special: dict[int, float]
    ) -> Scores:
        end, (lo, hi) = self.ends[side], self._block(given, side)
        inside, outside = self._factors(given, side)
        weights = self.weights[side]
        return np.array(
            [
                special.get(entity, self._plain(weights, end, lo, hi, entity, inside, outside))
                for entity in entities.tolist()
            ]
        )

    @staticmethod
    def _plain(
        weights: Scores, end: End, lo: int, hi: int, entity: int, inside: float, outside: float
    ) -> float:
        local = entity - end.start
        # The same product and quotient as for many at once, so that equals compare as equal.
        if lo <= local < hi:
            return float(weights[local] * inside)
        return float(weights[local] * outside)

    def _block(self, given: int, side: int) -> tuple[int, int]:
        sign = 1 if side == TAIL else -1
        start = self.ends[1 - side].blocks(np.array([given]))
        block = int(moved(start, self.rule.shift, sign)[0])
        starts = self.ends[side].starts
        return int(starts[block]), int(starts[block + 1])

    def _factors(self, given: int, side: int) -> tuple[float, float]:
        """What a weight inside the class, and outside of it, is multiplied with."""
        tails, rate = self.ends[TAIL], self.world.noise_rate
        if side == TAIL:
            lo, hi = self._block(given, side)
        else:
            block = int(tails.blocks(np.array([given]))[0])
            lo, hi = int(tails.starts[block]), int(tails.starts[block + 1])
        anywhere = max(rate / tails.total, 1e-300)
        inside = (1 - rate) / float(tails.sums[hi] - tails.sums[lo])
        return inside + anywhere, anywhere

    def _special(self, given: int, side: int) -> dict[int, float]:
        """Candidates that facts of train point to: mirror images, and ends of walks."""
        if self.rule.part.symmetric:
            return dict.fromkeys(self.train.partners(given, side).tolist(), CERTAIN)
        if not self.steps:
            return {}
        return self._walks(given, side)

    def _start(self, first: _Facts, head: int, side: int) -> float:
        """How likely a walk begins with one fact of a head; the same for all tails of one."""
        if side == TAIL:
            return 1.0
        return float(self.weights[HEAD][head - self.ends[HEAD].start]) / len(
            first.partners(head, HEAD)
        )

    def _walks(self, given: int, side: int) -> dict[int, float]:
        first, second = self.steps
        found: dict[int, float] = defaultdict(float)
        near, far = (first, second) if side == TAIL else (second, first)
        for middle in near.partners(given, 1 - side).tolist():
            onward = len(second.partners(middle, HEAD))
            for end in far.partners(middle, 1 - side).tolist():
                found[end] += self._start(first, end, side) / onward
        return {end: CERTAIN + chance for end, chance in found.items()}


class _Facts:
    """Pairs, to be looked up from either end."""

    def __init__(self, pairs: IntArray) -> None:
        self.heads = pairs[:, 0]
        order = np.argsort(pairs[:, 1], kind="stable")
        self._columns = (pairs[:, 0], pairs[:, 1]), (pairs[order, 1], pairs[order, 0])

    def partners(self, entity: int, side: int) -> IntArray:
        """Those at the other end of the facts that have the entity at this one."""
        keys, values = self._columns[side]
        lo, hi = np.searchsorted(keys, (entity, entity + 1))
        return values[lo:hi]


def _above(ordered: Scores, block: Scores, bound: float) -> int:
    """How many weights outside of a block lie above a bound."""
    return (
        len(ordered)
        - int(np.searchsorted(ordered, bound, side="right"))
        - int((block > bound).sum())
    )


def _level(ordered: Scores, block: Scores, bound: float) -> int:
    lo, hi = np.searchsorted(ordered, bound, "left"), np.searchsorted(ordered, bound, "right")
    return int(hi - lo) - int((block == bound).sum())

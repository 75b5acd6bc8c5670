"""How the facts of one relation come about, and with which probability each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knowledge_sheaves.graph.arrays import IntArray
from knowledge_sheaves.graph.synthesis.portrait import Part
from knowledge_sheaves.graph.synthesis.world import (
    BASE,
    ROOM,
    Weights,
    World,
    block_starts,
    blocks_of,
    moved,
)

HEAD, TAIL = 0, 1
ROUNDS = 4


@dataclass(frozen=True)
class Rule:
    """A relation between two types: its facts join a class of heads with a class of tails.

    With ``through`` its facts are walks along two other relations, first the one, then the other.
    """

    number: int
    part: Part
    shift: IntArray
    through: tuple[int, int] | None = None


@dataclass(frozen=True)
class End:
    """One end of a relation: the type's row of entities, cut into classes, and their weights."""

    start: int
    size: int
    depth: int
    weights: Weights
    sums: Weights
    starts: IntArray

    @property
    def total(self) -> float:
        """The weight of all entities."""
        return float(self.sums[-1])

    def blocks(self, entities: IntArray) -> IntArray:
        """The classes of entities."""
        return blocks_of(entities - self.start, self.size, self.depth)

    def draw(self, rng: np.random.Generator, blocks: IntArray, noise_rate: float) -> IntArray:
        """Draw an entity of each class by weight, or of all at the rate of the noise."""
        lo, hi = self.sums[self.starts[blocks]], self.sums[self.starts[blocks + 1]]
        anywhere = rng.random(len(blocks)) < noise_rate
        lo[anywhere], hi[anywhere] = 0.0, self.total
        return self._at(lo + rng.random(len(blocks)) * (hi - lo))

    def spread(self, rng: np.random.Generator, count: int) -> IntArray:
        """Draw entities by weight, as evenly as it goes: in order, one from each equal stretch."""
        places = (np.arange(count) + rng.random(count)) / count
        return self._at(places * self.total)

    def after(self, entities: IntArray) -> IntArray:
        """The next entities of the row; the first one comes after the last."""
        return (entities - self.start + 1) % self.size + self.start

    def _at(self, sums: Weights) -> IntArray:
        place = np.searchsorted(self.sums, sums, side="right") - 1
        return np.minimum(place, self.size - 1) + self.start


def end_of(world: World, rule: Rule, side: int) -> End:
    """One end of a relation."""
    part = rule.part
    place = part.tail_type if side == TAIL else part.head_type
    degrees = part.tails if side == TAIL else part.heads
    # Where facts go both ways, both ends are the same.
    weights = world.weights(rule.number, degrees, place, HEAD if part.symmetric else side)
    size, depth = int(world.sizes[place]), len(rule.shift)
    sums = np.concatenate(([0.0], np.cumsum(weights)))
    return End(int(world.offsets[place]), size, depth, weights, sums, block_starts(size, depth))


def choose_rules(world: World, total: int, compositions: float) -> list[Rule]:
    """Give every relation its move, and make some of them walks along two others."""
    rng = np.random.default_rng((world.seed, 1))
    rules = []
    for number, part in enumerate(world.portrait.parts):
        facts = wanted_facts(part, total)
        digits = rng.integers(0, BASE, world.depth(part, facts))
        # What is its own mirror image moves by half a turn, or not at all.
        shift = digits // 2 * (BASE // 2) if part.symmetric else digits
        rules.append(Rule(number, part, shift))
    composed = _compositions(world, rules, total, compositions, rng)
    return [Rule(rule.number, rule.part, rule.shift, composed.get(rule.number)) for rule in rules]


def wanted_facts(part: Part, total: int) -> int:
    """How many of all facts are of this relation; each has one at least."""
    return max(1, round(part.share * total))


def _compositions(
    world: World, rules: list[Rule], total: int, share: float, rng: np.random.Generator
) -> dict[int, tuple[int, int]]:
    """Which relations are walks along which two others: those are drawn from their classes."""
    wanted = round(share * len(rules))
    free = [rule for rule in rules if not (rule.part.symmetric or rule.part.functional)]
    found: dict[int, tuple[int, int]] = {}
    used: set[int] = set()
    for rule in (free[place] for place in rng.permutation(len(free))):
        if len(found) == wanted:
            break
        if rule.number in used:
            continue
        usable = [other for other in rules if other.number not in {rule.number, *found}]
        pair = _walk(world, rule, usable, total, rng)
        if pair is not None:
            found[rule.number] = pair
            used.update(pair)
    return found


def _walk(
    world: World, rule: Rule, usable: list[Rule], total: int, rng: np.random.Generator
) -> tuple[int, int] | None:
    """Two relations, one after the other, with walks enough from the rule's heads to its tails."""
    shuffled = [usable[place] for place in rng.permutation(len(usable))]
    firsts = [one for one in shuffled if one.part.head_type == rule.part.head_type]
    seconds = [one for one in shuffled if one.part.tail_type == rule.part.tail_type]
    least = ROOM * wanted_facts(rule.part, total)
    for first in firsts:
        middles = int(world.sizes[first.part.tail_type])
        for second in seconds:
            fits = second is not first and second.part.head_type == first.part.tail_type
            facts = wanted_facts(first.part, total), wanted_facts(second.part, total)
            if fits and facts[0] * facts[1] >= least * middles:
                return first.number, second.number
    return None


def draw_facts(world: World, rule: Rule, count: int, rng: np.random.Generator) -> IntArray:
    """Draw about so many different facts, pairs of head and tail, in order."""
    heads, tails = (end_of(world, rule, side) for side in (HEAD, TAIL))
    if rule.part.functional:
        return _one_each(world, rule, heads, tails, count, rng)
    found: IntArray = np.zeros((0, 2), np.int64)
    for _ in range(ROUNDS):
        missing = count - len(found)
        if missing <= 0:
            break
        drawn = heads.spread(rng, missing // 2 + 1 if rule.part.symmetric else missing)
        pairs = np.stack((drawn, _partners(world, rule, heads, tails, drawn, rng)), axis=1)
        found = distinct(np.concatenate((found, _with_mirrors(rule, pairs))), world.num_entities)
    return found


def _one_each(
    world: World, rule: Rule, heads: End, tails: End, count: int, rng: np.random.Generator
) -> IntArray:
    """One tail for each of so many heads, those that the relation concerns first."""
    likely = np.argsort(-heads.weights + rng.random(heads.size) * 1e-6, kind="stable")
    drawn = np.sort(likely[: min(count, heads.size)]) + heads.start
    return np.stack((drawn, _partners(world, rule, heads, tails, drawn, rng)), axis=1)


def _partners(
    world: World, rule: Rule, heads: End, tails: End, drawn: IntArray, rng: np.random.Generator
) -> IntArray:
    return tails.draw(rng, moved(heads.blocks(drawn), rule.shift), world.noise_rate)


def lonely_facts(
    world: World, rule: Rule, lonely: IntArray, side: int, rng: np.random.Generator
) -> IntArray:
    """One fact for each of these entities, which stand at this end of it."""
    ends = end_of(world, rule, HEAD), end_of(world, rule, TAIL)
    blocks = moved(ends[side].blocks(lonely), rule.shift, 1 if side == HEAD else -1)
    others = ends[1 - side].draw(rng, blocks, world.noise_rate)
    others = np.where(others == lonely, ends[1 - side].after(others), others)
    pairs = np.stack((lonely, others) if side == HEAD else (others, lonely), axis=1)
    return _with_mirrors(rule, pairs)


def _with_mirrors(rule: Rule, pairs: IntArray) -> IntArray:
    return np.concatenate((pairs, pairs[:, ::-1])) if rule.part.symmetric else pairs


def walk_facts(
    world: World,
    rule: Rule,
    steps: tuple[IntArray, IntArray],
    count: int,
    rng: np.random.Generator,
) -> IntArray:
    """Draw facts as walks: a fact of the first relation, then one of the second where it ended."""
    first, second = steps
    heads, tails = end_of(world, rule, HEAD), end_of(world, rule, TAIL)
    lo = np.searchsorted(second[:, 0], first[:, 1], side="left")
    hi = np.searchsorted(second[:, 0], first[:, 1], side="right")
    going_on = np.flatnonzero(hi > lo)
    if not len(going_on):
        return draw_facts(world, rule, count, rng)
    found: IntArray = np.zeros((0, 2), np.int64)
    for _ in range(ROUNDS):
        missing = count - len(found)
        if missing <= 0:
            break
        rows = going_on[_starts(first[going_on, 0], heads.spread(rng, missing), rng)]
        ends = second[lo[rows] + (rng.random(missing) * (hi - lo)[rows]).astype(np.int64), 1]
        anywhere = rng.random(missing) < world.noise_rate
        ends[anywhere] = tails.spread(rng, missing)[rng.permutation(missing)][anywhere]
        pairs = np.stack((first[rows, 0], ends), axis=1)
        found = distinct(np.concatenate((found, pairs)), world.num_entities)
    return found


def _starts(heads: IntArray, wanted: IntArray, rng: np.random.Generator) -> IntArray:
    """The place of a fact of each wanted head, any of its own; of whoever else if it has none."""
    lo = np.searchsorted(heads, wanted, side="left")
    hi = np.searchsorted(heads, wanted, side="right")
    lo, hi = np.where(hi > lo, lo, 0), np.where(hi > lo, hi, len(heads))
    return lo + (rng.random(len(wanted)) * (hi - lo)).astype(np.int64)


def distinct(pairs: IntArray, entities: int) -> IntArray:
    """Pairs in order, each once; nothing is related to itself."""
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    keys = np.unique(pairs[:, 0] * entities + pairs[:, 1])
    return np.stack((keys // entities, keys % entities), axis=1)

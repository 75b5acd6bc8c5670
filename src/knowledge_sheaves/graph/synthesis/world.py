"""The hidden structure of a made graph: classes of entities, and what relations do with them.

The entities of a type stand in a row, and the row is a tree of classes: at depth k it is cut into
BASE^k equal blocks, so a class is a prefix of digits. A relation moves the digits of its head's
class by digits of its own; its tails lie in the class that comes out. That is the torus of RotatE:
a model can learn it, and two relations in a row move by the sum of what each moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from knowledge_sheaves.graph.arrays import IntArray, offsets_of
from knowledge_sheaves.graph.synthesis.portrait import Degrees, Part, Portrait

BASE = 4
ROOM = 4
"""How many times larger a class is than what is usually told of one entity."""
FAINT = 1e-3
"""The weight of an entity that a relation passes over; not 0, for no class may be empty."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

Weights = npt.NDArray[np.float64]


def noise(ids: IntArray, *salt: int) -> Weights:
    """A number in [0, 1) for each id, the same whenever it is asked for (splitmix64)."""
    with np.errstate(over="ignore"):
        state = ids.astype(np.uint64)
        for word in (*salt, 0):
            state = (state + np.uint64(word + 1)) * _GOLDEN
            state ^= state >> np.uint64(30)
            state *= np.uint64(0xBF58476D1CE4E5B9)
            state ^= state >> np.uint64(27)
            state *= np.uint64(0x94D049BB133111EB)
            state ^= state >> np.uint64(31)
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


@dataclass(frozen=True)
class World:
    """The entities, by type and class; everything follows from the portrait, sizes and seed."""

    portrait: Portrait
    sizes: IntArray
    class_size: int
    noise_rate: float
    seed: int

    @cached_property
    def offsets(self) -> IntArray:
        """Where the entities of each type begin."""
        return offsets_of(self.sizes)

    @property
    def num_entities(self) -> int:
        """How many entities there are, of all types."""
        return int(self.offsets[-1])

    def depth(self, part: Part, facts: int) -> int:
        """How many digits a relation reads and writes.

        The more digits the smaller the classes. They must hold what is told of their entities: for
        a head with many tails the class of the tails is several times as large, and the other way.
        """
        ends = (part.head_type, part.heads), (part.tail_type, part.tails)
        sizes = [int(self.sizes[place]) for place, _ in ends]
        room = [ROOM * self._usual(facts, end) for end in ends]
        # Heads need room among the tails, and tails among the heads.
        return min(
            _depth(size, max(self.class_size, other))
            for size, other in zip(sizes, room[::-1], strict=True)
        )

    def _usual(self, facts: int, end: tuple[int, Degrees]) -> float:
        """The degree at the other end of a fact, on average over facts."""
        place, degrees = end
        mean = facts / (degrees.active * int(self.sizes[place]))
        return mean * float(np.square(degrees.quantiles).mean())

    def weights(self, number: int, degrees: Degrees, place: int, side: int) -> Weights:
        """How likely each entity of a type is to be at this end of a fact of this relation.

        Who is popular is so in all relations; who takes part in one is drawn for each.
        """
        ids = np.arange(self.offsets[place], self.offsets[place + 1])
        popularity = noise(ids, self.seed, side)
        grid = np.linspace(0, 1, len(degrees.quantiles))
        weights = np.interp(popularity, grid, degrees.quantiles)
        weights[noise(ids, self.seed, side, number + 1) >= degrees.active] = FAINT
        return weights


def _depth(size: int, least: float) -> int:
    depth = 0
    while size >= least * BASE ** (depth + 1):
        depth += 1
    return depth


def blocks_of(local: IntArray, size: int, depth: int) -> IntArray:
    """The class, as a number of ``depth`` digits, of entities by their place in the row."""
    return local.astype(np.int64) * BASE**depth // size


def block_starts(size: int, depth: int) -> IntArray:
    """Where each class begins in the row, and where the last one ends."""
    blocks = np.arange(BASE**depth + 1, dtype=np.int64)
    return -(-blocks * size // BASE**depth)


def moved(blocks: IntArray, shift: IntArray, sign: int = 1) -> IntArray:
    """Add the digits of a shift to those of classes, digit by digit, without a carry.

    >>> moved(np.array([0, 5, 15]), np.array([1, 2])).tolist()  # 00, 11, 33 by 12 in base 4
    [6, 11, 1]
    """
    found = np.zeros_like(blocks)
    power = 1
    for digit in shift[::-1].tolist():
        found += (blocks // power + sign * digit) % BASE * power
        power *= BASE
    return found

"""Lookups on sorted triples: a CSR over the first column, bisection for the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knowledge_sheaves.graph.arrays import (
    BoolArray,
    IntArray,
    bisect_slices,
    gather_slices,
    offsets_of,
)


@dataclass(frozen=True)
class SortedTriples:
    """Rows (first, relation, second) in lexicographic order, with the offsets of each first id.

    Seen from the heads a row is (h, r, t), from the tails (t, r, h): one class for both.

    >>> known = SortedTriples.index(np.array([[0, 0, 1], [0, 1, 1], [0, 1, 2]]), num_firsts=3)
    >>> known.seconds(0, 1).tolist()
    [1, 2]
    """

    offsets: IntArray
    relations: IntArray
    others: IntArray

    @classmethod
    def index(cls, rows: IntArray, num_firsts: int) -> SortedTriples:
        """Index rows that are sorted already; their columns are shared, not copied."""
        offsets = offsets_of(np.bincount(rows[:, 0], minlength=num_firsts))
        return cls(offsets, rows[:, 1], rows[:, 2])

    def seconds(self, first: int, relation: int) -> IntArray:
        """Return the sorted others of one (first, relation)."""
        start, stop = self.offsets[first], self.offsets[first + 1]
        # A needle of another dtype would make numpy convert the whole slice.
        needle = self.relations.dtype.type(relation)
        low = start + np.searchsorted(self.relations[start:stop], needle)
        high = start + np.searchsorted(self.relations[start:stop], needle, side="right")
        return self.others[low:high]

    def slices(self, firsts: IntArray, relations: IntArray) -> tuple[IntArray, IntArray]:
        """Return where the others of many (first, relation) start and stop."""
        starts, stops = self.offsets[firsts], self.offsets[firsts + 1]
        low = bisect_slices(self.relations, starts, stops, relations)
        return low, bisect_slices(self.relations, low, stops, relations, right=True)

    def seconds_many(self, firsts: IntArray, relations: IntArray) -> tuple[IntArray, IntArray]:
        """Return the others of many (first, relation) in one array, and the offsets of each."""
        return gather_slices(self.others, *self.slices(firsts, relations))

    def contains(self, firsts: IntArray, relations: IntArray, seconds: IntArray) -> BoolArray:
        """Tell which rows are here."""
        if not len(self.others):
            return np.zeros(len(firsts), np.bool_)
        starts, stops = self.slices(firsts, relations)
        place = bisect_slices(self.others, starts, stops, seconds)
        at = self.others[np.minimum(place, len(self.others) - 1)]
        return np.asarray((place < stops) & (at == seconds))

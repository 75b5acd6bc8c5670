"""Splits: set triples aside for validation and test, and say what leaks between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.arrays import BoolArray, IntArray
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.knowledge import KnowledgeGraph

HELD_OUT, MOST_HELD_OUT = 0.1, 20_000
"""How much is set aside unless somebody says otherwise, half of it for validation."""
MOST_LISTED = 10


def split(graph: KnowledgeGraph, sizes: Sequence[float] | None = None, seed: int = 0) -> Dataset:
    """Split a graph at random into train, valid and test, by shares that add up to 1.

    Without them a tenth is set aside, and never more than 20,000 triples.

    Every entity and every relation that has triples keeps at least one in train, because nothing
    could be learnt about it otherwise; where that leaves too few triples to set aside, the notes
    say so. They also name relations that would leak (see `leaks`). A split without triples is None.

    >>> rows = [(a, "r", b) for a in "abcde" for b in "abcde"]
    >>> split(KnowledgeGraph.from_triples(rows), sizes=(0.6, 0.2, 0.2))
    Dataset('data': 5 entities of 1 types, 1 relations, triples: 15 train, 5 valid, 5 test)
    """
    wanted = _wanted(graph.num_triples, sizes)
    order = np.random.default_rng(seed).permutation(graph.num_triples)
    triples = graph.triples[order]
    free = np.flatnonzero(~_needed(triples, graph.num_entities, graph.num_relations))
    given = _shrink(wanted, len(free))
    aside = np.split(free, np.cumsum(given))[:2]
    train = np.ones(len(triples), np.bool_)
    train[np.concatenate(aside)] = False
    notes = []
    if sum(given) < sum(wanted):
        notes.append(
            f"Only {sum(given)} of the {sum(wanted)} triples wanted for valid and test are set "
            "aside: the others are needed in train, to show every entity and relation."
        )
    valid, test = (graph.with_triples(triples[rows]) if len(rows) else None for rows in aside)
    if sum(given):
        notes += leak_notes(graph)
    return Dataset(graph.with_triples(triples[train]), valid, test, notes=tuple(notes))


def _wanted(count: int, sizes: Sequence[float] | None) -> list[int]:
    """How many triples of so many to set aside for valid and test.

    >>> _wanted(31, None), _wanted(10**9, None), _wanted(31, (0.8, 0.1, 0.1))
    ([2, 1], [10000, 10000], [3, 3])
    """
    if sizes is None:
        aside = min(int(HELD_OUT * count), MOST_HELD_OUT)
        return [aside - aside // 2, aside // 2]
    _check_sizes(sizes)
    return [round(size * count) for size in sizes[1:]]


def _check_sizes(sizes: Sequence[float]) -> None:
    good = len(sizes) == 3 and all(size >= 0 for size in sizes) and sizes[0] > 0
    if not good or not math.isclose(sum(sizes), 1, abs_tol=1e-6):
        raise InputError(
            "The sizes of train, valid and test must be three shares that add up to 1, "
            f"the first above 0, not {tuple(sizes)}."
        )


def _needed(triples: IntArray, num_entities: int, num_relations: int) -> BoolArray:
    """Mark triples that together show every entity and relation, few of them."""
    ends = triples[:, ::2]
    needed = np.zeros(len(triples), np.bool_)
    needed[_first_rows(triples[:, 1:2], num_relations)] = True
    shown = np.zeros(num_entities, np.bool_)
    shown[ends[needed]] = True
    # First those that show two new entities at once: each is the first such triple of both.
    while len(rows := np.flatnonzero(~shown[ends].any(axis=1))):
        firsts = np.bincount(_first_rows(ends[rows], num_entities), minlength=len(rows))
        both = rows[firsts == 1 + (ends[rows, 0] != ends[rows, 1])]
        needed[both] = True
        shown[ends[both]] = True
    rows = np.flatnonzero(~shown[ends].all(axis=1))
    alone = ends[rows].copy()
    alone[shown[alone]] = num_entities  # one more, for all that are shown
    needed[rows[_first_rows(alone, num_entities)]] = True
    return needed


def _first_rows(values: IntArray, size: int) -> IntArray:
    """Return the first row of each value below ``size`` that occurs."""
    first = np.full(size + 1, -1)
    rows = np.repeat(np.arange(len(values)), values.shape[1])
    first[values.ravel()[::-1]] = rows[::-1]
    return first[:size][first[:size] >= 0]


def _shrink(wanted: Sequence[int], most: int) -> list[int]:
    total = sum(wanted)
    return list(wanted) if total <= most else [number * most // total for number in wanted]


@dataclass(frozen=True)
class Leak:
    """Two relations of which one gives the other away: as its duplicate or as its inverse.

    ``shared`` counts the pairs of entities in both; ``share`` is relative to the smaller one.
    A symmetric relation is its own inverse.
    """

    kind: str
    first: str
    second: str
    shared: int
    share: float

    def __str__(self) -> str:
        which = f"{self.first!r} and {self.second!r}"
        if self.kind == "symmetric":
            which = repr(self.first)
        return f"{self.kind} {which} ({self.share:.0%} of the pairs, {self.shared} shared)"


def leaks(graph: KnowledgeGraph, *, min_share: float = 0.8, min_shared: int = 10) -> list[Leak]:
    """Find duplicate, inverse and symmetric relations, the largest overlap first.

    >>> rows = [(a, "parent", b) for a in "abcd" for b in "efgh"]
    >>> rows += [(b, "child", a) for a, _, b in rows]
    >>> print(*leaks(KnowledgeGraph.from_triples(rows)))
    inverse 'parent' and 'child' (100% of the pairs, 16 shared)
    """
    names = graph.schema.relation_names
    place = {name: number for number, name in enumerate(names)}
    by_edge = np.array([place[relation.name] for relation in graph.schema.relations], np.int64)
    heads, edges, tails = graph.triples.T.astype(np.int64)
    forward = pl.DataFrame(
        {"key": heads * graph.num_entities + tails, "relation": by_edge[edges]}
    ).lazy()
    backward = pl.DataFrame(
        {"key": tails * graph.num_entities + heads, "relation": by_edge[edges]}
    ).filter(pl.Series(heads != tails))
    sizes = np.bincount(by_edge[edges], minlength=len(names))
    found = []
    for kind, other, apart in (("duplicate", forward, 1), ("inverse", backward.lazy(), 0)):
        first, second = pl.col("relation"), pl.col("relation_right")
        pairs = forward.join(other, on="key").filter(second - first >= apart)
        counts = pairs.group_by("relation", "relation_right").len().collect()
        for one, two, shared in counts.rows():
            share = shared / min(sizes[one], sizes[two])
            if share >= min_share and shared >= min_shared:
                which = "symmetric" if one == two else kind
                found.append(Leak(which, names[one], names[two], shared, share))
    return sorted(found, key=lambda leak: (-leak.shared, leak.kind, leak.first, leak.second))


def leak_notes(graph: KnowledgeGraph) -> list[str]:
    """Return one sentence that names what leaks, or none."""
    found = leaks(graph)
    if not found:
        return []
    listed = "; ".join(map(str, found[:MOST_LISTED]))
    more = f"; and {len(found) - MOST_LISTED} more" if len(found) > MOST_LISTED else ""
    return [f"Relations leak between the splits, which flatters every model: {listed}{more}."]

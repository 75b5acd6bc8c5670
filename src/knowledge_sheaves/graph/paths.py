"""The paths of one and two steps that known facts make between two entities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from knowledge_sheaves.graph.arrays import BoolArray, IntArray
from knowledge_sheaves.graph.knowledge import KnowledgeGraph

SAMPLE = 100
"""How many facts of a relation are looked at to tell what a path says of it."""
TRIES = 10


class Step(NamedTuple):
    """A relation, by its place in the schema's ``relation_names``, and the way it is walked."""

    relation: int
    forwards: bool


Steps = tuple[Step, ...]


@dataclass(frozen=True)
class PathGroup:
    """The paths that take the same steps: ``triples`` has a row of facts for each path."""

    steps: Steps
    triples: IntArray


def paths_between(graph: KnowledgeGraph, head: int, tail: int) -> list[PathGroup]:
    """All paths from one entity to another, by the steps that they take.

    >>> graph = KnowledgeGraph.from_triples(
    ...     [("Ann", "knows", "Bob"), ("Cy", "knows", "Bob"), ("Ann", "likes", "Cy")])
    >>> for group in paths_between(graph, 0, 2):
    ...     print(group.steps, group.triples.tolist())
    (Step(relation=1, forwards=True),) [[[0, 1, 2]]]
    (Step(relation=0, forwards=True), Step(relation=0, forwards=False)) [[[0, 0, 1], [2, 0, 1]]]
    """
    return [*_direct(graph, head, tail), *_over_another(graph, head, tail)]


class Evidence(NamedTuple):
    """How many pairs that a relation joins have paths of each kind, and how many other pairs."""

    facts: int
    others: int
    with_facts: dict[Steps, int]
    with_others: dict[Steps, int]


def evidence(graph: KnowledgeGraph, relation: str, sample: int = SAMPLE) -> Evidence:
    """Tell what paths go with a relation: by a sample of its facts, and of pairs that it joins not.

    The other pairs have their heads from one fact and their tails from another.

    >>> rows = [(f"a{i}", "near", f"b{i}") for i in range(4)]
    >>> graph = KnowledgeGraph.from_triples([*rows, *((b, "far", a) for a, _, b in rows)])
    >>> evidence(graph, "near").with_facts
    {(Step(relation=1, forwards=False),): 4}
    """
    edges = graph.schema.edges(relation)
    rows = graph.triples[np.isin(graph.triples[:, 1], edges)]
    rows = rows[np.random.default_rng(0).permutation(len(rows))[:sample]]
    itself = (Step(graph.schema.relation_names.index(relation), True),)
    pairs = rows[:, [0, 2]]
    others = list(_other_pairs(graph, rows))
    found = [
        {group.steps for group in paths_between(graph, head, tail)} - {itself}
        for head, tail in (*pairs.tolist(), *others)
    ]
    return Evidence(
        len(pairs), len(others), _counts(found[: len(pairs)]), _counts(found[len(pairs) :])
    )


def _counts(found: list[set[Steps]]) -> dict[Steps, int]:
    counts: dict[Steps, int] = {}
    for kinds in found:
        for steps in kinds:
            counts[steps] = counts.get(steps, 0) + 1
    return counts


def _other_pairs(graph: KnowledgeGraph, rows: IntArray) -> Iterator[tuple[int, int]]:
    """The head of each row with the tail of the next row that makes no fact of it."""
    for place, (head, edge, _) in enumerate(rows.tolist()):
        tails = np.roll(rows[:, 2], -place - 1)[:TRIES]
        known = graph.contains([(head, edge, tail) for tail in tails.tolist()])
        fitting = tails[~known & (tails != head)]
        if len(fitting):
            yield head, int(fitting[0])


def _direct(graph: KnowledgeGraph, head: int, tail: int) -> list[PathGroup]:
    near = graph.neighbours(head)
    here = near.others == tail
    relations, forwards = near.relations[here], near.outgoing[here]
    triples = _triples(head, relations, near.others[here], forwards)
    return _grouped(graph, [relations], [forwards], [triples])


def _over_another(graph: KnowledgeGraph, head: int, tail: int) -> list[PathGroup]:
    """Join what is near the one end with what is near the other."""
    near, far = graph.neighbours(head), graph.neighbours(tail)
    order = np.argsort(far.others, kind="stable")
    first = np.searchsorted(far.others[order], near.others, "left")
    counts = np.searchsorted(far.others[order], near.others, "right") - first
    counts[(near.others == head) | (near.others == tail)] = 0
    here = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    there = order[np.repeat(first, counts) + within]
    middle = near.others[here]
    relations = near.relations[here], far.relations[there]
    outgoing = near.outgoing[here], far.outgoing[there]
    triples = [
        _triples(head, relations[0], middle, outgoing[0]),
        _triples(tail, relations[1], middle, outgoing[1]),
    ]
    # An edge that goes out of the tail is walked against its direction.
    return _grouped(graph, list(relations), [outgoing[0], ~outgoing[1]], triples)


def _triples(end: int, relations: IntArray, others: IntArray, outgoing: BoolArray) -> IntArray:
    here = np.full_like(others, end)
    heads, tails = np.where(outgoing, here, others), np.where(outgoing, others, here)
    return np.stack((heads, relations, tails), axis=1)


def _grouped(
    graph: KnowledgeGraph,
    relations: list[IntArray],
    forwards: list[BoolArray],
    triples: list[IntArray],
) -> list[PathGroup]:
    if not len(relations[0]):
        return []
    columns = [graph.schema.edge_names[each] for each in relations] + [*forwards]
    kinds, place = np.unique(
        np.stack(columns, axis=1).astype(np.int64), axis=0, return_inverse=True
    )
    rows, size = np.stack(triples, axis=1), len(relations)
    return [
        PathGroup(
            tuple(Step(r, bool(f)) for r, f in zip(kind[:size], kind[size:], strict=True)),
            rows[place.reshape(-1) == number],
        )
        for number, kind in enumerate(kinds.tolist())
    ]

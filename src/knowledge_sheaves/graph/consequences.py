"""What follows from facts by what a schema says of relations.

Whoever says that `directed` is the inverse of `directed by` has said of every film that someone
directed it: such facts are as known as those that were written down.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from knowledge_sheaves.graph.arrays import IntArray
from knowledge_sheaves.graph.schema import Relation, Schema


def consequences(schema: Schema, triples: IntArray) -> IntArray:
    """The facts that follow from others, repeats and the given ones among them.

    >>> says = {"child": {"inverse_of": "parent"}, "married": {"symmetric": True}}
    >>> schema = Schema.single(["child", "parent", "married"]).saying(says)
    >>> consequences(schema, np.array([[0, 0, 1], [2, 2, 1]])).tolist()
    [[1, 1, 0], [1, 2, 2]]
    """
    found = [triples[:0]]
    for edge, implied in enumerate(_implied(schema.relations)):
        for other, backwards in implied:
            mine = triples[triples[:, 1] == edge]
            mine[:, 1] = other
            found.append(mine[:, ::-1] if backwards else mine)
    return np.concatenate(found)


def _implied(relations: Sequence[Relation]) -> Iterator[list[tuple[int, bool]]]:
    """For each edge those that hold where it does, and whether backwards, however many steps on."""
    steps = _steps(relations)
    for edge in range(len(relations)):
        start = edge, False
        found, open_ = {start: None}, [start]
        while open_:
            at, turned = open_.pop()
            for other, backwards in steps[at]:
                reached = other, turned != backwards
                if reached not in found:
                    found[reached] = None
                    open_.append(reached)
        yield [each for each in found if each != start]


def _steps(relations: Sequence[Relation]) -> list[list[tuple[int, bool]]]:
    """For each edge what the schema says of it itself."""
    place = {(each.name, each.head, each.tail): edge for edge, each in enumerate(relations)}
    steps: list[list[tuple[int, bool]]] = [[] for _ in relations]
    for edge, each in enumerate(relations):
        if each.symmetric:
            steps[edge].append((edge, True))
        if each.inverse_of is not None:
            other = place[each.inverse_of, each.tail, each.head]
            steps[edge].append((other, True))
            steps[other].append((edge, True))
        if each.subproperty_of is not None:
            steps[edge].append((place[each.subproperty_of, each.head, each.tail], False))
    return steps

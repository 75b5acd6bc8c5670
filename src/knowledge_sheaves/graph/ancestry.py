"""Who is of which class, ancestors included, and what classes relations are about.

A relation is about the classes that its heads, or tails, have in common: those of the type that is
said to stand there with all its ancestors, or else those that nearly all known facts show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.arrays import BoolArray, IntArray
from knowledge_sheaves.graph.classes import MOST_UNSEEN, Classes

if TYPE_CHECKING:
    from knowledge_sheaves.graph.knowledge import KnowledgeGraph


@dataclass(frozen=True)
class Ancestry:
    """The classes that at least one relation is about, without those that all entities have.

    Entities of the same of these classes are a group: ``members`` tells which classes groups are
    of, (groups, classes), ``group_of`` the group of every entity; ``ends`` tells, by end, which
    relations are about them, (relations, classes).

    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples(
    ...     [("Julia", "likes", "Fargo")], types={"Julia": "Person", "Fargo": "Film"}).shared()
    >>> found = Ancestry.of_graph(graph)
    >>> found.names, found.ends["tail"].tolist(), found.of(1)
    (('Person', 'Film'), [[False, True]], ['Film'])
    """

    names: tuple[str, ...]
    members: BoolArray
    group_of: IntArray
    ends: Mapping[str, BoolArray]

    def of(self, entity: int) -> list[str]:
        """Return the classes of an entity, by name."""
        return [self.names[place] for place in np.flatnonzero(self.members[self.group_of[entity]])]

    @classmethod
    def of_graph(cls, graph: KnowledgeGraph) -> Ancestry:
        """Return the classes of a graph whose types share one stalk."""
        if graph.classes is None:
            raise InputError(
                "There are no types over shared maps, and so no classes with coordinates of their "
                "own: give the graph types, and leave stalks as they are."
            )
        heads, edges, tails = graph.triples.T
        group, table = graph.classes.groups
        closed = _closed(graph.classes)
        ends = {
            end: _about(graph.classes, end, closed, edges, group[at], graph.schema.relation_names)
            for end, at in (("head", heads), ("tail", tails))
        }
        present = np.bincount(group, minlength=table.shape[0]) > 0
        used = (ends["head"] | ends["tail"]).any(0)
        kept = np.asarray(used & ~closed[present].all(0))
        names = tuple(n for n, keep in zip(graph.classes.names, kept.tolist(), strict=True) if keep)
        # Many sets of classes are alike in those that count.
        ids: dict[bytes, int] = {}
        place = np.array([ids.setdefault(row.tobytes(), len(ids)) for row in closed[:, kept]])
        members = np.array([np.frombuffer(row, bool) for row in ids]).reshape(len(ids), len(names))
        about = {end: rows[:, kept] for end, rows in ends.items()}
        return cls(names, members, place[group], about)


def _closed(classes: Classes) -> BoolArray:
    """Which classes groups have, ancestors included: (groups, classes)."""
    up = np.array([_with_ancestors(classes, name) for name in classes.names], np.int64)
    return np.asarray(classes.groups[1] @ up.reshape(len(classes.names), -1) > 0)


def _with_ancestors(classes: Classes, name: str) -> BoolArray:
    found = np.zeros(len(classes.names), bool)
    found[[classes.names.id(each) for each in classes.with_ancestors(name)]] = True
    return found


def _about(
    classes: Classes,
    end: str,
    closed: BoolArray,
    relations: IntArray,
    groups: IntArray,
    names: Sequence[str],
) -> BoolArray:
    """Which classes all that stand at one end of a relation have: (relations, classes)."""
    counts = np.zeros((len(names), len(closed)), np.int64)
    np.add.at(counts, (relations, groups), 1)
    missing = counts @ ~closed
    # As sure as one is where types rule out: with few facts nothing is known of the next one.
    found = (missing + 1) / (counts.sum(1, keepdims=True) + 1) <= MOST_UNSEEN
    for name, said in (classes.said.heads if end == "head" else classes.said.tails).items():
        if name in names and said:
            every = [_with_ancestors(classes, kind) for kind in said]
            found[names.index(name)] = np.logical_and.reduce(every)
    return np.asarray(found)

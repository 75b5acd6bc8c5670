"""What a made graph keeps of a real one: types, relations, and how facts spread over entities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.arrays import IntArray
from knowledge_sheaves.graph.knowledge import KnowledgeGraph

GRID = 129
"""Points at which the distribution of degrees is kept."""
MIRRORED = 0.9
"""A relation is symmetric where at least this share of its facts stands there both ways."""
SINGLE = 1.05
"""A relation is functional where heads have at most this many tails on average."""


@dataclass(frozen=True)
class Degrees:
    """How the facts of a relation spread over the entities at one of its ends.

    ``active`` is the share of the type's entities that have such facts at all; ``quantiles`` are
    those of the degrees of these, divided by their mean.
    """

    active: float
    quantiles: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Part:
    """A relation between entities of two types, with its share of all facts."""

    name: str
    head_type: int
    tail_type: int
    share: float
    heads: Degrees
    tails: Degrees
    symmetric: bool
    functional: bool


@dataclass(frozen=True)
class Portrait:
    """What is kept of a graph: its types with their shares of the entities, and its relations."""

    types: tuple[str, ...]
    shares: npt.NDArray[np.float64]
    parts: tuple[Part, ...]
    facts_per_entity: float


def portray(graph: KnowledgeGraph) -> Portrait:
    """Return what a made graph shall have in common with this one.

    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r", "a"), ("a", "s", "c")])
    >>> [(part.name, part.symmetric, part.functional) for part in portray(graph).parts]
    [('r', True, False), ('s', False, True)]
    """
    if graph.num_triples == 0:
        raise InputError("A graph without facts cannot be imitated.")
    counts = np.bincount(graph.entity_types, minlength=len(graph.schema.types))
    present = np.flatnonzero(counts)
    return Portrait(
        tuple(graph.schema.types[place].name for place in present),
        counts[present] / graph.num_entities,
        tuple(_parts(graph, counts, present)),
        graph.num_triples / graph.num_entities,
    )


def _parts(graph: KnowledgeGraph, counts: IntArray, present: IntArray) -> Iterator[Part]:
    names = graph.by_name.schema.relation_names
    heads, relations, tails = graph.by_name.triples.T
    # Types that no entity has are left out, so the places of the others move up.
    place = np.searchsorted(present, graph.entity_types)
    keys = np.stack((relations, place[heads], place[tails]), axis=1)
    groups, member = np.unique(keys, axis=0, return_inverse=True)
    order = np.argsort(member.ravel(), kind="stable")
    ends = np.searchsorted(member.ravel()[order], np.arange(1, len(groups) + 1))
    for (relation, head_type, tail_type), rows in zip(
        groups.tolist(), np.split(order, ends[:-1]), strict=True
    ):
        ours = heads[rows].astype(np.int64), tails[rows].astype(np.int64)
        symmetric = head_type == tail_type and _mirrored(*ours) >= MIRRORED
        yield Part(
            names[relation],
            head_type,
            tail_type,
            len(rows) / len(heads),
            _degrees(ours[0], int(counts[present[head_type]])),
            _degrees(ours[1], int(counts[present[tail_type]])),
            symmetric,
            not symmetric and len(rows) <= SINGLE * len(np.unique(ours[0])),
        )


def _mirrored(heads: IntArray, tails: IntArray) -> float:
    """The share of facts whose mirror image is a fact too."""
    size = int(max(heads.max(), tails.max())) + 1
    return float(np.isin(tails * size + heads, heads * size + tails).mean())


def _degrees(ends: IntArray, entities: int) -> Degrees:
    degrees = np.unique(ends, return_counts=True)[1]
    quantiles = np.quantile(degrees, np.linspace(0, 1, GRID)) / degrees.mean()
    return Degrees(min(1.0, len(degrees) / entities), quantiles)

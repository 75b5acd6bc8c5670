"""What may stand at the ends of relations by its types, and how a sentence says that something may
not.

This is of graphs whose entities share one stalk: their types are `KnowledgeGraph.classes`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from knowledge_sheaves.graph.arrays import IntArray
from knowledge_sheaves.graph.knowledge import KnowledgeGraph
from knowledge_sheaves.graph.labels import Name, quoted, words
from knowledge_sheaves.graph.names import End

ENDS: tuple[End, End] = ("head", "tail")
MOST = 4
"""So many types, or pairs of them, are named."""


def impossible(graph: KnowledgeGraph, relation: str, end: End, entity: int) -> str | None:
    """Why an entity cannot stand at an end of a relation, None where types leave it open.

    >>> rows = [(f"p{i % 8}", "likes", f"film{i // 8}") for i in range(64)]
    >>> types = {name: name.rstrip("01234567") for row in rows for name in (row[0], row[2])}
    >>> graph = KnowledgeGraph.from_triples(rows, types=types).shared()
    >>> impossible(graph, "likes", "head", graph.entities.id("film0"))
    "'likes' goes from p to film, but 'film0' at its head is of type film."
    >>> impossible(graph, "likes", "head", graph.entities.id("p0")) is None
    True
    """
    if graph.classes is None:
        return None
    group = graph.classes.groups[0][entity]
    if graph.possible[end][graph.schema.edges(relation), group].any():
        return None
    name = graph.schema.labelled_names[graph.schema.relation_names.index(relation)]
    return f"{quoted(name)} goes {goes(graph, relation)}, but {of_type(graph, end, entity)}."


def goes(graph: KnowledgeGraph, relation: str) -> str:
    """From which types to which a relation goes: what is said of it, or what its facts show."""
    head, tail = (either(_types_at(graph, relation, end)) for end in ENDS)
    return f"from {head} to {tail}"


def of_type(graph: KnowledgeGraph, end: End, entity: int) -> str:
    """Of what types the entity at an end is."""
    kinds = " and ".join(sorted(type_words(graph, kind) for kind in graph.types_of(entity)))
    return f"{quoted(graph.name(entity))} at its {end} is of type {kinds}"


def either(types: Iterable[str]) -> str:
    """Some types of which one is enough."""
    every = sorted(types) or ["anything"]
    return " or ".join(every) if len(every) <= MOST else f"one of {len(every)} types"


def type_words(graph: KnowledgeGraph, kind: str) -> str:
    """What people call a type."""
    return words(Name(kind, graph.type_label(kind)))


def _types_at(graph: KnowledgeGraph, relation: str, end: End) -> list[str]:
    assert graph.classes is not None, "types shape no stalk"
    said = graph.classes.said.heads if end == "head" else graph.classes.said.tails
    kinds = said[relation] if relation in said else graph.types_at(_at(graph, relation, end))
    return [type_words(graph, kind) for kind in kinds]


def _at(graph: KnowledgeGraph, relation: str, end: End) -> IntArray:
    rows = graph.triples[np.isin(graph.triples[:, 1], graph.schema.edges(relation))]
    return np.unique(rows[:, 2 * ENDS.index(end)])

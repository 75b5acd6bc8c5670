"""What a user calls things: entities by name or by label, relations by name."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.knowledge import KnowledgeGraph
from knowledge_sheaves.graph.vocabulary import suggestion

MOST_LISTED = 10


def find_entity(graph: KnowledgeGraph, text: str) -> int:
    """Return the entity with this name, or the one with this label.

    >>> graph = KnowledgeGraph.from_triples([("Q1", "likes", "Q2")], labels={"Q2": "Fargo"})
    >>> find_entity(graph, "Q1"), find_entity(graph, "Fargo")
    (0, 1)
    """
    place = graph.entities.get(text)
    if place is not None:
        return place
    labels = graph.labels or {}
    meant = [entity for entity, label in labels.items() if label == text]
    if len(meant) == 1:
        return meant[0]
    if meant:
        choice = (f"{graph.entities[entity]!r} ({_type(graph, entity)})" for entity in meant)
        raise InputError(
            f"{len(meant)} entities have the label {text!r}: ask by name for one of "
            f"{_listed(choice)}."
        )
    near = suggestion(text, chain(graph.entities, labels.values()))
    raise InputError(f"No entity has the name or label {text!r}{near or '.'}")


def find_relation(graph: KnowledgeGraph, text: str) -> str:
    """Return the relation's name where there is such a relation.

    >>> graph = KnowledgeGraph.from_triples([("a", "likes", "b")])
    >>> find_relation(graph, "like")
    Traceback (most recent call last):
    knowledge_sheaves.errors.InputError: There is no relation 'like'; did you mean 'likes'?
    """
    names = graph.schema.relation_names
    if text in names:
        return text
    near = suggestion(text, names) or f": the graph has {_listed(map(repr, names))}."
    raise InputError(f"There is no relation {text!r}{near}")


def _type(graph: KnowledgeGraph, entity: int) -> str:
    return graph.schema.types[int(graph.entity_types[entity])].name


def _listed(words: Iterable[str]) -> str:
    every = list(words)
    shown = ", ".join(every[:MOST_LISTED])
    return shown if len(every) <= MOST_LISTED else f"{shown} and {len(every) - MOST_LISTED} more"

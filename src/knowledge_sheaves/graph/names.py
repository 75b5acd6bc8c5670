"""What a user calls things: entities and relations, by name or by label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.arrays import BoolArray
from knowledge_sheaves.graph.knowledge import KnowledgeGraph
from knowledge_sheaves.graph.labels import Name, label_of, quoted, said, suggested
from knowledge_sheaves.graph.vocabulary import MOST_SUGGESTED, did_you_mean, near_names

MOST_LISTED = 10
End = Literal["head", "tail"]


class UnknownRelation(InputError):
    """No relation has this name or label."""

    def __init__(self, text: str, relation: str) -> None:
        super().__init__(text)
        self.relation = relation


class WithoutFacts(InputError):
    """A name for a relation read backwards, where that cannot be read."""

    def __init__(self, name: Name, relation: Name) -> None:
        super().__init__(
            f"{quoted(name)} is the inverse of {quoted(relation)} and has no facts of its own: "
            f"ask for {said(relation)!r} with the two ends exchanged."
        )
        self.relation = relation


class Place(NamedTuple):
    """Where a name stands: at an end of a relation, which says what it can mean."""

    relation: str
    end: End


def find_entity(graph: KnowledgeGraph, text: str, places: Sequence[Place] = ()) -> int:
    """Return the entity with this name, or the one with this label.

    ``places`` are where the name stands. Of several entities with one label, or with labels that
    differ in capitals alone, the one is meant that can stand there, and what can stand there is
    suggested first.

    >>> graph = KnowledgeGraph.from_triples([("Q1", "likes", "Q2")], labels={"Q2": "Fargo"})
    >>> find_entity(graph, "Q1"), find_entity(graph, "Fargo")
    (0, 1)
    """
    place = graph.entities.get(text)
    if place is not None:
        return place
    meant = _meant(graph, text, places)
    if len(meant) == 1:
        return meant[0]
    if meant:
        choice = (f"{graph.entities[entity]!r} ({_type(graph, entity)})" for entity in meant)
        raise InputError(
            f"{len(meant)} entities have the label {text!r}: ask by name for one of "
            f"{_listed(choice)}."
        )
    near = _suggested(graph, text, places)
    raise InputError(f"No entity has the name or label {text!r}{near or '.'}")


def _meant(graph: KnowledgeGraph, text: str, places: Sequence[Place]) -> list[int]:
    """The entities with this label; where their types bar all of them, those written otherwise."""
    meant = graph.by_label.get(text, [])
    if not meant or not places:
        return meant
    fits = _fitting(graph, places)
    found = [entity for entity in meant if fits[entity]]
    if found or (graph.classes is None and len(graph.schema.types) == 1):
        return found or meant
    folded = text.casefold()
    labels = (graph.labels or {}).items()
    alike = [e for e, label in labels if fits[e] and label.casefold() == folded]
    return alike or meant


def find_relation(graph: KnowledgeGraph, text: str) -> str:
    """Return the name of the relation with this name, or of the one with this label.

    >>> graph = KnowledgeGraph.from_triples([("a", "likes", "b")], relation_labels={"likes": "has"})
    >>> find_relation(graph, "has")
    'likes'
    >>> find_relation(graph, "like")
    Traceback (most recent call last):
    knowledge_sheaves.graph.names.UnknownRelation: There is no relation 'like'; did you mean \
'has' (likes)?
    """
    names = graph.schema.labelled_names
    if text in names:
        return names[names.index(text)]
    meant = [name for name in names if label_of(name) == text]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise InputError(
            f"{len(meant)} relations have the label {text!r}: ask by name for one of "
            f"{_listed(repr(str(name)) for name in meant)}."
        )
    backwards = graph.schema.backwards
    turned = [name for name in backwards if text == name]
    turned = turned or [name for name in backwards if text == label_of(name)]
    of = list(dict.fromkeys(relation for name in turned for relation in backwards[name]))
    if len(of) == 1:
        raise WithoutFacts(turned[0], names[names.index(of[0])])
    if of:
        listed = _listed(quoted(names[names.index(relation)]) for relation in of)
        raise InputError(
            f"{quoted(turned[0])} is the inverse of {len(of)} relations and has no facts of its "
            f"own: ask with the two ends exchanged for one of {listed}."
        )
    listed = f": the graph has {_listed(map(quoted, names))}."
    near = suggested(text, (*names, *backwards))
    raise UnknownRelation(f"There is no relation {text!r}{near or listed}", relation=text)


def read_relation(graph: KnowledgeGraph, text: str) -> tuple[str, bool]:
    """Return the relation that a name or a label means, and whether it is read backwards.

    So is the name of an inverse without facts of its own.

    >>> from knowledge_sheaves.graph import Schema
    >>> schema = Schema.single(["bought"]).saying({"boughtBy": {"inverse_of": "bought"}})
    >>> graph = KnowledgeGraph.from_triples([("Ann", "bought", "Lens")], schema=schema)
    >>> read_relation(graph, "bought"), read_relation(graph, "boughtBy")
    (('bought', False), ('bought', True))
    """
    try:
        return find_relation(graph, text), False
    except WithoutFacts as error:
        return error.relation, True


def _suggested(graph: KnowledgeGraph, text: str, places: Sequence[Place]) -> str:
    """What is nearest in spelling, as the end of a sentence: what can stand there comes first."""
    fits = _fitting(graph, places)
    found: dict[int, None] = {}
    for ids in (np.flatnonzero(fits), np.flatnonzero(~fits)):
        by_text = _by_text(graph, ids.tolist())
        found |= dict.fromkeys(e for other in near_names(text, by_text) for e in by_text[other])
    shown = list(found)[:MOST_SUGGESTED]
    told_apart = len(shown) > 1 and len(graph.type_names) > 1

    def choice(entity: int) -> str:
        kind = f" of type {_type(graph, entity)}" if told_apart else ""
        return f"{quoted(graph.name(entity))}{kind}"

    return did_you_mean(list(map(choice, shown)))


def _by_text(graph: KnowledgeGraph, entities: Iterable[int]) -> dict[str, list[int]]:
    """Entities by what they may be called: name and label."""
    found: dict[str, list[int]] = {}
    for entity in entities:
        name = graph.name(entity)
        for text in {str(name), said(name)}:
            found.setdefault(text, []).append(entity)
    return found


def _fitting(graph: KnowledgeGraph, places: Sequence[Place]) -> BoolArray:
    """Which entities can stand in all those places: by their types, or else by the facts."""
    fits = np.ones(graph.num_entities, np.bool_)
    schema = graph.schema
    for place in places:
        try:
            name, backwards = read_relation(graph, place.relation)
        except InputError:  # which is told where the relation is looked up
            continue
        edges, at_head = schema.edges(name), (place.end == "head") != backwards
        if graph.classes is not None:
            end = "head" if at_head else "tail"
            possible = np.asarray(graph.possible[end][edges].any(0))
            fits &= possible[graph.classes.groups[0]]
        elif len(schema.types) > 1:
            ends = schema.graph.heads if at_head else schema.graph.tails
            fits &= np.isin(graph.entity_types, ends[edges])
        else:
            rows = graph.triples[np.isin(graph.triples[:, 1], edges)]
            seen = np.zeros_like(fits)
            seen[rows[:, 0 if at_head else 2]] = True
            fits &= seen
    return fits


def _type(graph: KnowledgeGraph, entity: int) -> str:
    return " and ".join(graph.types_said(entity)) or "unknown"


def _listed(words: Iterable[str]) -> str:
    every = list(words)
    shown = ", ".join(every[:MOST_LISTED])
    return shown if len(every) <= MOST_LISTED else f"{shown} and {len(every) - MOST_LISTED} more"

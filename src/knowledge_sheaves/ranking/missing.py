"""The likeliest facts of an entity that the graph does not hold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from knowledge_sheaves.graph.names import End, find_entity
from knowledge_sheaves.ranking.prediction import Prediction, Predictor

MOST_RELATIONS = 20
"""How many relations are looked at on each side, those with the most facts of the entity."""


class MissingFact(NamedTuple):
    """A fact by name, and how likely it is as an answer to the question for one of its ends."""

    head: str
    relation: str
    tail: str
    probability: float
    asked: End


def missing(predictor: Predictor, entity: str, top: int = 10) -> list[MissingFact]:
    """The likeliest new facts of an entity, by the relations that it has facts of.

    A relation that it has none of says nothing of how many facts are missing.

    >>> from knowledge_sheaves.embedding import SheafEmbedding, model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([("Ann", "knows", "Bob"), ("Bob", "likes", "Cy")])
    >>> predictor = Predictor(SheafEmbedding(model_config("transe", dim=4), graph))
    >>> {fact.relation for fact in missing(predictor, "Ann")}
    {'knows'}
    """
    graph = predictor.facts
    place = find_entity(graph, entity)
    name = graph.entities[place]
    found = []
    for column in (0, 2):
        edges = graph.triples[graph.triples[:, column] == place, 1]
        relations, uses = np.unique(graph.schema.edge_names[edges], return_counts=True)
        for relation in relations[np.argsort(-uses, kind="stable")][:MOST_RELATIONS].tolist():
            said = str(graph.schema.relation_names[relation])
            ends = {"head": name} if column == 0 else {"tail": name}
            for each in predictor.predict(relation=said, top=top, new=True, **ends):
                found.append(_fact(name, said, each, column == 0))
    found.sort(key=lambda fact: -fact.probability)
    # What joins the entity with itself is found from both of its ends, as likely as from the best.
    unique = {fact[:3]: fact for fact in reversed(found)}
    return [fact for fact in found if unique[fact[:3]] is fact][:top]


def _fact(name: str, relation: str, other: Prediction, forwards: bool) -> MissingFact:
    head, tail = (name, other.name) if forwards else (other.name, name)
    asked: End = "tail" if forwards else "head"
    return MissingFact(head, relation, tail, other.probability, asked)

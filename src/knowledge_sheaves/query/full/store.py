"""The known facts, types and labels of a model in a store of RDF."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, Store

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.known import ALL, known_graph
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query.language.iris import BLANK, iri_of

TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
LABEL = NamedNode("http://www.w3.org/2000/01/rdf-schema#label")
UNTYPED = "entity"
"""What entities are called whose types nobody gave: that is no fact about them."""


def term_of(name: str) -> NamedNode | BlankNode:
    """An entity as RDF has it.

    >>> str(term_of("Star Wars")), str(term_of("_:b1"))
    ('<urn:name:Star%20Wars>', '_:b1')
    """
    if BLANK.fullmatch(name):
        try:
            return BlankNode(name.removeprefix("_:"))
        except ValueError:
            pass
    return NamedNode(iri_of(name))


class FactStore:
    """What a model knows, as RDF; ``known`` says which of its facts.

    >>> graph = KnowledgeGraph.from_triples(
    ...     [("Ann", "likes", "Fargo")], types={"Ann": "Person", "Fargo": "Film"})
    >>> store = FactStore.of(graph)
    >>> len(store.store)
    3
    """

    def __init__(self, graph: KnowledgeGraph, store: Store) -> None:
        self.graph, self.store = graph, store
        relations, types = graph.schema.relation_names, graph.type_names
        self._others = frozenset(relations) | frozenset(types)

    @classmethod
    def of(cls, graph: KnowledgeGraph) -> FactStore:
        """Fill a store in memory with the facts of a graph."""
        store = Store()
        store.bulk_extend(quads(graph))
        return cls(graph, store)

    @classmethod
    def of_model(cls, model: SheafEmbedding, known: str | None = None) -> FactStore:
        """The store of a model, filled once."""
        chosen = known or ALL
        return model.keep(("rdf", chosen), lambda: cls.of(known_graph(model, chosen)))

    def is_name(self, name: str) -> bool:
        """Whether an entity, a relation or a type is called so."""
        return name in self.graph.entities or name in self._others

    def has_graph(self, iri: str) -> bool:
        """Whether there is a named graph of this name."""
        return self.store.contains_named_graph(NamedNode(iri))


def quads(graph: KnowledgeGraph) -> Iterator[Quad]:
    """The facts, types and labels of a graph."""
    terms = [term_of(name) for name in graph.entities]
    relations = [NamedNode(iri_of(relation.name)) for relation in graph.schema.relations]
    for head, edge, tail in graph.triples.tolist():
        yield Quad(terms[head], relations[edge], terms[tail])
    kinds = {name: NamedNode(iri_of(name)) for name in graph.type_names if name != UNTYPED}
    for name, iri in kinds.items():
        for entity in np.flatnonzero(graph.is_of_type(name)).tolist():
            yield Quad(terms[entity], TYPE, iri)
    for place, text in (graph.labels or {}).items():
        yield Quad(terms[place], LABEL, Literal(text))

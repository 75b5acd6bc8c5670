"""The known facts, types and labels of a model in a store of RDF."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Literal as OneOf
from typing import NamedTuple

import numpy as np
import polars as pl
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, Store

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.beside import statements_of
from knowledge_sheaves.embedding.known import ALL, given_graph
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.labels import Name
from knowledge_sheaves.graph.schema import DEFAULT_TYPE
from knowledge_sheaves.query.full.index import kept_store
from knowledge_sheaves.query.language import names
from knowledge_sheaves.query.language.iris import BLANK, iri_of, name_of

TYPE, LABEL = NamedNode(names.TYPE), NamedNode(names.LABEL)
_PLACES = ("subject", "predicate", "object")
LARGE = 100_000
"""From how many facts on the store is kept in the model's folder."""


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

    def __init__(
        self, graph: KnowledgeGraph, store: Store, beside: Callable[[], pl.DataFrame | None]
    ) -> None:
        self.graph, self.store, self._beside = graph, store, beside
        relations, types = graph.schema.relation_names, graph.type_names
        self._others = frozenset(relations) | frozenset(types)

    @classmethod
    def of(cls, graph: KnowledgeGraph, statements: pl.DataFrame | None = None) -> FactStore:
        """Fill a store in memory with the facts of a graph and what is said beside them."""
        store = Store()
        store.bulk_extend(quads(graph, statements))
        return cls(graph, store, lambda: statements)

    @classmethod
    def of_model(cls, model: SheafEmbedding, known: str | None = None) -> FactStore:
        """The store of a model, filled once; that of many facts is kept in the model's folder."""
        chosen = known or ALL
        return model.keep(("rdf", chosen), lambda: cls._of_model(model, chosen))

    @classmethod
    def _of_model(cls, model: SheafEmbedding, known: str) -> FactStore:
        graph = given_graph(model, known)
        if known == ALL and graph.num_triples >= LARGE:
            kept = kept_store(model, lambda: quads(graph, statements_of(model)))
            if kept is not None:
                return cls(graph, kept, lambda: statements_of(model))
        return cls.of(graph, _known(statements_of(model), graph, known))

    def is_name(self, name: str) -> bool:
        """Whether an entity, a relation or a type has this name."""
        return name in self.graph.entities or self.is_other(name)

    def is_label(self, name: str) -> bool:
        """Whether an entity, a relation, read backwards too, or a type has this label."""
        return name in self.graph.by_label or name in self._other_labels

    def is_other(self, name: str) -> bool:
        """Whether a relation or a type has this name."""
        return name in self._others

    @cached_property
    def properties(self) -> tuple[Name, ...]:
        """What gives values, such as numbers and texts, with every label that it has."""
        said = self._beside()
        if said is None:
            return ()
        named = said.filter(pl.col("datatype").is_not_null())["predicate"].unique()
        labels = said.filter(
            (pl.col("predicate") == LABEL.value) & pl.col("subject").is_in(named.implode())
        )
        rows = labels.select("subject", "object").unique(maintain_order=True).iter_rows()
        return tuple(Name(name, label) for name, label in rows)

    @cached_property
    def _other_labels(self) -> frozenset[str]:
        schema = self.graph.schema
        named = *schema.labelled_names, *schema.backwards, *self.properties
        relations = (name.label for name in named)
        types = map(self.graph.type_label, self.graph.type_names)
        return frozenset(filter(None, (*relations, *types)))

    def is_told(self, iri: str) -> bool:
        """Whether the source says something by this predicate that no sheaf learns from."""
        name = name_of(iri)
        if not iri or iri == TYPE.value or name in self.graph.schema.relation_names:
            return False
        return self.holds(iri, "predicate") or any(name == each.label for each in self.properties)

    def holds(self, iri: str, *places: OneOf["subject", "predicate", "object"]) -> bool:
        """Whether a statement has an IRI in one of these places."""
        node = NamedNode(iri)
        return any(
            next(self.store.quads_for_pattern(*(node if p == at else None for p in _PLACES)), None)
            for at in places
        )

    def has_graph(self, iri: str) -> bool:
        """Whether there is a named graph of this name."""
        return self.store.contains_named_graph(NamedNode(iri))


def quads(graph: KnowledgeGraph, statements: pl.DataFrame | None = None) -> Iterator[Quad]:
    """The facts, types and labels of a graph, and what its source says beside them.

    All of it is in the default graph, and what the source has in a named graph in that one too.
    """
    terms = [term_of(name) for name in graph.entities]
    relations = [NamedNode(iri_of(relation.name)) for relation in graph.schema.relations]
    for head, edge, tail in graph.triples.tolist():
        yield Quad(terms[head], relations[edge], terms[tail])
    said = _said_beside(statements)
    if statements is not None:
        yield from _beside(statements)
    kinds = {name: NamedNode(iri_of(name)) for name in graph.type_names if name != DEFAULT_TYPE}
    for name, iri in kinds.items():
        for entity in np.flatnonzero(graph.is_of_type(name)).tolist():
            if graph.entities[entity] not in said.typed:
                yield Quad(terms[entity], TYPE, iri)
    for place, text in (graph.labels or {}).items():
        if (graph.entities[place], text) not in said.labels:
            yield Quad(terms[place], LABEL, Literal(text))


class _Said(NamedTuple):
    """What a source says itself, in its own words: those with types, and texts of labels."""

    typed: frozenset[str]
    labels: frozenset[tuple[str, str]]


def _said_beside(statements: pl.DataFrame | None) -> _Said:
    if statements is None:
        return _Said(frozenset(), frozenset())
    # A type that follows from another is no fact of the source; a label may have a language there.
    typed = statements.filter(pl.col("predicate") == TYPE.value)["subject"]
    labels = statements.filter(pl.col("predicate") == LABEL.value)
    rows = labels.select("subject", "object").iter_rows()
    return _Said(frozenset(typed.to_list()), frozenset((name, text) for name, text in rows))


def _beside(statements: pl.DataFrame) -> Iterator[Quad]:
    names: dict[str, NamedNode | BlankNode] = {}

    def term(name: str) -> NamedNode | BlankNode:
        found = names.get(name)
        if found is None:
            found = names[name] = term_of(name)
        return found

    for subject, predicate, text, datatype, language, place in statements.iter_rows():
        verb = NamedNode(iri_of(predicate))
        value: NamedNode | BlankNode | Literal
        value = term(text) if datatype is None else _literal(text, datatype, language)
        yield Quad(term(subject), verb, value)
        if place is not None:
            yield Quad(term(subject), verb, value, term(place))


def _literal(text: str, datatype: str, language: str | None) -> Literal:
    """A literal; what RDF does not take for a language, or for a datatype of it, is left out."""
    try:
        if language is not None:
            return Literal(text, language=language)
        return Literal(text, datatype=NamedNode(iri_of(datatype)))
    except ValueError:
        return Literal(text)


def _known(
    statements: pl.DataFrame | None, graph: KnowledgeGraph, known: str
) -> pl.DataFrame | None:
    """Statements without facts in named graphs where only some facts count as known."""
    if statements is None or known == ALL:
        return statements
    fact = pl.col("datatype").is_null() & pl.col("predicate").is_in(graph.schema.relation_names)
    return statements.filter(~fact)

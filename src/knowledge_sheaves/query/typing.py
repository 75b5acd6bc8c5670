"""Which parts of its relations a pattern can stand for, given the types of its entities."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query.pattern import Edge, Pattern, Term


def typed_parts(pattern: Pattern, graph: KnowledgeGraph) -> list[tuple[int, ...]]:
    """All ways to read a pattern in the schema: an edge of the schema for each of its edges.

    With one type there is one. Relations that are split over several pairs of types have as many
    readings as types fit together; a pattern with none is a clash, and says where.

    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b")])
    >>> typed_parts(Pattern((Edge(0, 0, "?x"),)), graph)
    [(0,)]
    """
    if len(graph.schema.types) == 1:
        return [tuple(edge.relation for edge in pattern.edges)]
    ends = graph.schema.graph
    names = graph.schema.relation_names
    parts = [np.asarray(graph.schema.edges(names[edge.relation])) for edge in pattern.edges]
    deepest: list[Edge] = []

    def extend(
        place: int, types: dict[Term, int], chosen: tuple[int, ...]
    ) -> Iterator[tuple[int, ...]]:
        if place == len(pattern.edges):
            yield chosen
            return
        edge = pattern.edges[place]
        if len(deepest) <= place:
            deepest.append(edge)
        for part in parts[place].tolist():
            wanted = ((edge.head, int(ends.heads[part])), (edge.tail, int(ends.tails[part])))
            found = dict(types)
            if all(_fits(graph, found, term, kind) for term, kind in wanted):
                yield from extend(place + 1, found, (*chosen, part))

    readings = list(extend(0, {}, ()))
    if not readings:
        raise InputError(_clash(deepest[-1], graph))
    return readings


def _fits(graph: KnowledgeGraph, types: dict[Term, int], term: Term, kind: int) -> bool:
    own = int(graph.entity_types[term]) if isinstance(term, int) else types.setdefault(term, kind)
    return own == kind


def _clash(edge: Edge, graph: KnowledgeGraph) -> str:
    name = graph.schema.relation_names[edge.relation]
    relations = [graph.schema.relations[int(e)] for e in graph.schema.edges(name)]
    pairs = " or ".join(sorted({f"from {r.head} to {r.tail}" for r in relations}))
    terms = []
    for term in edge.terms:
        if isinstance(term, int):
            kind = graph.schema.types[int(graph.entity_types[term])].name
            terms.append(f"{graph.entities[term]} is of type {kind}")
        else:
            terms.append(f"{term} must fit the other edges")
    return f"{name!r} goes {pairs}, but {' and '.join(terms)}."

"""Random small graphs for the property tests, typed and untyped."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from knowledge_sheaves.graph import (
    GraphMorphism,
    KnowledgeGraph,
    Multigraph,
    Relation,
    Schema,
)


@st.composite
def multigraphs(draw: st.DrawFn, min_vertices: int = 0) -> Multigraph:
    """Draw a multigraph with loops and parallel edges."""
    size = draw(st.integers(min_vertices, 5))
    if size == 0:
        return Multigraph.from_edges(0, [])
    vertex = st.integers(0, size - 1)
    return Multigraph.from_edges(size, draw(st.lists(st.tuples(vertex, vertex), max_size=8)))


@st.composite
def morphisms_into(draw: st.DrawFn, target: Multigraph) -> GraphMorphism:
    """Draw a morphism: choose images first, so that incidence holds by construction."""
    size = draw(st.integers(1, 6)) if target.num_vertices else 0
    vertex_map = np.array(
        [draw(st.integers(0, target.num_vertices - 1)) for _ in range(size)], np.int64
    )
    lifts = [
        (head, tail, edge)
        for edge in range(target.num_edges)
        for head in np.flatnonzero(vertex_map == target.heads[edge]).tolist()
        for tail in np.flatnonzero(vertex_map == target.tails[edge]).tolist()
    ]
    chosen = draw(st.lists(st.sampled_from(lifts), max_size=8)) if lifts else []
    source = Multigraph.from_edges(size, [(head, tail) for head, tail, _ in chosen])
    return GraphMorphism(source, target, vertex_map, np.array([e for _, _, e in chosen], int))


@st.composite
def knowledge_graphs(draw: st.DrawFn) -> KnowledgeGraph:
    """Draw a typed graph with split relations, repeated triples and isolated entities."""
    num_types = draw(st.integers(1, 3))
    kinds = [f"type {place}" for place in range(num_types)]
    kind = st.sampled_from(kinds)
    edges = draw(
        st.lists(st.tuples(st.sampled_from("rs"), kind, kind), min_size=1, max_size=4, unique=True)
    )
    schema = Schema(kinds, [Relation(*edge) for edge in edges])
    types = np.array(draw(st.lists(st.integers(0, num_types - 1), min_size=1, max_size=6)))
    fitting = [
        (head, edge, tail)
        for edge, (start, stop) in enumerate(
            zip(schema.graph.heads, schema.graph.tails, strict=True)
        )
        for head in np.flatnonzero(types == start).tolist()
        for tail in np.flatnonzero(types == stop).tolist()
    ]
    rows = draw(st.lists(st.sampled_from(fitting), max_size=25)) if fitting else []
    columns = np.array(rows, int).reshape(-1, 3).T
    return KnowledgeGraph.from_arrays(*columns, schema=schema, entity_types=types)

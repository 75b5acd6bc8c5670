"""Multigraphs and morphisms against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_cases import morphisms_into, multigraphs
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import GraphMorphism, Multigraph


@given(st.data())
def test_morphisms_form_a_category(data: st.DataObject) -> None:
    h = data.draw(multigraphs(min_vertices=1).flatmap(morphisms_into))
    g = data.draw(morphisms_into(h.source))
    f = data.draw(morphisms_into(g.source))
    assert (h @ g) @ f == h @ (g @ f)
    assert f @ GraphMorphism.identity(f.source) == f == GraphMorphism.identity(f.target) @ f
    assert (g @ f).edge_map.tolist() == [g.edge_map[e] for e in f.edge_map]
    assert hash(f) == hash(f @ GraphMorphism.identity(f.source))


@given(multigraphs(), st.data())
def test_induced_subgraph_has_every_edge_within(graph: Multigraph, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(graph.num_vertices)))
    kept = order[: data.draw(st.integers(0, graph.num_vertices))]
    inclusion = graph.subgraph(vertices=kept)
    assert inclusion.vertex_map.tolist() == kept
    ends = list(zip(graph.heads.tolist(), graph.tails.tolist(), strict=True))
    within = [e for e, (h, t) in enumerate(ends) if h in kept and t in kept]
    assert inclusion.edge_map.tolist() == within


@given(multigraphs(), st.data())
def test_edge_subgraph_brings_its_ends(graph: Multigraph, data: st.DataObject) -> None:
    kept = [e for e in range(graph.num_edges) if data.draw(st.booleans())]
    inclusion = graph.subgraph(edges=kept)
    assert inclusion.edge_map.tolist() == kept
    ends = {int(v) for e in kept for v in (graph.heads[e], graph.tails[e])}
    assert inclusion.vertex_map.tolist() == sorted(ends)


def test_subgraph_of_vertices_and_edges() -> None:
    path = Multigraph.from_edges(3, [(0, 1), (1, 2), (1, 1)])
    inclusion = path.subgraph(vertices=[2, 1, 0], edges=[1])
    assert inclusion.source == Multigraph.from_edges(3, [(1, 0)])
    with pytest.raises(InputError, match="Edge 1 of the subgraph has an end outside"):
        path.subgraph(vertices=[0, 1], edges=[2, 1])
    with pytest.raises(InputError, match="must be distinct"):
        path.subgraph(vertices=[0, 0])
    assert path.subgraph().source.num_vertices == 0


@given(multigraphs())
def test_components_are_the_classes_of_reachability(graph: Multigraph) -> None:
    label = list(range(graph.num_vertices))
    for _ in range(graph.num_vertices):
        for head, tail in zip(graph.heads, graph.tails, strict=True):
            label[head] = label[tail] = min(label[head], label[tail])
    found = graph.components()
    same = np.equal.outer(found, found)
    assert np.array_equal(same, np.equal.outer(np.array(label), np.array(label)))


@given(multigraphs())
def test_degrees_count_edge_ends(graph: Multigraph) -> None:
    ends = graph.heads.tolist() + graph.tails.tolist()
    assert graph.degrees().tolist() == [ends.count(v) for v in range(graph.num_vertices)]


def test_graphs_compare_by_value() -> None:
    graph = Multigraph.from_edges(2, [(0, 1)])
    assert graph == Multigraph(2, np.array([0], np.int32), np.array([1], np.uint8))
    assert hash(graph) == hash(Multigraph.from_edges(2, [(0, 1)]))
    assert graph != Multigraph.from_edges(3, [(0, 1)])
    assert graph != Multigraph.from_edges(2, [(1, 1)])
    assert graph != "graph"
    assert GraphMorphism.identity(graph) != graph


@pytest.mark.parametrize(
    ("num_vertices", "heads", "tails", "message"),
    [
        (2, [0, 2], [0, 0], r"Vertices in heads: the value 2 at position 1 is not in range\(2\)"),
        (2, [0], [-1], "Vertices in tails: the value -1 at position 0"),
        (2, [0], [], "1 heads and 0 tails"),
        (2, [0.5], [0], "flat sequence of integers"),
        (2, [[0]], [0], "flat sequence of integers"),
        (-1, [], [], "cannot have -1 vertices"),
    ],
)
def test_bad_graphs_are_refused(
    num_vertices: int, heads: list[int], tails: list[int], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Multigraph(num_vertices, np.array(heads), np.array(tails))


def test_a_map_that_breaks_incidence_is_refused() -> None:
    path = Multigraph.from_edges(3, [(0, 1), (1, 2)])
    with pytest.raises(
        InputError, match=r"edge 1 \(1 to 2\) maps to edge 0 \(0 to 1\), .* 1 and 2"
    ):
        GraphMorphism(path, path, np.array([0, 1, 2]), np.array([0, 0]))
    with pytest.raises(
        InputError, match=r"edge 0 \(0 to 1\) maps to edge 0 \(0 to 1\), .* 0 and 0"
    ):
        GraphMorphism(path, path, np.array([0, 0, 2]), np.array([0, 1]))
    with pytest.raises(InputError, match="vertex map of a graph morphism needs 3 values, not 1"):
        GraphMorphism(path, path, np.array([0]), np.array([0, 1]))
    loop = Multigraph.from_edges(1, [(0, 0)])
    with pytest.raises(InputError, match="these two differ"):
        GraphMorphism.identity(loop) @ GraphMorphism.identity(path)
    with pytest.raises(TypeError):
        GraphMorphism.identity(loop) @ loop  # type: ignore[operator]

"""Directed multigraphs and the morphisms between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.arrays import IntArray, id_array


@dataclass(frozen=True, eq=False)
class Multigraph:
    """A directed multigraph: edge e goes from ``heads[e]`` to ``tails[e]``.

    Self-loops and parallel edges are welcome.

    >>> triangle = Multigraph.from_edges(3, [(0, 1), (1, 2), (2, 0)])
    >>> triangle.num_edges
    3
    """

    num_vertices: int
    heads: IntArray
    tails: IntArray

    def __post_init__(self) -> None:
        if self.num_vertices < 0:
            raise InputError(f"A graph cannot have {self.num_vertices} vertices.")
        for name in ("heads", "tails"):
            ends = id_array(getattr(self, name), self.num_vertices, f"Vertices in {name}")
            object.__setattr__(self, name, ends)
        if len(self.heads) != len(self.tails):
            raise InputError(
                f"Every edge has a head and a tail, but there are {len(self.heads)} heads "
                f"and {len(self.tails)} tails."
            )

    @classmethod
    def from_edges(cls, num_vertices: int, edges: Iterable[tuple[int, int]]) -> Multigraph:
        """Build the graph from pairs (head, tail).

        >>> Multigraph.from_edges(2, [(0, 1), (1, 1)]).tails.tolist()
        [1, 1]
        """
        ends = np.array(list(edges), np.int64).reshape(-1, 2)
        return cls(num_vertices, ends[:, 0].copy(), ends[:, 1].copy())

    @property
    def num_edges(self) -> int:
        """How many edges there are."""
        return len(self.heads)

    def degrees(self) -> IntArray:
        """Count the edge ends at each vertex; a self-loop has two.

        >>> Multigraph.from_edges(3, [(0, 1), (1, 1)]).degrees().tolist()
        [1, 3, 0]
        """
        ends = np.concatenate((self.heads, self.tails))
        return np.bincount(ends, minlength=self.num_vertices)

    def components(self) -> IntArray:
        """Label each vertex with its connected component, directions ignored.

        >>> Multigraph.from_edges(4, [(0, 1), (3, 2)]).components().tolist()
        [0, 0, 1, 1]
        """
        shape = (self.num_vertices, self.num_vertices)
        ones = np.ones(self.num_edges, np.int8)
        adjacency = coo_array((ones, (self.heads, self.tails)), shape=shape)
        _, labels = connected_components(adjacency, directed=False)
        return np.asarray(labels, np.int64)

    def subgraph(
        self, vertices: npt.ArrayLike | None = None, edges: npt.ArrayLike | None = None
    ) -> GraphMorphism:
        """Return the inclusion of a subgraph, numbered in the order given.

        Vertices alone give the induced subgraph, edges alone bring their ends.

        >>> path = Multigraph.from_edges(3, [(0, 1), (1, 2)])
        >>> path.subgraph(vertices=[1, 2]).edge_map.tolist()
        [1]
        >>> path.subgraph(edges=[1]).vertex_map.tolist()
        [1, 2]
        """
        if edges is None:
            kept_vertices = _distinct(vertices, self.num_vertices, "Vertices of a subgraph")
            inside = np.zeros(self.num_vertices, np.bool_)
            inside[kept_vertices] = True
            kept_edges: IntArray = np.flatnonzero(inside[self.heads] & inside[self.tails])
        else:
            kept_edges = _distinct(edges, self.num_edges, "Edges of a subgraph")
            ends = np.concatenate((self.heads[kept_edges], self.tails[kept_edges]))
            chosen = np.unique(ends) if vertices is None else vertices
            kept_vertices = _distinct(chosen, self.num_vertices, "Vertices of a subgraph")
        place = np.full(self.num_vertices, -1, np.int64)
        place[kept_vertices] = np.arange(len(kept_vertices))
        heads, tails = place[self.heads[kept_edges]], place[self.tails[kept_edges]]
        if kept_edges.size and min(heads.min(), tails.min()) < 0:
            bad = kept_edges[np.flatnonzero((heads < 0) | (tails < 0))[0]]
            raise InputError(f"Edge {bad} of the subgraph has an end outside its vertices; add it.")
        part = Multigraph(len(kept_vertices), heads, tails)
        return GraphMorphism(part, self, kept_vertices, kept_edges)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Multigraph):
            return NotImplemented
        return self is other or (
            self.num_vertices == other.num_vertices
            and np.array_equal(self.heads, other.heads)
            and np.array_equal(self.tails, other.tails)
        )

    def __hash__(self) -> int:
        return hash((self.num_vertices, self.num_edges))


@dataclass(frozen=True, eq=False)
class GraphMorphism:
    """A map of vertices and a map of edges that respect heads and tails.

    ``g @ f`` is first f, then g.

    >>> loop = Multigraph.from_edges(1, [(0, 0)])
    >>> path = Multigraph.from_edges(3, [(0, 1), (1, 2)])
    >>> wrap = GraphMorphism(path, loop, [0, 0, 0], [0, 0])
    >>> wrap @ GraphMorphism.identity(path) == wrap
    True
    """

    source: Multigraph
    target: Multigraph
    vertex_map: IntArray
    edge_map: IntArray

    def __post_init__(self) -> None:
        self._set("vertex_map", self.source.num_vertices, self.target.num_vertices)
        self._set("edge_map", self.source.num_edges, self.target.num_edges)
        wrong = self.vertex_map[self.source.heads] != self.target.heads[self.edge_map]
        wrong |= self.vertex_map[self.source.tails] != self.target.tails[self.edge_map]
        if wrong.any():
            edge = int(np.argmax(wrong))
            image = self.edge_map[edge]
            ends = self.source.heads[edge], self.source.tails[edge]
            raise InputError(
                f"Not a graph morphism: edge {edge} ({ends[0]} to {ends[1]}) maps to edge {image} "
                f"({self.target.heads[image]} to {self.target.tails[image]}), but its ends map to "
                f"{self.vertex_map[ends[0]]} and {self.vertex_map[ends[1]]}."
            )

    def _set(self, name: str, length: int, size: int) -> None:
        values = id_array(getattr(self, name), size, f"The {name.replace('_', ' ')}")
        if len(values) != length:
            raise InputError(
                f"The {name.replace('_', ' ')} of a graph morphism needs {length} values, "
                f"not {len(values)}."
            )
        object.__setattr__(self, name, values)

    @classmethod
    def identity(cls, graph: Multigraph) -> GraphMorphism:
        """Return the morphism that leaves the graph as it is.

        >>> GraphMorphism.identity(Multigraph.from_edges(2, [(0, 1)])).vertex_map.tolist()
        [0, 1]
        """
        return cls(graph, graph, np.arange(graph.num_vertices), np.arange(graph.num_edges))

    def __matmul__(self, first: GraphMorphism) -> GraphMorphism:
        if not isinstance(first, GraphMorphism):
            return NotImplemented
        if first.target != self.source:
            raise InputError("g @ f needs f to end in the graph where g starts; these two differ.")
        vertex_map, edge_map = self.vertex_map[first.vertex_map], self.edge_map[first.edge_map]
        return GraphMorphism(first.source, self.target, vertex_map, edge_map)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GraphMorphism):
            return NotImplemented
        return (
            self.source == other.source
            and self.target == other.target
            and np.array_equal(self.vertex_map, other.vertex_map)
            and np.array_equal(self.edge_map, other.edge_map)
        )

    def __hash__(self) -> int:
        return hash((self.source, self.target))


def _distinct(values: npt.ArrayLike | None, size: int, what: str) -> IntArray:
    ids = id_array(np.zeros(0, np.int64) if values is None else values, size, what)
    if len(np.unique(ids)) != len(ids):
        raise InputError(f"{what} must be distinct; drop the repeated ones.")
    return ids

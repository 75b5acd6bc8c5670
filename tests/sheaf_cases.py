"""Random small sheaves: loops, parallel edges, mixed dimensions, maps of low rank."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import hypothesis.strategies as st
import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.graph import Multigraph
from knowledge_sheaves.sheaf import BlockMap, CellularSheaf


@dataclass
class Case:
    """A sheaf and a source of random numbers that fit it."""

    sheaf: CellularSheaf
    generator: torch.Generator

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def vertex_cochain(self, *sections: int) -> Tensor:
        return self.normal(int(self.sheaf.vertex_offsets[-1]), *sections)

    def edge_cochain(self, *sections: int) -> Tensor:
        return self.normal(int(self.sheaf.edge_offsets[-1]), *sections)


@st.composite
def multigraphs(draw: st.DrawFn, max_vertices: int = 6, max_edges: int = 8) -> Multigraph:
    vertices = draw(st.integers(1, max_vertices))
    vertex = st.integers(0, vertices - 1)
    edges = draw(st.lists(st.tuples(vertex, vertex), max_size=max_edges))
    return Multigraph.from_edges(vertices, edges)


@st.composite
def sheaf_cases(
    draw: st.DrawFn, max_vertices: int = 6, max_edges: int = 8, min_edges: int = 0
) -> Case:
    graph = draw(multigraphs(max_vertices, max_edges).filter(lambda g: g.num_edges >= min_edges))
    n_blocks = draw(st.sampled_from([1, 1, 2, 3]))
    width = st.integers(1, 3)
    widths = [draw(width) for _ in range(graph.num_vertices)]
    heights = [draw(width) for _ in range(graph.num_edges)]
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    rank = draw(st.sampled_from([0, 1, 3, 3]))

    def map_(rows: int, cols: int) -> BlockMap:
        left = torch.randn(n_blocks, rows, rank, generator=generator, dtype=torch.float64)
        right = torch.randn(n_blocks, rank, cols, generator=generator, dtype=torch.float64)
        return BlockMap(left @ right)

    heads = [map_(r, widths[h]) for r, h in zip(heights, graph.heads, strict=True)]
    tails = [map_(r, widths[t]) for r, t in zip(heights, graph.tails, strict=True)]
    dims = [n_blocks * w for w in widths]
    sheaf = CellularSheaf.from_maps(graph, dims, heads, tails, n_blocks=n_blocks)
    return Case(sheaf, generator)


def columns(sheaf: CellularSheaf, vertices: list[int]) -> np.ndarray:
    """Positions of some vertices' coordinates in a 0-cochain."""
    offsets = sheaf.vertex_offsets
    parts = [np.arange(offsets[v], offsets[v + 1]) for v in vertices]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def attainable(sheaf: CellularSheaf, unknown: list[int]) -> float:
    """1e-8, or the error of normal equations where some unknowns are nearly, not quite, free.

    Eliminating vertices whose columns of δ have a smallest nonzero singular value s among largest
    ones of size S costs (S / s)² roundings.
    """
    delta, worst = sheaf.coboundary(), 1.0
    for count in range(1, len(unknown) + 1):
        for chosen in itertools.combinations(unknown, count):
            values = torch.linalg.svdvals(delta[:, columns(sheaf, list(chosen))])
            values = values[values > 1e-12 * values.max()] if values.numel() else values
            if values.numel():
                worst = max(worst, float(values.max() / values.min()))
    return max(1e-8, 64 * torch.finfo(torch.float64).eps * worst**2)

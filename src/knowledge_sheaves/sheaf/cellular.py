"""Cellular sheaves on directed multigraphs: stalks, restriction maps, coboundary, energy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import GraphMorphism, IntArray, Multigraph
from knowledge_sheaves.sheaf import sections
from knowledge_sheaves.sheaf.blocks import BlockMap, as_block_map, from_blocks, to_blocks
from knowledge_sheaves.sheaf.linalg import common_shape


@dataclass(frozen=True, eq=False)
class CellularSheaf:
    """A vector space on every vertex and edge of a graph, and a map for every incidence.

    ``maps`` is a table of distinct restriction maps; edge e uses ``maps[head_map[e]]`` at its head
    and ``maps[tail_map[e]]`` at its tail. A pullback therefore copies indices, not maps, and a
    sheaf on a graph with a million edges is as small as the one it was pulled back from. All maps
    have the same number of blocks. Maps may be batched; then so is every result.

    Cochains are flat: (total dimension,), or (..., total dimension, k) for k sections at once,
    with the stalks one after the other. The sign is (δx)_e = F_tail x_tail − F_head x_head.

    >>> path = Multigraph.from_edges(2, [(0, 1)])
    >>> sheaf = CellularSheaf.from_maps(path, [2, 1], [torch.tensor([[1.0, 1.0]])], [torch.eye(1)])
    >>> sheaf.coboundary()
    tensor([[-1., -1.,  1.]])
    >>> sheaf.energy(torch.tensor([1.0, 2.0, 3.0]))
    tensor(0.)
    >>> sheaf.global_sections().shape[1]
    2
    """

    graph: Multigraph
    vertex_dims: IntArray
    edge_dims: IntArray
    maps: tuple[BlockMap, ...]
    head_map: IntArray
    tail_map: IntArray

    @classmethod
    def from_maps(
        cls,
        graph: Multigraph,
        vertex_dims: Sequence[int],
        head_maps: Sequence[BlockMap | Tensor],
        tail_maps: Sequence[BlockMap | Tensor],
        n_blocks: int | None = None,
    ) -> CellularSheaf:
        """A sheaf from one head map and one tail map per edge (plain matrices will do)."""
        given = [*head_maps, *tail_maps]
        if len(head_maps) != graph.num_edges or len(tail_maps) != graph.num_edges:
            raise InputError(
                f"A graph of {graph.num_edges} edges needs as many head maps and tail maps, not "
                f"{len(head_maps)} and {len(tail_maps)}."
            )
        if n_blocks is None:
            n_blocks = next((m.n_blocks for m in given if isinstance(m, BlockMap)), 1)
        maps = tuple(as_block_map(m, n_blocks) for m in given)
        number = np.arange(graph.num_edges, dtype=np.int64)
        dims = np.asarray(vertex_dims, dtype=np.int64)
        edge_dims = np.array([m.rows for m in maps[: graph.num_edges]], dtype=np.int64)
        sheaf = cls(graph, dims, edge_dims, maps, number, number + graph.num_edges)
        sheaf._check()
        return sheaf

    def _check(self) -> None:
        if len(self.vertex_dims) != self.graph.num_vertices:
            raise InputError(
                f"A graph of {self.graph.num_vertices} vertices needs as many stalk dimensions, "
                f"not {len(self.vertex_dims)}."
            )
        ends = {
            "head": (self.graph.heads, self.head_map),
            "tail": (self.graph.tails, self.tail_map),
        }
        for end, (vertices, index) in ends.items():
            for e in range(self.graph.num_edges):
                map_, dim = self.maps[index[e]], int(self.vertex_dims[vertices[e]])
                if map_.cols != dim or map_.rows != self.edge_dims[e]:
                    raise InputError(
                        f"Edge {e} needs a {self.edge_dims[e]} × {dim} {end} map (edge stalk × "
                        f"vertex stalk), but was given a {map_.rows} × {map_.cols} one."
                    )

    @property
    def n_blocks(self) -> int:
        return self.maps[0].n_blocks if self.maps else 1

    @property
    def batch_shape(self) -> torch.Size:
        return common_shape(*(m.batch_shape for m in self.maps))

    def zeros(self, *shape: int) -> Tensor:
        """Zeros of the maps' number type."""
        if self.maps:
            return self.maps[0].blocks.new_zeros(shape)
        return torch.zeros(shape)

    def to(self, dtype: torch.dtype) -> CellularSheaf:
        """The same sheaf with its maps in another number type."""
        if self.zeros().dtype is dtype:
            return self
        return replace(self, maps=tuple(m.to(dtype) for m in self.maps))

    def blocks(self) -> list[CellularSheaf]:
        """The independent sheaves that the blocks of the maps make: this is their direct sum."""
        return [
            replace(
                self,
                vertex_dims=self.vertex_dims // self.n_blocks,
                edge_dims=self.edge_dims // self.n_blocks,
                maps=tuple(BlockMap(m.blocks[..., n : n + 1, :, :]) for m in self.maps),
            )
            for n in range(self.n_blocks)
        ]

    @cached_property
    def vertex_offsets(self) -> IntArray:
        """Where each vertex's stalk starts in a 0-cochain; the last entry is its length."""
        return np.concatenate([[0], np.cumsum(self.vertex_dims)]).astype(np.int64)

    @cached_property
    def edge_offsets(self) -> IntArray:
        return np.concatenate([[0], np.cumsum(self.edge_dims)]).astype(np.int64)

    def head(self, edge: int) -> BlockMap:
        """The restriction map at the head of an edge."""
        return self.maps[self.head_map[edge]]

    def tail(self, edge: int) -> BlockMap:
        """The restriction map at the tail of an edge."""
        return self.maps[self.tail_map[edge]]

    def stalk(self, x: Tensor, vertex: int) -> Tensor:
        """The part of a 0-cochain over one vertex."""
        return _slice(x, self.vertex_offsets, vertex)

    def edge_stalk(self, y: Tensor, edge: int) -> Tensor:
        """The part of a 1-cochain over one edge."""
        return _slice(y, self.edge_offsets, edge)

    # The coboundary and what follows from it.

    def apply_coboundary(self, x: Tensor) -> Tensor:
        """δx without forming δ: one batched product per distinct map."""
        self._check_length(x, self.vertex_offsets, "0-cochain")
        column = x.unsqueeze(-1) if x.ndim == 1 else x
        batch = common_shape(self.batch_shape, column.shape[:-2])
        out = column.new_zeros(*batch, int(self.edge_offsets[-1]), column.shape[-1])
        ends = ((self.graph.tails, self.tail_map, 1.0), (self.graph.heads, self.head_map, -1.0))
        for vertices, index, sign in ends:
            for number in np.unique(index):
                edges = np.flatnonzero(index == number)
                map_ = self.maps[number]
                rows = _positions(self.edge_offsets, edges, map_.rows)
                cols = _positions(self.vertex_offsets, vertices[edges], map_.cols)
                values = to_blocks(column[..., cols, :], self.n_blocks)
                image = from_blocks(map_.blocks.unsqueeze(-4) @ values, column)
                out = out.index_add(-2, rows.flatten(), sign * image.flatten(-3, -2))
        return out.squeeze(-1) if x.ndim == 1 and out.ndim == 2 else out

    def coboundary(self) -> Tensor:
        """δ as a dense matrix (..., edge dimensions, vertex dimensions)."""
        size = (int(self.edge_offsets[-1]), int(self.vertex_offsets[-1]))
        delta = self.zeros(*self.batch_shape, *size)
        for e in range(self.graph.num_edges):
            rows = slice(*self.edge_offsets[e : e + 2])
            head, tail = int(self.graph.heads[e]), int(self.graph.tails[e])
            delta[..., rows, slice(*self.vertex_offsets[tail : tail + 2])] += self.tail(e).dense()
            delta[..., rows, slice(*self.vertex_offsets[head : head + 2])] -= self.head(e).dense()
        return delta

    def coboundary_sparse(self) -> sp.csr_array:
        """δ as a scipy sparse matrix in double precision, built map by map."""
        if self.batch_shape:
            raise InputError("A batch of sheaves has no single sparse matrix; index it first.")
        parts = []
        ends = ((self.graph.tails, self.tail_map, 1.0), (self.graph.heads, self.head_map, -1.0))
        for vertices, index, sign in ends:
            for number in np.unique(index):
                edges = np.flatnonzero(index == number)
                dense = sp.coo_array(self.maps[number].dense().detach().double().cpu().numpy())
                rows = self.edge_offsets[edges][:, None] + dense.row
                cols = self.vertex_offsets[vertices[edges]][:, None] + dense.col
                values = np.broadcast_to(sign * dense.data, rows.shape)
                parts.append((values.ravel(), rows.ravel(), cols.ravel()))
        shape = (int(self.edge_offsets[-1]), int(self.vertex_offsets[-1]))
        if not parts:
            return sp.csr_array(shape)
        values, rows, cols = (np.concatenate(column) for column in zip(*parts, strict=True))
        return sp.coo_array((values, (rows, cols)), shape=shape).tocsr()

    def laplacian(self) -> Tensor:
        """L = δᵀδ as a dense matrix."""
        delta = self.coboundary()
        return delta.mT @ delta

    def laplacian_sparse(self) -> sp.csr_array:
        """L = δᵀδ as a scipy sparse matrix."""
        delta = self.coboundary_sparse()
        return (delta.T @ delta).tocsr()

    def residuals(self, x: Tensor, translation: Tensor | None = None) -> Tensor:
        """ρ = b − δx, a 1-cochain: what keeps x from being a section (b = 0 if not given)."""
        image = self.apply_coboundary(x)
        if translation is None:
            return -image
        self._check_length(translation, self.edge_offsets, "1-cochain")
        if (translation.ndim == 1) != (image.ndim == 1):
            raise InputError(
                f"The translation has shape {tuple(translation.shape)} where δx has "
                f"{tuple(image.shape)}: give both their sections, (…, dimensions, k)."
            )
        return translation - image

    def edge_energies(
        self, x: Tensor, translation: Tensor | None = None, norm: float = 2, power: float = 2
    ) -> Tensor:
        """‖ρ_e‖_norm^power for every edge, (..., edges): the quadratic form unless told otherwise.

        Sections are measured together: all k columns of an edge enter one norm.
        """
        rho = self.residuals(x, translation)
        rho = rho.unsqueeze(-1) if rho.ndim == 1 else rho
        owner = torch.from_numpy(np.repeat(np.arange(self.graph.num_edges), self.edge_dims))
        zeros = rho.new_zeros(*rho.shape[:-2], self.graph.num_edges)
        if norm == float("inf"):
            index = owner.expand(rho.shape[:-1])
            return zeros.scatter_reduce(-1, index, rho.abs().amax(-1), "amax") ** power
        total = zeros.index_add(-1, owner, (rho.abs() ** norm).sum(-1))
        return total if norm == power else total ** (power / norm)

    def energy(self, x: Tensor, translation: Tensor | None = None) -> Tensor:
        """V(x) = ‖δx − b‖², (...) in shape."""
        rho = self.residuals(x, translation)
        return rho.square().sum() if rho.ndim == 1 else rho.square().sum((-2, -1))

    def is_section(self, x: Tensor, translation: Tensor | None = None, tol: float = 1e-6) -> bool:
        """Whether no coordinate of any residual exceeds ``tol``."""
        rho = self.residuals(x, translation)
        return rho.numel() == 0 or bool(rho.abs().max() <= tol)

    # Sections and the spectrum: see `sections` for how they are computed.

    def global_sections(self, tol: float | None = None) -> Tensor:
        """An orthonormal basis of H⁰ = ker δ, as columns.

        ``tol`` is what counts as zero beside δ's largest singular value: unless told, 1e-9, or the
        rounding of the maps where they are coarser.
        """
        return sections.global_sections(self, tol)

    def first_cohomology_dimension(self, tol: float | None = None) -> int:
        """dim H¹ = dim coker δ: how many independent translations no embedding can satisfy."""
        rank = int(self.vertex_offsets[-1]) - self.global_sections(tol).shape[1]
        return int(self.edge_offsets[-1]) - rank

    def nearest_section(self, x: Tensor, translation: Tensor | None = None) -> Tensor:
        """The point nearest to x among those that make ‖δx − b‖ smallest."""
        return sections.nearest_section(self, x, translation)

    def spectrum(self, count: int | None = None) -> Tensor:
        """The smallest eigenvalues of L, ascending (all of them unless told how many)."""
        return sections.spectrum(self, count)

    def spectral_gap(self, tol: float | None = None) -> float:
        """The smallest eigenvalue of L that is not zero (infinite if there is none)."""
        return sections.spectral_gap(self, tol)

    def diffuse(self, x: Tensor, time: float, translation: Tensor | None = None) -> Tensor:
        """Heat flow dx/dt = −(Lx − δᵀb) for some time; as time grows, `nearest_section`."""
        return sections.diffuse(self, x, time, translation)

    # Pullback along a morphism of graphs.

    def pullback(self, morphism: GraphMorphism) -> CellularSheaf:
        """k*F: every vertex and edge takes the stalk and the maps of its image."""
        self._check_target(morphism)
        return CellularSheaf(
            morphism.source,
            self.vertex_dims[morphism.vertex_map],
            self.edge_dims[morphism.edge_map],
            self.maps,
            self.head_map[morphism.edge_map],
            self.tail_map[morphism.edge_map],
        )

    def pullback_vertices(self, x: Tensor, morphism: GraphMorphism) -> Tensor:
        """Carry a 0-cochain on this sheaf to one on the pullback."""
        self._check_target(morphism)
        return _gather(x, self.vertex_offsets, self.vertex_dims, morphism.vertex_map)

    def pullback_edges(self, y: Tensor, morphism: GraphMorphism) -> Tensor:
        """Carry a 1-cochain on this sheaf to one on the pullback."""
        self._check_target(morphism)
        return _gather(y, self.edge_offsets, self.edge_dims, morphism.edge_map)

    def _check_target(self, morphism: GraphMorphism) -> None:
        if morphism.target is not self.graph and morphism.target != self.graph:
            raise InputError("A sheaf pulls back along morphisms into its own graph only.")

    def _check_length(self, x: Tensor, offsets: IntArray, what: str) -> None:
        length = x.shape[-1] if x.ndim == 1 else x.shape[-2]
        if length != offsets[-1]:
            raise InputError(
                f"A {what} on this sheaf has {offsets[-1]} coordinates, (…, {offsets[-1]}, k), "
                f"but the tensor has shape {tuple(x.shape)}."
            )


def _slice(x: Tensor, offsets: IntArray, number: int) -> Tensor:
    start, length = int(offsets[number]), int(offsets[number + 1] - offsets[number])
    return x.narrow(-1 if x.ndim == 1 else -2, start, length)


def _positions(offsets: IntArray, numbers: IntArray, dim: int) -> Tensor:
    return torch.from_numpy(offsets[numbers][:, None] + np.arange(dim))


def _gather(x: Tensor, offsets: IntArray, dims: IntArray, image: IntArray) -> Tensor:
    """Concatenate the stalks over ``image``, in order, repeats included."""
    lengths = dims[image]
    ends = np.cumsum(lengths)
    within = np.arange(int(lengths.sum())) - np.repeat(ends - lengths, lengths)
    index = torch.from_numpy(np.repeat(offsets[image], lengths) + within)
    return x.index_select(-1 if x.ndim == 1 else -2, index)

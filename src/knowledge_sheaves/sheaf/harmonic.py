"""Harmonic extension: the best values for unknown vertices, and what the energy is at its best."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.sheaf.blocks import BlockMap, to_blocks
from knowledge_sheaves.sheaf.cellular import CellularSheaf
from knowledge_sheaves.sheaf.linalg import common_shape, diagonal_scale
from knowledge_sheaves.sheaf.quadratic import Prior, QuadraticForm, accumulate

K = TypeVar("K")


def energy_form(
    sheaf: CellularSheaf,
    translation: Tensor | None = None,
    sections: int | None = None,
    weights: Tensor | None = None,
    working: torch.dtype = torch.float64,
) -> QuadraticForm:
    """V(x) = Σ_e w_e ‖(δx − b)_e‖² as a quadratic form over the vertices of the sheaf's graph.

    ``translation`` b is a 1-cochain, (edge dimensions,) or (..., edge dimensions, k). Without one,
    say for how many ``sections`` the form is meant (one, unless told otherwise). ``weights``
    (..., edges) weigh edges against each other; without them each counts once. ``working`` is the
    number type of the arithmetic until unknowns are eliminated: see `QuadraticForm`.
    """
    square: dict[tuple[int, int], Tensor] = {}
    linear: dict[int, Tensor] = {}
    dtype = sheaf.zeros().dtype
    constant = sheaf.zeros(*sheaf.batch_shape).to(working)  # a batch of forms, also where all is 0
    for e in range(sheaf.graph.num_edges):
        root = None if weights is None else weights[..., e, None, None, None].to(working).sqrt()
        ends = _signed_maps(sheaf, e, root, working)
        for u, f in ends.items():
            for v, g in ends.items():
                if u <= v:
                    _add(square, (u, v), f.sign * g.sign, _gram(f, g))
        if translation is not None:
            b = to_blocks(sheaf.edge_stalk(translation, e), sheaf.n_blocks).to(working)
            b = b if root is None else root * b
            for v, f in ends.items():
                _add(linear, v, -f.sign, b.clone() if f.is_identity else f.map.mT @ b)
            constant = constant + b.square().sum((-3, -2, -1))
    if translation is not None:
        sections = 1 if translation.ndim == 1 else translation.shape[-1]
    return QuadraticForm(
        widths={v: int(dim) // sheaf.n_blocks for v, dim in enumerate(sheaf.vertex_dims)},
        square=square,
        linear=linear,
        constant=constant,
        n_blocks=sheaf.n_blocks,
        sections=sections or 1,
        scale={u: diagonal_scale(block) for (u, v), block in square.items() if u == v},
        dtype=dtype,
    )


class _Signed(NamedTuple):
    """An entry of √w δ."""

    sign: int
    map: Tensor
    is_identity: bool = False


def _signed_maps(
    sheaf: CellularSheaf, edge: int, root: Tensor | None, working: torch.dtype
) -> dict[int, _Signed]:
    """The row of √w δ that belongs to an edge; on a loop the two maps meet in one vertex."""
    head, tail = int(sheaf.graph.heads[edge]), int(sheaf.graph.tails[edge])
    maps = (sheaf.head(edge), sheaf.tail(edge))
    blocks = [m.blocks.to(working) for m in maps]
    f, g = blocks if root is None else (root * b for b in blocks)
    if head == tail:
        return {head: _Signed(1, g - f)}
    one, other = (m.is_identity and root is None for m in maps)
    return {head: _Signed(-1, f, one), tail: _Signed(1, g, other)}


def _gram(f: _Signed, g: _Signed) -> Tensor:
    """FᵀG, a tensor of its own; half of the maps are the identity in most models."""
    if g.is_identity:
        return f.map.mT.clone(memory_format=torch.contiguous_format)
    return g.map.clone() if f.is_identity else f.map.mT @ g.map


def _add(terms: dict[K, Tensor], key: K, sign: int, product: Tensor) -> None:
    """Add a product that nobody else holds: in place, since these are the largest tensors here."""
    if sign < 0:
        product.neg_()
    held = terms.get(key)
    if held is not None and common_shape(held.shape, product.shape) == held.shape:
        held.add_(product)
    else:
        accumulate(terms, key, product)


def schur_complement(
    sheaf: CellularSheaf,
    boundary: Collection[int],
    translation: Tensor | None = None,
    priors: Mapping[int, Prior] | None = None,
    sections: int | None = None,
) -> QuadraticForm:
    """V*(y_B) = min over all other vertices of ‖δy − b‖² (+ priors), as a form over B.

    The square part is the Schur complement L / L_UU; the affine and constant terms are kept. Use
    the form again and again with other sources (`fix`), for many targets at once (`evaluate`), or
    turn it into a pair of maps (`factorise`).

    >>> from knowledge_sheaves.graph import Multigraph
    >>> turn = BlockMap.rotation(torch.tensor([torch.pi / 2]))
    >>> path = Multigraph.from_edges(3, [(0, 1), (1, 2)])
    >>> identity = BlockMap.identity(2, n_blocks=1)
    >>> sheaf = CellularSheaf.from_maps(path, [2, 2, 2], [turn, turn], [identity, identity])
    >>> half_turn = schur_complement(sheaf, [0, 2])
    >>> x = torch.tensor([1.0, 2.0])
    >>> half_turn({0: x, 2: -x}).round(decimals=5)
    tensor(0.)
    """
    unknown = _unknown(sheaf, boundary)
    form = energy_form(sheaf, translation, sections)
    return form.add_priors(_on(priors, unknown)).eliminate(unknown)


@dataclass(frozen=True, eq=False)
class Extension:
    """The outcome of `harmonic_extension`."""

    cochain: Tensor
    """The values of all vertices, the given ones included."""
    energy: Tensor
    """The energy that is left, priors included."""
    unknowns: QuadraticForm
    """The energy as a form over the unknown vertices; its square part is their precision."""

    def covariance(self, variance: Tensor | float = 1.0) -> BlockMap:
        """Posterior covariance of the unknowns for a noise of this variance per dimension."""
        return self.unknowns.covariance(variance)


def harmonic_extension(
    sheaf: CellularSheaf,
    boundary: Mapping[int, Tensor],
    translation: Tensor | None = None,
    priors: Mapping[int, Prior] | None = None,
) -> Extension:
    """Extend values on some vertices to all of them with the least energy.

    y_U = L_UU⁺ ((δᵀb)_U − L_UB y_B); with priors, the posterior mean of the unknowns. Values are
    (dim,) each, or (..., dim, k) for batches and sections.

    >>> from knowledge_sheaves.graph import Multigraph
    >>> path = Multigraph.from_edges(3, [(0, 1), (1, 2)])
    >>> one = torch.ones(1, 1)
    >>> sheaf = CellularSheaf.from_maps(path, [1, 1, 1], [one, one], [one, one])
    >>> extension = harmonic_extension(sheaf, {0: torch.tensor([0.0]), 2: torch.tensor([2.0])})
    >>> extension.cochain, extension.energy
    (tensor([0., 1., 2.]), tensor(2.))
    """
    unknown = _unknown(sheaf, boundary)
    given = [*boundary.values(), *([] if translation is None else [translation])]
    plain = all(value.ndim == 1 for value in given)
    sections = next((v.shape[-1] for v in boundary.values() if v.ndim > 1), 1)
    form = energy_form(sheaf, translation, sections).fix(boundary)
    form = form.add_priors(_on(priors, unknown))
    best = form.minimiser()
    values = {v: y.unsqueeze(-1) if y.ndim == 1 else y for v, y in boundary.items()} | best
    batch = common_shape(*(y.shape[:-2] for y in values.values()))
    parts = [values[v].expand(*batch, -1, -1) for v in range(sheaf.graph.num_vertices)]
    cochain = torch.cat(parts, -2) if parts else sheaf.zeros(0, 1)
    if plain and cochain.ndim == 2 and cochain.shape[-1] == 1:
        cochain = cochain.squeeze(-1)
    return Extension(cochain, form(best), form)


def _unknown(sheaf: CellularSheaf, boundary: Collection[int]) -> list[int]:
    for vertex in boundary:
        if not 0 <= vertex < sheaf.graph.num_vertices:
            raise InputError(
                f"Boundary vertex {vertex} is not one of the {sheaf.graph.num_vertices} vertices."
            )
    return [v for v in range(sheaf.graph.num_vertices) if v not in boundary]


def _on(priors: Mapping[int, Prior] | None, unknown: list[int]) -> dict[int, Prior]:
    priors = dict(priors or {})
    for vertex in priors:
        if vertex not in unknown:
            raise InputError(f"A prior is for unknown vertices; vertex {vertex} is not one.")
    return priors

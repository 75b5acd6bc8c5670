"""The Gaussian view: an energy as the density p(y) ∝ exp(−V(y) / 2σ²).

The Laplacian is a precision matrix, every edge a potential, and what was minimised is marginalised:
unknowns have a density, can be drawn, and lie in a region with a probability.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.sheaf.blocks import BlockMap
from knowledge_sheaves.sheaf.cellular import CellularSheaf
from knowledge_sheaves.sheaf.quadratic import QuadraticForm
from knowledge_sheaves.sheaf.regions import Ball, HalfSpace, Probability
from knowledge_sheaves.sheaf.sections import rounding

LARGEST = 4000
"""Vertex dimensions of a block up to which a determinant is computed, by all eigenvalues."""


class _Factors(NamedTuple):
    """S = U Λ Uᵀ by blocks, in double precision."""

    values: Tensor
    vectors: Tensor


@dataclass(frozen=True, eq=False)
class Gaussian:
    """The density of the vertices of a form, for a noise of ``variance`` σ² per dimension.

    A vertex that some direction leaves free has no density; a `Prior` gives it one.

    >>> from knowledge_sheaves.graph import Multigraph
    >>> from knowledge_sheaves.sheaf import energy_form
    >>> one = torch.ones(1, 1)
    >>> path = Multigraph.from_edges(3, [(0, 1), (1, 2)])
    >>> sheaf = CellularSheaf.from_maps(path, [1, 1, 1], [one, one], [one, one])
    >>> ends = {0: torch.tensor([0.0]), 2: torch.tensor([2.0])}
    >>> between = Gaussian(energy_form(sheaf).fix(ends), variance=0.5)
    >>> between.mean[1], between.covariance(1).dense()
    (tensor([[1.]]), tensor([[0.2500]]))
    >>> between.probability(1, Ball(torch.tensor([1.0]), radius=0.5)).value  # one deviation
    tensor(0.6827)
    """

    form: QuadraticForm
    variance: float = 1.0

    @cached_property
    def mean(self) -> dict[int, Tensor]:
        """Where the density is largest, by vertex."""
        return self.form.minimiser()

    def covariance(self, vertex: int) -> BlockMap:
        """Σ of one vertex, whatever the others are; sections are independent of each other."""
        place = self._place(vertex)
        values, vectors = self._factors
        rows = vectors[..., place, :]
        blocks = self.variance * (rows / values.unsqueeze(-2)) @ rows.mT
        return BlockMap(blocks.to(self._dtype))

    def log_density(self, values: Mapping[int, Tensor]) -> Tensor:
        """log p of values for all vertices: (...) in shape."""
        above = self.form(values).double() - self.form.minimum().double()
        eigenvalues = self._factors.values
        per_dimension = (eigenvalues / (2 * math.pi * self.variance)).log().sum((-2, -1)) / 2
        density = self.form.sections * per_dimension - above / (2 * self.variance)
        return density.to(self._dtype)

    def sample(self, count: int, generator: torch.Generator | None = None) -> dict[int, Tensor]:
        """``count`` draws of all vertices together: (count, ..., dim, k) by vertex."""
        values, vectors = self._factors
        shape = (count, *values.shape, self.form.sections)
        noise = torch.randn(shape, generator=generator, dtype=torch.float64)
        away = vectors @ ((self.variance / values).sqrt().unsqueeze(-1) * noise)
        return {
            v: self.mean[v] + away[..., self._place(v), :].flatten(-3, -2).to(self._dtype)
            for v in self.form.vertices
        }

    def probability(self, vertex: int, region: Ball | HalfSpace) -> Probability:
        """The probability that a vertex lies in a region, whatever the others are.

        A half-space has a closed form, a ball a series whose error is bounded, or, where the
        series is too slow, a sample with its standard error: the answer says which.
        """
        mean = self.mean[vertex].double()
        return region.probability(mean, self.covariance(vertex).blocks.double())

    @cached_property
    def _factors(self) -> _Factors:
        square = self.form._joined()[0].double()
        values, vectors = torch.linalg.eigh(square)
        if not values.shape[-1] or bool((values[..., 0] > self._least(values)).all()):
            return _Factors(values, vectors)
        raise InputError(
            "The energy leaves an unknown free in some direction, so that it has no density: give "
            "it a prior, or fix more of its neighbours."
        )

    def _least(self, values: Tensor) -> Tensor:
        return 1e-12 * values.abs().amax(-1)

    def _place(self, vertex: int) -> slice:
        if vertex not in self.form.widths:
            raise InputError(f"Vertex {vertex} is not among {list(self.form.widths)}.")
        order = self.form.vertices
        before = sum(self.form.widths[v] for v in order[: order.index(vertex)])
        return slice(before, before + self.form.widths[vertex])

    @property
    def _dtype(self) -> torch.dtype:
        return self.form.dtype or self.form.constant.dtype


def log_potentials(
    sheaf: CellularSheaf, x: Tensor, translation: Tensor | None = None, variance: float = 1.0
) -> Tensor:
    """log ψ_e = −V_e(x) / 2σ² of every edge: the density is their product, normalised."""
    return -sheaf.edge_energies(x, translation) / (2 * variance)


def log_density(
    sheaf: CellularSheaf, x: Tensor, translation: Tensor | None = None, variance: float = 1.0
) -> Tensor:
    """log p(x) of a whole 0-cochain under p ∝ Π_e ψ_e.

    No energy tells global sections apart, so this is the density on what is orthogonal to them:
    −(V(x) − min V) / 2σ² + ½ log pdet(L / 2πσ²), once for every section (column) of x.

    >>> from knowledge_sheaves.graph import Multigraph
    >>> one, edge = torch.ones(1, 1), Multigraph.from_edges(2, [(0, 1)])
    >>> sheaf = CellularSheaf.from_maps(edge, [1, 1], [one], [one])
    >>> log_density(sheaf, torch.tensor([1.0, 1.0])).exp()  # of their distance / √2, at 0
    tensor(0.5642)
    """
    double = sheaf.to(torch.float64)
    b = None if translation is None else translation.double()
    best = double.nearest_section(x.double(), b)
    above = double.energy(x.double(), b) - double.energy(best, b)
    sections = 1 if x.ndim == 1 else x.shape[-1]
    normal = sections * _half_log_determinant(sheaf, variance)
    return (normal - above / (2 * variance)).to(x)


def _half_log_determinant(sheaf: CellularSheaf, variance: float) -> Tensor:
    """½ log pdet(L / 2πσ²), block by block: blocks are independent."""
    size = int(sheaf.vertex_offsets[-1]) // sheaf.n_blocks
    if size > LARGEST:
        raise InputError(
            f"The determinant of a Laplacian with {size:,} dimensions in a block is not computed, "
            f"only up to {LARGEST:,}: take a part of the graph."
        )
    spectra = []
    for part in sheaf.to(torch.float64).blocks():
        delta = part.coboundary()
        spectra.append(torch.linalg.eigvalsh(delta.mT @ delta))
    values = torch.cat(spectra)
    # Eigenvalues are squares of singular values, but rounded like sums.
    least = max(rounding(sheaf.zeros().dtype) ** 2, 1e-12)
    kept = values[values > least * values.max().clamp(min=1e-300)] if len(values) else values
    return (kept / (2 * math.pi * variance)).log().sum() / 2

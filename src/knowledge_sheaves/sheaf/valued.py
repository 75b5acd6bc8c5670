"""Sheaves with values elsewhere: groups, torsors and metric spaces instead of vector spaces.

All that energy needs is a way to compare two points of an edge's stalk. Where points can be
subtracted (vectors, the torus, rotations) the comparison is the squared length of the difference;
a metric space brings its own. There is no closed form here, so extension is gradient descent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import Multigraph

Map = Callable[[Tensor], Tensor]


class Space(Protocol):
    """A stalk: points are tensors of some shape, ``cost`` is a squared distance."""

    def point(self, coordinates: Tensor) -> Tensor:
        """The point with these free coordinates; descent moves the coordinates."""
        ...

    def random(self, generator: torch.Generator) -> Tensor:
        """Coordinates of a random point, to start a descent from."""
        ...

    def cost(self, a: Tensor, b: Tensor) -> Tensor:
        """How far two points are apart, squared."""
        ...


@dataclass(frozen=True)
class Euclidean:
    """ℝ^dim, as a vector space or (with affine maps) as a torsor over itself."""

    dim: int

    def point(self, coordinates: Tensor) -> Tensor:
        return coordinates

    def random(self, generator: torch.Generator) -> Tensor:
        return torch.randn(self.dim, generator=generator, dtype=torch.float64)

    def cost(self, a: Tensor, b: Tensor) -> Tensor:
        return (a - b).square().sum()


@dataclass(frozen=True)
class Torus:
    """(ℝ/ℤ)^dim: coordinates count modulo 1, differences lie between −½ and ½."""

    dim: int

    def point(self, coordinates: Tensor) -> Tensor:
        return coordinates - coordinates.floor()

    def random(self, generator: torch.Generator) -> Tensor:
        return torch.rand(self.dim, generator=generator, dtype=torch.float64)

    def cost(self, a: Tensor, b: Tensor) -> Tensor:
        return torus_difference(a, b).square().sum()


def torus_difference(a: Tensor, b: Tensor) -> Tensor:
    """a − b modulo 1, the representative nearest to 0.

    >>> torus_difference(torch.tensor([0.9]), torch.tensor([0.1])).round(decimals=4)
    tensor([-0.2000])
    """
    difference = a - b
    return difference - difference.round()


@dataclass(frozen=True)
class Rotations:
    """SO(n): points are rotation matrices, the difference of a and b is aᵀb."""

    n: int

    def point(self, coordinates: Tensor) -> Tensor:
        upper = coordinates.new_zeros(self.n, self.n)
        i, j = torch.triu_indices(self.n, self.n, 1)
        upper = upper.index_put((i, j), coordinates)
        return torch.linalg.matrix_exp(upper - upper.mT)

    def random(self, generator: torch.Generator) -> Tensor:
        size = self.n * (self.n - 1) // 2
        return 2 * torch.randn(size, generator=generator, dtype=torch.float64)

    def cost(self, a: Tensor, b: Tensor) -> Tensor:
        identity = torch.eye(self.n, dtype=a.dtype)
        return (a.mT @ b - identity).square().sum()


@dataclass(frozen=True)
class MetricSpace:
    """Any space given by its distance and a differentiable chart from ℝ^dim onto it."""

    dim: int
    distance: Callable[[Tensor, Tensor], Tensor]
    chart: Map | None = None

    def point(self, coordinates: Tensor) -> Tensor:
        return self.chart(coordinates) if self.chart else coordinates

    def random(self, generator: torch.Generator) -> Tensor:
        return torch.randn(self.dim, generator=generator, dtype=torch.float64)

    def cost(self, a: Tensor, b: Tensor) -> Tensor:
        return self.distance(a, b).square()


@dataclass(frozen=True, eq=False)
class ValuedSheaf:
    """A sheaf on a graph with stalks in any `Space` and differentiable restriction maps.

    V(x) = Σ_e cost(F_head x_head, F_tail x_tail). A translation is part of a map: ``x ↦ F x + z``.

    >>> clock = Torus(1)                     # three quarters of a turn, twice, is half a turn
    >>> path = Multigraph.from_edges(3, [(0, 1), (1, 2)])
    >>> later = lambda x: x + 0.75
    >>> sheaf = ValuedSheaf(path, [clock] * 3, [clock] * 2, [later] * 2, [lambda x: x] * 2)
    >>> noon = torch.zeros(1, dtype=torch.float64)
    >>> values, energy = sheaf.extend({0: noon})
    >>> float(torus_difference(values[2], noon + 0.5).abs()) < 1e-6, float(energy) < 1e-9
    (True, True)
    """

    graph: Multigraph
    vertex_spaces: Sequence[Space]
    edge_spaces: Sequence[Space]
    head_maps: Sequence[Map]
    tail_maps: Sequence[Map]

    def __post_init__(self) -> None:
        vertices, edges = self.graph.num_vertices, self.graph.num_edges
        if len(self.vertex_spaces) != vertices:
            raise InputError(
                f"{vertices} vertices need as many spaces, not {len(self.vertex_spaces)}."
            )
        if {len(self.edge_spaces), len(self.head_maps), len(self.tail_maps)} != {edges}:
            raise InputError(f"{edges} edges need as many spaces, head maps and tail maps.")

    def edge_energies(self, points: Mapping[int, Tensor] | Sequence[Tensor]) -> Tensor:
        """The cost of every edge."""
        costs = [
            space.cost(head(points[int(h)]), tail(points[int(t)]))
            for space, head, tail, h, t in zip(
                self.edge_spaces,
                self.head_maps,
                self.tail_maps,
                self.graph.heads,
                self.graph.tails,
                strict=True,
            )
        ]
        return torch.stack(costs) if costs else torch.zeros(0)

    def energy(self, points: Mapping[int, Tensor] | Sequence[Tensor]) -> Tensor:
        """V(x), the sum over the edges."""
        return self.edge_energies(points).sum()

    def extend(
        self,
        boundary: Mapping[int, Tensor],
        restarts: int = 8,
        iterations: int = 200,
        seed: int = 0,
    ) -> tuple[dict[int, Tensor], Tensor]:
        """The best values found for all other vertices, and their energy.

        Costs may have several valleys, so the descent starts from ``restarts`` random points and
        the lowest end counts; the seed makes it repeat.
        """
        generator = torch.Generator().manual_seed(seed)
        best: tuple[dict[int, Tensor], Tensor] | None = None
        for _ in range(max(1, restarts)):
            points, energy = self._descend(boundary, iterations, generator)
            if best is None or energy < best[1]:
                best = points, energy
        assert best is not None, "there is at least one start"
        return best

    def _descend(
        self, boundary: Mapping[int, Tensor], iterations: int, generator: torch.Generator
    ) -> tuple[dict[int, Tensor], Tensor]:
        free = {
            v: space.random(generator).requires_grad_()
            for v, space in enumerate(self.vertex_spaces)
            if v not in boundary
        }

        def points() -> dict[int, Tensor]:
            moved = {v: self.vertex_spaces[v].point(x) for v, x in free.items()}
            return {**boundary, **moved}

        if free and self.graph.num_edges:
            optimiser = torch.optim.LBFGS(
                list(free.values()),
                max_iter=iterations,
                tolerance_grad=1e-12,
                tolerance_change=1e-15,
                line_search_fn="strong_wolfe",
            )

            def closure() -> float:
                optimiser.zero_grad()
                energy = self.energy(points())
                if energy.requires_grad:
                    energy.backward()
                return float(energy.detach())

            optimiser.step(closure)
        with torch.no_grad():
            final = {v: p.detach() for v, p in points().items()}
            return final, self.energy(final)

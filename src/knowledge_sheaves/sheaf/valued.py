"""Sheaves with values elsewhere: groups, torsors and metric spaces instead of vector spaces.

All that energy needs is a distance between two points of an edge's stalk. Where points can be
subtracted (vectors, the torus, rotations) it is the length of the difference, and the energy is
its square; a metric space brings its own distance, and the energy is the distance itself. There is
no closed form here, so extension is gradient descent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import GraphMorphism, Multigraph

Map = Callable[[Tensor], Tensor]
Points = Mapping[int, Tensor] | Sequence[Tensor]
"""A 0-cochain: a point of its space for every vertex."""


class Space(Protocol):
    """A stalk: points are tensors (..., shape of a point) at some distance from each other."""

    @property
    def power(self) -> float:
        """The exponent of the distance in the energy, unless another is asked for."""
        ...

    def point(self, coordinates: Tensor) -> Tensor:
        """The point with these free coordinates; descent moves the coordinates."""
        ...

    def random(self, generator: torch.Generator) -> Tensor:
        """Coordinates of a random point, to start a descent from."""
        ...

    def distance(self, a: Tensor, b: Tensor) -> Tensor:
        """How far points are apart, (...) in shape."""
        ...


@runtime_checkable
class Differences(Protocol):
    """What a space offers besides if its points can be subtracted: it has a coboundary."""

    def difference(self, a: Tensor, b: Tensor) -> Tensor:
        """What leads from a to b."""
        ...


@dataclass(frozen=True)
class Euclidean:
    """ℝ^dim, as a vector space or (with affine maps) as a torsor over itself."""

    dim: int
    power: float = 2

    def point(self, coordinates: Tensor) -> Tensor:
        return coordinates

    def random(self, generator: torch.Generator) -> Tensor:
        return torch.randn(self.dim, generator=generator, dtype=torch.float64)

    def difference(self, a: Tensor, b: Tensor) -> Tensor:
        return b - a

    def distance(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.linalg.vector_norm(b - a, dim=-1)


@dataclass(frozen=True)
class Torus:
    """(ℝ/ℤ)^dim: coordinates count modulo 1, differences lie between −½ and ½."""

    dim: int
    power: float = 2

    def point(self, coordinates: Tensor) -> Tensor:
        return coordinates - coordinates.floor()

    def random(self, generator: torch.Generator) -> Tensor:
        return torch.rand(self.dim, generator=generator, dtype=torch.float64)

    def difference(self, a: Tensor, b: Tensor) -> Tensor:
        return torus_difference(b, a)

    def distance(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.linalg.vector_norm(torus_difference(b, a), dim=-1)


def torus_difference(a: Tensor, b: Tensor) -> Tensor:
    """a − b modulo 1, the representative nearest to 0.

    >>> torus_difference(torch.tensor([0.9]), torch.tensor([0.1])).round(decimals=4)
    tensor([-0.2000])
    """
    difference = a - b
    return difference - difference.round()


@dataclass(frozen=True)
class Rotations:
    """SO(n): points are rotation matrices, aᵀb leads from a to b."""

    n: int
    power: float = 2

    def point(self, coordinates: Tensor) -> Tensor:
        upper = coordinates.new_zeros(*coordinates.shape[:-1], self.n, self.n)
        i, j = torch.triu_indices(self.n, self.n, 1)
        upper[..., i, j] = coordinates
        return torch.linalg.matrix_exp(upper - upper.mT)

    def random(self, generator: torch.Generator) -> Tensor:
        size = self.n * (self.n - 1) // 2
        return 2 * torch.randn(size, generator=generator, dtype=torch.float64)

    def difference(self, a: Tensor, b: Tensor) -> Tensor:
        return a.mT @ b

    def distance(self, a: Tensor, b: Tensor) -> Tensor:
        identity = torch.eye(self.n, dtype=a.dtype)
        return torch.linalg.matrix_norm(self.difference(a, b) - identity)


@dataclass(frozen=True)
class MetricSpace:
    """Any space given by its distance and a differentiable chart from ℝ^dim onto it."""

    dim: int
    distance: Callable[[Tensor, Tensor], Tensor]
    chart: Map | None = None
    power: float = 1

    def point(self, coordinates: Tensor) -> Tensor:
        return self.chart(coordinates) if self.chart else coordinates

    def random(self, generator: torch.Generator) -> Tensor:
        return torch.randn(self.dim, generator=generator, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class ValuedSheaf:
    """A sheaf on a graph with stalks in any `Space` and differentiable restriction maps.

    V(x) = Σ_e d(F_head x_head, F_tail x_tail)^p, with the exponent p of the edge's space (2 where
    points can be subtracted, 1 for a `MetricSpace`) or one that is asked for. A translation is part
    of a map: ``x ↦ F x + z``. A map may be a `torch.nn.Module`: gradients reach its parameters, and
    a pullback uses the same module on every edge over a relation.

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

    def images(self, points: Points) -> list[tuple[Tensor, Tensor]]:
        """F_head x_head and F_tail x_tail of every edge."""
        return [
            (head(points[int(h)]), tail(points[int(t)]))
            for head, tail, h, t in zip(
                self.head_maps, self.tail_maps, self.graph.heads, self.graph.tails, strict=True
            )
        ]

    def distances(self, points: Points) -> Tensor:
        """How far the two ends of every edge are apart: (..., edges)."""
        pairs = zip(self.edge_spaces, self.images(points), strict=True)
        found = [space.distance(a, b) for space, (a, b) in pairs]
        return torch.stack(found, -1) if found else torch.zeros(0)

    def edge_energies(self, points: Points, power: float | None = None) -> Tensor:
        """The distance of every edge to its space's power, or to the one given."""
        distances = self.distances(points)
        powers = [space.power if power is None else power for space in self.edge_spaces]
        return distances ** torch.tensor(powers).to(distances)

    def energy(self, points: Points, power: float | None = None) -> Tensor:
        """V(x), the sum over the edges."""
        return self.edge_energies(points, power).sum(-1)

    def coboundary(self, points: Points) -> list[Tensor]:
        """δx: for every edge what leads from F_head x_head to F_tail x_tail.

        On vector spaces that is F_tail x_tail − F_head x_head. A metric space has distances only.
        """
        differences = []
        for edge, (space, (a, b)) in enumerate(
            zip(self.edge_spaces, self.images(points), strict=True)
        ):
            if not isinstance(space, Differences):
                raise InputError(
                    f"Edge {edge} has a {type(space).__name__} for its stalk, whose points cannot "
                    f"be subtracted: ask for `distances` instead of the coboundary."
                )
            differences.append(space.difference(a, b))
        return differences

    def is_section(self, points: Points, tol: float = 1e-6) -> bool:
        """Whether the two ends of no edge are further apart than ``tol``."""
        distances = self.distances(points)
        return distances.numel() == 0 or bool(distances.max() <= tol)

    def pullback(self, morphism: GraphMorphism) -> ValuedSheaf:
        """k*F: every vertex and edge takes the space and the maps of its image."""
        if morphism.target is not self.graph and morphism.target != self.graph:
            raise InputError("A sheaf pulls back along morphisms into its own graph only.")
        vertices, edges = morphism.vertex_map.tolist(), morphism.edge_map.tolist()
        return ValuedSheaf(
            morphism.source,
            [self.vertex_spaces[v] for v in vertices],
            [self.edge_spaces[e] for e in edges],
            [self.head_maps[e] for e in edges],
            [self.tail_maps[e] for e in edges],
        )

    def extend(
        self,
        boundary: Mapping[int, Tensor],
        restarts: int = 8,
        iterations: int = 200,
        seed: int = 0,
        power: float | None = None,
    ) -> tuple[dict[int, Tensor], Tensor]:
        """The best values found for all other vertices, and their energy.

        Energies may have several valleys, so the descent starts from ``restarts`` random points and
        the lowest end counts; the seed makes it repeat. ``power`` is that of `energy`.
        """
        generator = torch.Generator().manual_seed(seed)
        best: tuple[dict[int, Tensor], Tensor] | None = None
        for _ in range(max(1, restarts)):
            points, energy = self._descend(boundary, iterations, generator, power)
            if best is None or energy < best[1]:
                best = points, energy
        assert best is not None, "there is at least one start"
        return best

    def _descend(
        self,
        boundary: Mapping[int, Tensor],
        iterations: int,
        generator: torch.Generator,
        power: float | None,
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
                energy = self.energy(points(), power)
                if energy.requires_grad:
                    energy.backward()
                return float(energy.detach())

            optimiser.step(closure)
        with torch.no_grad():
            final = {v: p.detach() for v, p in points().items()}
            return final, self.energy(final, power)

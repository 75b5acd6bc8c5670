"""Harmonic extension on the torus: unknowns that are defined modulo 1.

Coordinates do not mix, and once it is settled how often each edge winds around, the energy is a
quadratic with the Laplacian L of the unknowns. So every stationary point differs from any other by
L⁻¹ times whole numbers, modulo 1: det L of them (for a path, its number of edges). Gradient descent
would end in one of these valleys; looking at all finds the lowest. Where there are too many,
descent from some of them has to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.graph import Multigraph
from knowledge_sheaves.query.batches import slices
from knowledge_sheaves.query.budget import Budget
from knowledge_sheaves.query.pattern import Variable
from knowledge_sheaves.query.solvers.harmonic.extension import Extension, Least, Placement
from knowledge_sheaves.query.solvers.harmonic.graph import QueryGraph
from knowledge_sheaves.sheaf.valued import torus_difference

MOST_VALLEYS = 128
STEPS = 8
"""Of descent, each in the direction L⁻¹ ∇V, where there are more valleys than that."""


@dataclass(frozen=True, eq=False)
class TorusGraph:
    """A query graph on the torus: some vertices known, all others unknown, a translation an edge.

    >>> path = TorusGraph(Multigraph.from_edges(3, [(0, 1), (1, 2)]), [torch.zeros(1)] * 2, (0, 2))
    >>> points, energy = path.extend({0: torch.tensor([0.9]), 2: torch.tensor([0.1])})
    >>> points[1].remainder(1).abs() < 1e-6, energy.round(decimals=4)
    (tensor([True]), tensor(0.0200))
    """

    graph: Multigraph
    translations: list[Tensor]
    known: tuple[int, ...]

    @cached_property
    def unknown(self) -> list[int]:
        return [v for v in range(self.graph.num_vertices) if v not in self.known]

    @cached_property
    def ends(self) -> list[tuple[int, int]]:
        return list(zip(self.graph.heads.tolist(), self.graph.tails.tolist(), strict=True))

    @cached_property
    def laplacian(self) -> np.ndarray:
        """L of the unknowns: whole numbers, the same for all coordinates."""
        place = {vertex: i for i, vertex in enumerate(self.unknown)}
        delta = np.zeros((len(self.ends), len(place)))
        for row, (head, tail) in enumerate(self.ends):
            for vertex, sign in ((head, -1), (tail, 1)):
                if vertex in place:
                    delta[row, place[vertex]] += sign
        return delta.T @ delta

    @cached_property
    def valleys(self) -> tuple[np.ndarray, bool]:
        """Shifts (n, unknowns) from one stationary point to others, and whether to all."""
        count = round(np.linalg.det(self.laplacian))
        steps = np.rint(count * np.linalg.inv(self.laplacian)).astype(np.int64).T
        found = {(0,) * len(self.unknown): None}
        waiting = list(found)
        while waiting and len(found) < min(count, MOST_VALLEYS):
            here = waiting.pop(0)
            for step in steps:
                there = tuple(((np.array(here) + step) % count).tolist())
                if there not in found:
                    found[there] = None
                    waiting.append(there)
        shifts = list(found)[:MOST_VALLEYS]
        return np.array(shifts, float).reshape(len(shifts), -1) / count, len(shifts) == count

    def residuals(self, points: Mapping[int, Tensor]) -> list[Tensor]:
        """x_h + z − x_t of every edge, the representative nearest to 0."""
        return [
            torus_difference(points[head] + z, points[tail])
            for z, (head, tail) in zip(self.translations, self.ends, strict=True)
        ]

    def extend(self, known: Mapping[int, Tensor]) -> tuple[dict[int, Tensor], Tensor]:
        """Where the unknowns are best, and the least energy; the last dimension is coordinates."""
        best: dict[int, Tensor] = {}
        least = torch.zeros(())
        for place, points in enumerate(self._stationary(known)):
            costs = sum((r.square() for r in self.residuals(points)), torch.zeros(()))
            if place:
                lower = costs < least
                best = {v: torch.where(lower, points[v], best[v]) for v in best}
                least = torch.where(lower, costs, least)
            else:
                best, least = {v: points[v] for v in self.unknown}, costs
        return best, least.sum(-1)

    def _stationary(self, known: Mapping[int, Tensor]) -> Iterator[dict[int, Tensor]]:
        if not self.unknown:
            yield dict(known)
            return
        inverse = np.linalg.inv(self.laplacian)
        right: list[Tensor | float] = [0.0] * len(self.unknown)
        for z, (head, tail) in zip(self.translations, self.ends, strict=True):
            for vertex, other, sign in ((tail, head, 1), (head, tail, -1)):
                if vertex in known or head == tail:
                    continue
                place = self.unknown.index(vertex)
                right[place] = right[place] + sign * z + known.get(other, 0.0)
        first = _product(inverse, right)
        shifts, complete = self.valleys
        for shift in shifts.tolist():
            moved = zip(self.unknown, first, shift, strict=True)
            points = {**known, **{v: x + by for v, x, by in moved}}
            for _ in range(0 if complete else STEPS):
                points |= self._step(points, inverse)
            yield points

    def _step(self, points: Mapping[int, Tensor], inverse: np.ndarray) -> dict[int, Tensor]:
        """Downhill to the bottom of the quadratic that the energy is around these points."""
        slope: list[Tensor | float] = [0.0] * len(self.unknown)
        for residual, (head, tail) in zip(self.residuals(points), self.ends, strict=True):
            for vertex, sign in ((tail, 1), (head, -1)):
                if vertex in self.unknown:
                    place = self.unknown.index(vertex)
                    slope[place] = slope[place] + sign * residual
        steps = zip(self.unknown, _product(inverse, slope), strict=True)
        return {v: points[v] + step for v, step in steps}


def _product(matrix: np.ndarray, vectors: list[Tensor | float]) -> list[Tensor]:
    pairs = [list(zip(row.tolist(), vectors, strict=True)) for row in matrix]
    return [torch.as_tensor(sum(a * x for a, x in row)) for row in pairs]


def least_energies(
    graph: TorusGraph, known: Mapping[int, Tensor], target: int, table: Tensor, budget: Budget
) -> Tensor:
    """The least energy of every candidate in the table as the target: (queries, candidates).

    ``known`` are vectors (queries, d) of the other known vertices.
    """
    queries = max([len(x) for x in (*known.values(), *graph.translations)])
    out = table.new_empty(queries, len(table))
    vectors = 4 + 2 * graph.graph.num_vertices + len(graph.ends)
    pairs = budget.fit(vectors * table[0].numel() * table.element_size())
    for some in slices(queries, pairs // len(table)):
        here = TorusGraph(
            graph.graph, [z[some].unsqueeze(1) for z in graph.translations], graph.known
        )
        given = {vertex: x[some].unsqueeze(1) for vertex, x in known.items()}
        for few in slices(len(table), pairs):
            budget.check_time()
            out[some, few] = here.extend(given | {target: table[few].unsqueeze(0)})[1]
    return out


class Windings(Extension):
    """Unknowns on the torus: there is neither a quadratic form nor a Gaussian, and no prior."""

    @property
    def jointly(self) -> None:
        return None

    def energies(self, batch: QueryGraph, target: Variable) -> Least:
        vertex, slots = batch.vertex(target), range(batch.entities.shape[1])
        graph = self.graph(batch, (*slots, vertex))
        known = {v: self.vectors(batch, v, batch.entities[:, v]).flatten(1) for v in slots}
        table = self.model.entities.of_type(batch.types[vertex]).flatten(1)
        return Least(least_energies(graph, known, vertex, table, self.budget))

    def place(self, batch: QueryGraph, targets: Mapping[int, int]) -> TorusPlacement:
        ids = dict(enumerate(batch.entities[0].tolist())) | dict(targets)
        device, sections = self.model.device, self.model.config.sections
        known = {
            v: self.vectors(batch, v, torch.tensor([entity], device=device)).flatten(1)
            for v, entity in ids.items()
        }
        points = known | self.graph(batch, tuple(known)).extend(known)[0]
        values = {v: point.unflatten(1, (-1, sections)) for v, point in points.items()}
        return TorusPlacement(self, batch, targets, values, known)

    def graph(self, batch: QueryGraph, known: tuple[int, ...]) -> TorusGraph:
        """The graph of queries with the model's translations (queries, d)."""
        model = self.model
        parts = [model.translation(column) for column in batch.edges.T]
        nothing = model.radius.new_zeros(len(batch), model.config.dim * model.config.sections)
        z = [nothing if part is None else part.flatten(1) for part in parts]
        return TorusGraph(batch.graph, z, known)


@dataclass(frozen=True, eq=False)
class TorusPlacement(Placement):
    """The vectors of all vertices, and those of the known ones (1, d)."""

    by: Windings
    known: Mapping[int, Tensor]

    def costs(self, vertex: int) -> Tensor:
        table = self.by.model.entities.of_type(self.batch.types[vertex]).flatten(1)
        graph = self.by.graph(self.batch, (*self.known, vertex))
        return least_energies(graph, self.known, vertex, table, self.by.budget)[0]

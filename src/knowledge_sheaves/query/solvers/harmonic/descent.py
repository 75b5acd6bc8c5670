"""Harmonic extension by descent, for energies that have no closed form.

Every candidate for the target has its own unknowns, and all of them go downhill at once: steps
along the gradient, each as long as the last two gradients suggest (Barzilai and Borwein), shorter
where the energy did not fall. An energy may have several valleys, so the descent starts from the
mean of the entities and from some of them, and the lowest end counts.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.maps import End
from knowledge_sheaves.query.batches import slices
from knowledge_sheaves.query.budget import Budget
from knowledge_sheaves.query.pattern import Variable
from knowledge_sheaves.query.solvers.harmonic.extension import Extension, Least, Placement
from knowledge_sheaves.query.solvers.harmonic.graph import QueryGraph

STEPS = 100
LEVEL = 1e-6
"""Where no slope is steeper than this, the descent is at its end."""
STARTS = 8
"""The mean of the entities of an unknown's type, and so many less one of them, drawn by a seed."""
BYTES_A_NUMBER = 64
"""What the gradient of an edge takes for every coordinate, about."""

Points = Mapping[int, Tensor]
"""The coordinates (rows, dim) of vertices."""


class Descent(Extension):
    """Unknowns anywhere on their stalk, found by going downhill.

    With twice the digits: where a valley is flat, rounding would decide how far a descent comes.
    """

    def __init__(
        self, model: SheafEmbedding, strength: float = 0.0, budget: Budget | None = None
    ) -> None:
        super().__init__(_doubled(model), strength, budget)
        self.dtype = model.radius.dtype

    @property
    def jointly(self) -> None:
        return None

    def energies(self, batch: QueryGraph, target: Variable) -> Least:
        slots = range(batch.entities.shape[1])
        known = {v: self.vectors(batch, v, batch.entities[:, v]).flatten(1) for v in slots}
        return Least(self.least(batch, known, batch.vertex(target)).to(self.dtype))

    def least(self, batch: QueryGraph, known: Points, vertex: int) -> Tensor:
        """The least energy of every entity at a vertex, (queries, entities of its type)."""
        table = self.model.entities.of_type(batch.types[vertex]).detach().flatten(1)
        out = table.new_empty(len(batch), len(table))
        numbers = batch.graph.num_edges * table.shape[1]
        rows = self.budget.fit(BYTES_A_NUMBER * numbers)
        for query in range(len(batch)):
            here = batch.rows(slice(query, query + 1))
            for few in slices(len(table), rows):
                self.budget.check_time()
                count = len(table[few])
                fixed = {v: x[query].expand(count, -1) for v, x in known.items()}
                out[query, few] = self.descend(here, {**fixed, vertex: table[few]})[1]
        return out

    def place(self, batch: QueryGraph, targets: Mapping[int, int]) -> DescentPlacement:
        ids = dict(enumerate(batch.entities[0].tolist())) | dict(targets)
        known = {
            v: self.vectors(batch, v, torch.tensor([each], device=self.model.device)).flatten(1)
            for v, each in ids.items()
        }
        points = known | self.descend(batch, known)[0]
        values = {v: point.unsqueeze(-1) for v, point in points.items()}
        return DescentPlacement(self, batch, targets, values, known)

    def descend(self, batch: QueryGraph, fixed: Points) -> tuple[dict[int, Tensor], Tensor]:
        """Where the unknowns of one query are best for each row of what is fixed, and at what cost.

        Rows are alternatives; what is found for one does not depend on the others.
        """
        unknown = [v for v in range(len(batch.types)) if v not in fixed]
        if not unknown:
            with torch.no_grad():
                return {}, self.total(batch, fixed)
        rows = len(next(iter(fixed.values())))
        best: Tensor | None = None
        for start in self._starts(batch, unknown):
            x, costs = self._downhill(batch, fixed, unknown, start.expand(rows, -1, -1).clone())
            if best is None:
                best, least = x, costs
            else:
                lower = costs < least
                best = torch.where(lower[:, None, None], x, best)
                least = torch.where(lower, costs, least)
        assert best is not None, "there is at least one start"
        return {v: best[:, place] for place, v in enumerate(unknown)}, least

    def total(self, batch: QueryGraph, points: Points) -> Tensor:
        """The energy of all edges of one query, for every row of the points."""
        energy, parts = self.model.config.energy, []
        for place in range(batch.graph.num_edges):
            edge = batch.edges[0, place]
            ends = (int(batch.graph.heads[place]), int(batch.graph.tails[place]))
            left = image(self.model, "head", edge, points[ends[0]])
            right = image(self.model, "tail", edge, points[ends[1]])
            parts.append(energy.square(self.model, left, right))
        return torch.stack(parts).sum(0)

    def _starts(self, batch: QueryGraph, unknown: list[int]) -> list[Tensor]:
        generator = torch.Generator().manual_seed(0)
        tables = [self.model.entities.of_type(batch.types[v]).detach().flatten(1) for v in unknown]
        starts = [torch.stack([table.mean(0) for table in tables])]
        for _ in range(STARTS - 1):
            drawn = [int(torch.randint(len(table), (), generator=generator)) for table in tables]
            pairs = zip(tables, drawn, strict=True)
            starts.append(torch.stack([table[place] for table, place in pairs]))
        return starts

    def _downhill(
        self, batch: QueryGraph, fixed: Points, unknown: list[int], x: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The end of the descent from points x (rows, unknowns, dim), and its energies (rows)."""

        def slope(here: Tensor) -> tuple[Tensor, Tensor]:
            with torch.enable_grad():
                moving = here.detach().requires_grad_()
                free = {v: moving[:, place] for place, v in enumerate(unknown)}
                energies = self.total(batch, {**fixed, **free})
                (gradient,) = torch.autograd.grad(energies.sum(), moving)
            return energies.detach(), gradient

        costs, gradient = slope(x)
        length = 0.1 / (_dot(gradient, gradient).sqrt() + 1e-6)
        for _ in range(STEPS):
            self.budget.check_time()
            there = x - length * gradient
            new, steeper = slope(there)
            lower = (new <= costs)[:, None, None]
            moved, turned = there - x, steeper - gradient
            curve = _dot(moved, turned)
            suggested = _dot(moved, moved) / curve.abs().clamp(min=1e-20)
            length = torch.where(lower, suggested.clamp(1e-8, 1e4), length / 4)
            x, gradient = torch.where(lower, there, x), torch.where(lower, steeper, gradient)
            costs = torch.where(lower[:, 0, 0], new, costs)
            if float(_dot(gradient, gradient).max()) < LEVEL**2:
                break
        return x, costs


def _doubled(model: SheafEmbedding) -> SheafEmbedding:
    if model.radius.dtype is torch.float64:
        return model

    def doubled() -> SheafEmbedding:
        shared = {id(part): part for part in (model.graph, model.info)}
        return copy.deepcopy(model, {**shared, id(model._kept): {}}).double()

    return model.keep("doubled", doubled)


def image(model: SheafEmbedding, end: End, edge: Tensor, points: Tensor) -> Tensor:
    """F(x) of rows of coordinates (rows, dim) under one edge."""
    blocks = points.unflatten(1, (model.n_blocks, -1)).unsqueeze(-1)
    return model.config.energy.image(model, end, edge.expand(len(points)), blocks)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum((1, 2), keepdim=True)


@dataclass(frozen=True, eq=False)
class DescentPlacement(Placement):
    """The vectors of all vertices, and those of the known ones (1, dim)."""

    by: Descent
    known: Points

    def costs(self, vertex: int) -> Tensor:
        return self.by.least(self.batch, self.known, vertex)[0]

    def _image(self, end: End, edge: Tensor, vertex: int) -> Tensor:
        return image(self.by.model, end, edge[0], self.values[vertex].flatten(1))

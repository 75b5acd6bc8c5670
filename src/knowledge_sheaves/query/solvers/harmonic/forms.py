"""Harmonic extension of queries: the unknowns may be anywhere, and are where the energy is least.

All queries of one shape become one batched quadratic form over the vertices of their graph. Known
entities are fixed, unknowns eliminated (a Schur complement), and what is left is evaluated at all
entities in one matrix product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.maps import End
from knowledge_sheaves.embedding.noise import model_noise
from knowledge_sheaves.query.pattern import Variable
from knowledge_sheaves.query.solvers.harmonic.extension import (
    Extension,
    Least,
    LeastForm,
    Placement,
)
from knowledge_sheaves.query.solvers.harmonic.graph import QueryGraph
from knowledge_sheaves.query.solvers.harmonic.priors import type_prior
from knowledge_sheaves.sheaf import BlockMap, CellularSheaf, Prior, QuadraticForm, energy_form


class Reduced(NamedTuple):
    """A form over the targets, with the priors on the unknowns that it was found with."""

    form: QuadraticForm
    strength: float
    priors: dict[int, Prior]


class Springs(Extension):
    """Energies that are squares of residuals: every edge is a spring.

    ``strength`` is the weight λ of the Gaussian prior on the unknowns.
    """

    bounded: ClassVar[bool] = True
    """Whether other targets that may be anywhere give a lower bound of a target's energy."""

    @property
    def jointly(self) -> Springs:
        return self

    def form(self, batch: QueryGraph) -> QuadraticForm:
        """The energy of all vertices of a batch of queries: the sheaf's."""
        model = self.model
        places = range(batch.graph.num_edges)
        roots = [self._root(batch, place) for place in places]
        maps = [
            [_weighed(root, each) for each in edge_maps(model, batch, place)]
            for root, place in zip(roots, places, strict=True)
        ]
        dims = [model.n_blocks * model.widths[kind] for kind in batch.types]
        sheaf = CellularSheaf.from_maps(
            batch.graph, dims, [f for f, _ in maps], [g for _, g in maps]
        )
        z = None
        if model.translations is not None:
            parts = [model.translation(edges) for edges in batch.edges.T]
            z = torch.cat(
                [
                    _times(root, part).flatten(1, 2)
                    for root, part in zip(roots, parts, strict=True)
                    if part is not None
                ],
                1,
            )
        return energy_form(sheaf, z, sections=model.config.sections)

    def _root(self, batch: QueryGraph, place: int) -> Tensor | None:
        """What both maps of an edge are multiplied with, for its energy to count by its weight."""
        weight = self.weight(batch, place)
        return None if weight is None else weight.sqrt()

    def full(self, batch: QueryGraph, priors: Mapping[int, Prior]) -> QuadraticForm:
        """The form with priors added and known entities fixed."""
        form = self.form(batch)
        if priors:
            form = form.add_priors(priors)
        # Where nothing is known the form is the same for all queries, and still one for each.
        form = replace(form, constant=form.constant.expand(len(batch)))
        slots = range(batch.entities.shape[1])
        return form.fix({v: self.vectors(batch, v, batch.entities[:, v]) for v in slots})

    def reduce(
        self, batch: QueryGraph, targets: Sequence[int], priors: Mapping[int, Prior] | None = None
    ) -> QuadraticForm:
        """The least energy as a form over the targets (vertices) alone."""
        form = self.full(batch, priors or {})
        return form.eliminate([v for v in form.vertices if v not in targets])

    def least(self, batch: QueryGraph, targets: Sequence[int]) -> Reduced:
        """The least energy over the targets, with the prior on the unknowns."""
        priors = self.priors(batch, targets, self.strength)
        return Reduced(self.reduce(batch, targets, priors), self.strength, priors)

    def priors(
        self, batch: QueryGraph, targets: Sequence[int], strength: float
    ) -> dict[int, Prior]:
        unknown = [batch.vertex(v) for v in batch.variables if batch.vertex(v) not in targets]
        return {v: type_prior(self.model, batch.types[v], strength) for v in unknown if strength}

    def relax(
        self, batch: QueryGraph, form: QuadraticForm, others: Sequence[int], strength: float
    ) -> QuadraticForm:
        """What is left of a form over targets when some of them may be anywhere."""
        return form.eliminate(others)

    def energies(self, batch: QueryGraph, target: Variable) -> Least:
        form, indifferent = self.form_at(batch, target)
        kind = batch.types[batch.vertex(target)]
        return Least(form.evaluate(self.model.pool(kind, "tail").candidates), indifferent)

    def form_at(self, batch: QueryGraph, target: Variable) -> LeastForm:
        form = self.least(batch, [batch.vertex(target)]).form
        return LeastForm(form, self.indifferent(batch, form))

    def indifferent(self, batch: QueryGraph, form: QuadraticForm) -> Tensor | None:
        """Which queries any targets satisfy, from what is left of their form over the targets."""
        if len(form.vertices) == len(batch.variables):  # no unknown that could
            return None
        return form.indifferent().expand(len(batch))

    def place(self, batch: QueryGraph, targets: Mapping[int, int]) -> FormPlacement:
        if len(targets) > 1 and self.jointly is not self:
            return self.jointly.place(batch, targets)
        reduced = self.least(batch, list(targets))
        known = {**dict(enumerate(batch.entities[0].tolist())), **targets}
        ids = torch.tensor([[entity] for entity in known.values()], device=self.model.device)
        values = {v: self.vectors(batch, v, mine) for v, mine in zip(known, ids, strict=True)}
        form = self.full(batch, reduced.priors).fix({v: values[v] for v in targets})
        values |= form.minimiser() if form.vertices else {}
        return FormPlacement(self, batch, targets, values, reduced, form)

    def variance(self, strength: float) -> float:
        """What a form's inverse is to be multiplied with to be a covariance: σ²."""
        return model_noise(self.model)

    def beyond(self, placed: FormPlacement) -> dict[str, float]:
        """Energies that no single edge has, by name."""
        return {}


def _times(weight: Tensor | None, each: Tensor) -> Tensor:
    """Tensors (queries, …), each times its weight (queries)."""
    return each if weight is None else weight.reshape(-1, *[1] * (each.dim() - 1)) * each


def _weighed(root: Tensor | None, each: BlockMap) -> BlockMap:
    return each if root is None else BlockMap(_times(root, each.blocks))


def edge_maps(model: SheafEmbedding, batch: QueryGraph, place: int) -> tuple[BlockMap, BlockMap]:
    """The maps of an edge of all queries, as wide as the types at its ends."""

    def at(end: End, vertex: int) -> BlockMap:
        width, maps = model.widths[batch.types[vertex]], model.maps
        blocks = maps.blocks(end, batch.edges[:, place])[..., :width]
        return BlockMap(
            blocks, maps.is_identity[end] and maps.through is None and maps.rows == width
        )

    return at("head", int(batch.graph.heads[place])), at("tail", int(batch.graph.tails[place]))


@dataclass(frozen=True, eq=False)
class FormPlacement(Placement):
    """The vectors of all vertices, and the form that the unknowns minimise."""

    by: Springs
    reduced: Reduced
    form: QuadraticForm

    def pull(self, vertex: int) -> float:
        if vertex not in self.reduced.priors:
            return 0.0
        prior = self.reduced.priors[vertex]
        away = self.values[vertex] - prior.mean
        return float((away * (prior.precision @ away)).sum())

    def beyond(self) -> dict[str, float]:
        return self.by.beyond(self)

    def costs(self, vertex: int) -> Tensor:
        """A real entity needs no prior that keeps it near the entities."""
        others = [v for v in self.unknown if v != vertex]
        priors = {v: prior for v, prior in self.reduced.priors.items() if v != vertex}
        free = self.by.full(self.batch, priors)
        own = free.fix({v: self.values[v] for v in self.targets}).eliminate(others)
        kind = self.batch.types[vertex]
        return own.evaluate(self.by.model.pool(kind, "tail").candidates).reshape(-1)

    def spreads(self) -> dict[int, float]:
        if not self.form.vertices:
            return {}
        variance = self.by.variance(self.reduced.strength)
        diagonal = self.form.covariance(variance).blocks.diagonal(dim1=-2, dim2=-1)
        widths = [self.form.widths[vertex] for vertex in self.form.vertices]
        parts = torch.split(diagonal, widths, dim=-1)
        return {
            vertex: float(part.mean().clamp(min=0).sqrt())
            for vertex, part in zip(self.form.vertices, parts, strict=True)
        }

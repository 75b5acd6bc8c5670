"""Extensions of lifted models, whose entities stand on a sphere one coordinate higher.

*Free* leaves the lifted coordinate of unknowns open: harmonic extension by the letter. *Composite*
is free, and then lifts what is left, one relation from the known entities to the target, as each of
its parts was lifted: energy that a target has whatever the known entities are, ⟨x, S x⟩, goes into
a lifted coordinate of its own and ranks nothing. *Sphere* keeps the unknowns on the sphere in the
mean, by their prior.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.query.budget import Budget
from knowledge_sheaves.query.pattern import Variable
from knowledge_sheaves.query.solvers.harmonic.extension import Extension, Least
from knowledge_sheaves.query.solvers.harmonic.forms import (
    FormPlacement,
    Reduced,
    Springs,
    edge_maps,
)
from knowledge_sheaves.query.solvers.harmonic.graph import QueryGraph
from knowledge_sheaves.query.solvers.harmonic.priors import type_prior
from knowledge_sheaves.sheaf import Prior, QuadraticForm
from knowledge_sheaves.sheaf.linalg import diagonal_scale
from knowledge_sheaves.sheaf.quadratic import accumulate

LIFT = "lift of the whole"
# Bilinear terms between targets have no minimum of their own. So much firmer than that of the
# unknowns is the prior on targets that may be anywhere.
FIRMER = 4


class Lifted(Springs):
    """What the three have in common; `of` chooses one."""

    gives_way = False  # on the sphere edges are no springs

    @classmethod
    def of(
        cls, model: SheafEmbedding, lift: str, strength: float, budget: Budget | None = None
    ) -> Extension:
        return LIFTS[lift](model, strength, budget)

    def indifferent(self, batch: QueryGraph, form: QuadraticForm) -> None:
        """No query is: what is linear in a target ranks it."""
        return None

    @property
    def jointly(self) -> Springs:
        """Bilinear terms between targets have no minimum of their own."""
        found = Sphere(self.model, self.strength or 1.0, self.budget)
        found.weights = self.weights
        return found


class Free(Lifted):
    """M² − ‖x‖² wherever an entity or a target is a tail: its distance from the equator.

    An unknown's lifted coordinate is free, and best at 0.
    """

    def edge(self, left: Tensor, right: Tensor, free: bool) -> Tensor:
        if free:
            return (left - right).square().sum((-3, -2, -1))
        return super().edge(left, right, free)

    def form(self, batch: QueryGraph) -> QuadraticForm:
        return self._lift(batch, super().form(batch), range(batch.entities.shape[1]))

    def reduce(
        self, batch: QueryGraph, targets: Sequence[int], priors: Mapping[int, Prior] | None = None
    ) -> QuadraticForm:
        """Targets are told from unknowns here, and lifted."""
        return self._lift(batch, super().reduce(batch, targets, priors), targets)

    def _lift(
        self, batch: QueryGraph, form: QuadraticForm, vertices: Sequence[int]
    ) -> QuadraticForm:
        square, constant = dict(form.square), form.constant
        for vertex in vertices:
            places = (batch.graph.tails == vertex).nonzero()[0].tolist()
            if places:
                own, count = square.get((vertex, vertex)), self._count(batch, places)
                if own is not None:
                    identity = torch.eye(own.shape[-1], dtype=own.dtype, device=own.device)
                    square[vertex, vertex] = own - count.to(own)[:, None, None, None] * identity
                constant = constant + count.to(constant) * self.model.radius.square()
        return replace(form, square=square, constant=constant)

    def _count(self, batch: QueryGraph, places: Sequence[int]) -> Tensor:
        """How much some edges count together, in every query."""
        if self.weights is None:
            return self.model.radius.new_full((1,), len(places))
        return self.weights[batch.edges[:, places]].sum(1)


class Composite(Free):
    """Free, and the composite relation from the known entities to the target lifted as a whole."""

    def reduce(
        self, batch: QueryGraph, targets: Sequence[int], priors: Mapping[int, Prior] | None = None
    ) -> QuadraticForm:
        if len(targets) > 1:  # no relation to lift: `jointly` ranks these
            return super().reduce(batch, targets, priors)
        form = replace(Springs.reduce(self, batch, targets, priors), square={})
        return self._lift(batch, form, targets)

    def beyond(self, placed: FormPlacement) -> dict[str, float]:
        """What lifting the composite relation as a whole adds."""
        batch, targets, priors = placed.batch, list(placed.targets), placed.reduced.priors
        free = Free.reduce(self, batch, targets, priors)
        points = {vertex: placed.values[vertex] for vertex in targets}
        return {LIFT: float(self.reduce(batch, targets, priors)(points) - free(points))}


class Sphere(Lifted):
    """−2⟨F x_h, x_t⟩ for every edge: what a lifted energy is on the sphere, constants aside.

    The prior is what keeps a minimum, and is raised until there is one.
    """

    bounded = False

    @property
    def jointly(self) -> Springs:
        return self if self.strength else super().jointly

    def edge(self, left: Tensor, right: Tensor, free: bool) -> Tensor:
        return -2 * self.model.config.energy.similarity(self.model, left, right)

    def form(self, batch: QueryGraph) -> QuadraticForm:
        model, square = self.model, dict[tuple[int, int], Tensor]()
        widths = {v: model.widths[kind] for v, kind in enumerate(batch.types)}
        for place in range(batch.graph.num_edges):
            head, tail = int(batch.graph.heads[place]), int(batch.graph.tails[place])
            weight = self.weight(batch, place)
            f = edge_maps(model, batch, place)[0].blocks[..., : widths[tail], :]
            f = f if weight is None else weight[:, None, None, None] * f
            if head == tail:
                accumulate(square, (head, head), -(f + f.mT))
            elif head < tail:
                accumulate(square, (head, tail), -f.mT)
            else:
                accumulate(square, (tail, head), -f)
        scale = {v: model.radius.new_ones(model.n_blocks) for v in widths}
        constant = model.radius.new_zeros(len(batch))
        sizes = (model.n_blocks, model.config.sections)
        return QuadraticForm(widths, square, {}, constant, *sizes, scale)

    def reduce(
        self, batch: QueryGraph, targets: Sequence[int], priors: Mapping[int, Prior] | None = None
    ) -> QuadraticForm:
        """Only the prior keeps bilinear terms from running away: `NotDefinite` if it does not."""
        form = self.full(batch, priors or {})
        for vertex in (v for v in form.vertices if v not in targets):
            own = form.block(vertex, vertex)
            if own is None or torch.linalg.eigvalsh(own).amin() <= 0:
                raise NotDefinite
            form = replace(form, scale={**form.scale, vertex: diagonal_scale(own)})
            form = form.eliminate([vertex])
        return form

    def least(self, batch: QueryGraph, targets: Sequence[int]) -> Reduced:
        """Queries of a batch share what the prior is raised to: `NotDefinite` is for one alone."""
        strength = self.strength or 1.0
        while True:
            priors = self.priors(batch, targets, strength)
            try:
                return Reduced(self.reduce(batch, targets, priors), strength, priors)
            except NotDefinite:
                if len(batch) > 1:
                    raise
                strength *= 2

    def relax(
        self, batch: QueryGraph, form: QuadraticForm, others: Sequence[int], strength: float
    ) -> QuadraticForm:
        held = {v: type_prior(self.model, batch.types[v], FIRMER * strength) for v in others}
        return form.add_priors(held).eliminate(others)

    def energies(self, batch: QueryGraph, target: Variable) -> Least:
        """Queries whose prior is too weak for a minimum are told from the others by halves."""
        try:
            return super().energies(batch, target)
        except NotDefinite:
            half = len(batch) // 2
            parts = (batch.rows(slice(half)), batch.rows(slice(half, None)))
            return Least(torch.cat([self.energies(part, target).energies for part in parts]))

    def variance(self, strength: float) -> float:
        """A prior alone gives a type's own covariance back: λ (λΣ⁻¹)⁻¹ = Σ."""
        return strength


class NotDefinite(Exception):
    """The prior does not outweigh the bilinear terms between unknowns."""


LIFTS: dict[str, type[Lifted]] = {"composite": Composite, "free": Free, "sphere": Sphere}
"""By what `harmonic` is told."""

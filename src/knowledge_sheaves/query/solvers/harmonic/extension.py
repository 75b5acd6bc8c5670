"""Reasons of harmonic answers: unknowns are where the energy is least, and entities stand in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.maps import End
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query.budget import Budget
from knowledge_sheaves.query.explanation import Candidate, Explanation, Witness
from knowledge_sheaves.query.pattern import Entity, Pattern, SchemaEdge, Variable
from knowledge_sheaves.query.solvers.harmonic.forms import Lift, full_form, least, reduce
from knowledge_sheaves.query.solvers.harmonic.graph import QueryGraph
from knowledge_sheaves.query.solvers.harmonic.priors import noise
from knowledge_sheaves.query.solvers.harmonic.torus import TorusGraph, least_energies, torus_graph
from knowledge_sheaves.query.types import TypeClash, readings
from knowledge_sheaves.sheaf import Prior, QuadraticForm
from knowledge_sheaves.sheaf.valued import torus_difference

if TYPE_CHECKING:
    from knowledge_sheaves.query.solvers.harmonic.solver import Harmonic

LIFT = "lift of the whole"


def is_possible(pattern: Pattern, given: Mapping[Variable, int], graph: KnowledgeGraph) -> bool:
    """Whether a branch allows an answer at all: its types, and what VALUES and != say."""
    known = pattern.put(lambda v: Entity(given[v]) if v in given else None)
    if any(isinstance(a, Entity) and a != b for a, b in known.bindings):
        return False
    if any(a == b for a, b in known.different):
        return False
    try:
        readings(replace(known, without=(), different=()), graph)
    except TypeClash:  # no reading of its relations has such types
        return False
    return True


def extend(
    solver: Harmonic, pattern: Pattern, given: Mapping[Variable, int], target: Variable
) -> Explanation:
    """Extend the known entities and the given answer over the unknowns of a conjunction."""
    kind = _TorusExtension if solver.model.config.space == "torus" else _Extension
    known = pattern.put(lambda v: Entity(given[v]) if v in given else None)
    found: list[_Extension | _TorusExtension] = [
        kind.of(solver, pattern, parts, given, target)
        for parts in readings(replace(known, different=(), bindings=()), solver.model.graph)
    ]
    best = min(found, key=lambda reading: reading.total())
    entities = {v: given[v] for v in pattern.variables if v in given}
    spreads, witnesses = best.spreads(), []
    for variable in (v for v in pattern.variables if v not in given):
        vertex = best.batch.vertex(variable)
        near = best.nearest(vertex, 1 + solver.runner_ups)
        entities[variable] = next(iter(near))
        first, *others = near.values()
        pull = best.pull(vertex)
        witnesses.append(Witness(variable, first, tuple(others), spreads.get(vertex), pull))
    chances = solver.rows.chances(pattern, entities, target)
    costs = zip(pattern.edges, best.energies(), chances, best.batch.backwards, strict=True)
    reasons = tuple(
        solver.reason(edge, entities, energy, probability=chance, backwards=backwards)
        for edge, energy, chance, backwards in costs
    )
    beyond = {LIFT: best.lift()} if solver.model.config.lifted else {}
    return Explanation(
        target, solver.name, solver.named(entities), reasons, tuple(witnesses), beyond=beyond
    )


@dataclass(frozen=True, eq=False)
class _Extension:
    """The vectors of all vertices of a query, and the form that the unknowns minimise."""

    model: SheafEmbedding
    batch: QueryGraph
    lifting: Lift
    strength: float
    priors: Mapping[int, Prior]
    form: QuadraticForm
    values: Mapping[int, Tensor]
    targets: Mapping[int, int]

    @classmethod
    def of(
        cls,
        solver: Harmonic,
        pattern: Pattern,
        parts: tuple[SchemaEdge, ...],
        given: Mapping[Variable, int],
        target: Variable,
    ) -> _Extension:
        model, lift = solver.model, solver.lift
        batch = QueryGraph.of(model, [pattern], [parts], target)
        targets = {batch.vertex(v): entity for v, entity in given.items() if v in batch.variables}
        if model.config.lifted and len(targets) > 1:  # as `joint` finds them
            lift = "sphere"
        names = [v for v in batch.variables if batch.vertex(v) in targets]
        _, strength, priors = least(model, batch, names, lift, solver.settings.strength)
        slots = dict(enumerate(batch.entities[0].tolist()))
        values = {
            vertex: _vector(model, entity, batch.types[vertex])
            for vertex, entity in {**slots, **targets}.items()
        }
        form = full_form(model, batch, lift, priors)
        form = form.fix({vertex: values[vertex] for vertex in targets})
        values |= form.minimiser() if form.vertices else {}
        return cls(model, batch, lift, strength, priors, form, values, targets)

    @property
    def on_sphere(self) -> bool:
        return self.model.config.lifted and self.lifting == "sphere"

    def energies(self) -> list[float]:
        """The energy of every edge by its definition: all digits count here."""
        return [self._energy(place) for place in range(self.batch.graph.num_edges)]

    def _energy(self, place: int) -> float:
        model, batch = self.model, self.batch
        edge = batch.edges[:, place]
        head, tail = int(batch.graph.heads[place]), int(batch.graph.tails[place])
        left = model.maps.blocks("head", edge)[..., : self._width(head)] @ self._blocks(head)
        x_t = self._blocks(tail)
        if self.on_sphere:
            energy = -2 * (left[..., : self._width(tail), :] * x_t).sum()
        else:
            z = model.translation(edge)
            right = model.maps.blocks("tail", edge)[..., : self._width(tail)] @ x_t
            energy = (left - right if z is None else left + z - right).square().sum()
            if model.config.lifted and tail not in self.form.vertices:
                energy = energy + model.radius.square() - x_t.square().sum()
        return float(energy - self._bias(head, tail))

    def _bias(self, head: int, tail: int) -> float:
        """The biases of targets, once for every edge; those of the known change no order."""
        if self.model.biases is None:
            return 0.0
        ends: tuple[tuple[End, int], ...] = (("head", head), ("tail", tail))
        return sum(
            float(self.model.bias(torch.tensor([self.targets[vertex]]), end))
            for end, vertex in ends
            if vertex in self.targets
        )

    def pull(self, vertex: int) -> float:
        """The energy of the prior at the place of an unknown."""
        if vertex not in self.priors:
            return 0.0
        prior = self.priors[vertex]
        away = self.values[vertex] - prior.mean
        return float((away * (prior.precision @ away)).sum())

    def lift(self) -> float:
        """What lifting the composite relation as a whole adds: see `harmonic.reduce`."""
        if not self.model.config.lifted or self.lifting != "composite":
            return 0.0
        names = [v for v in self.batch.variables if self.batch.vertex(v) in self.targets]
        points = {vertex: self.values[vertex] for vertex in self.targets}
        lifts: tuple[Lift, Lift] = ("free", "composite")
        free, whole = (
            reduce(self.model, self.batch, names, lift, dict(self.priors))(points) for lift in lifts
        )
        return float(whole - free)

    def total(self) -> float:
        pulls = sum(self.pull(vertex) for vertex in self.priors)
        return sum(self.energies()) + pulls + self.lift()

    def nearest(self, vertex: int, count: int) -> dict[int, Candidate]:
        """The entities that cost least in the place of an unknown, other unknowns adapting.

        A real entity needs no prior that keeps it near the entities.
        """
        kind = self.batch.types[vertex]
        others = [v for v in self.form.vertices if v != vertex]
        lift: Lift = "sphere" if self.on_sphere else "free"
        free = full_form(
            self.model, self.batch, lift, {v: self.priors[v] for v in others if v in self.priors}
        )
        own = free.fix({v: self.values[v] for v in self.targets}).eliminate(others)
        values = own.evaluate(self.model.pool(kind, "tail").candidates).reshape(-1)
        best = values.topk(min(count, len(values)), largest=False)
        ids = self.model.entities_of_type(kind)[best.indices].tolist()
        return {
            entity: Candidate(
                self.model.graph.entities[entity],
                energy=energy,
                distance=float((_vector(self.model, entity, kind) - self.values[vertex]).norm()),
            )
            for entity, energy in zip(ids, best.values.tolist(), strict=True)
        }

    def spreads(self) -> dict[int, float]:
        """The posterior deviation of each unknown: the root of its mean variance."""
        if not self.form.vertices:
            return {}
        # A prior alone gives a type's own covariance back: λ (λΣ⁻¹)⁻¹ = Σ.
        variance = self.strength if self.on_sphere else noise(self.model)
        diagonal = self.form.covariance(variance).blocks.diagonal(dim1=-2, dim2=-1)
        widths = [self.form.widths[vertex] for vertex in self.form.vertices]
        parts = torch.split(diagonal, widths, dim=-1)
        return {
            vertex: float(part.mean().clamp(min=0).sqrt())
            for vertex, part in zip(self.form.vertices, parts, strict=True)
        }

    def _width(self, vertex: int) -> int:
        return self.model.widths[self.batch.types[vertex]]

    def _blocks(self, vertex: int) -> Tensor:
        return self.values[vertex].unflatten(-2, (self.model.n_blocks, self._width(vertex)))


@dataclass(frozen=True, eq=False)
class _TorusExtension:
    """The same on the torus, where there is neither a form nor a posterior."""

    model: SheafEmbedding
    batch: QueryGraph
    graph: TorusGraph
    known: Mapping[int, Tensor]
    points: Mapping[int, Tensor]

    @classmethod
    def of(
        cls,
        solver: Harmonic,
        pattern: Pattern,
        parts: tuple[SchemaEdge, ...],
        given: Mapping[Variable, int],
        target: Variable,
    ) -> _TorusExtension:
        model = solver.model
        batch = QueryGraph.of(model, [pattern], [parts], target)
        entities = dict(enumerate(batch.entities[0].tolist()))
        entities |= {batch.vertex(v): e for v, e in given.items() if v in batch.variables}
        ids = {vertex: torch.tensor([entity]) for vertex, entity in entities.items()}
        known = {vertex: model.entities.lookup(mine).flatten(1) for vertex, mine in ids.items()}
        graph = torus_graph(model, batch.graph, batch.edges, tuple(known))
        return cls(model, batch, graph, known, {**known, **graph.extend(known)[0]})

    def energies(self) -> list[float]:
        return [float(part.square().sum()) for part in self.graph.residuals(self.points)]

    def total(self) -> float:
        return sum(self.energies())

    def pull(self, vertex: int) -> float:
        return 0.0

    def lift(self) -> float:
        return 0.0

    def spreads(self) -> dict[int, float]:
        return {}

    def nearest(self, vertex: int, count: int) -> dict[int, Candidate]:
        """The entities that cost least in the place of an unknown, other unknowns adapting."""
        kind = self.batch.types[vertex]
        table = self.model.entities.of_type(kind).flatten(1)
        graph = replace(self.graph, known=(*self.graph.known, vertex))
        values = least_energies(graph, self.known, vertex, table, Budget())[0]
        best = values.topk(min(count, len(values)), largest=False)
        away = torus_difference(table[best.indices], self.points[vertex]).norm(dim=1)
        ids = self.model.entities_of_type(kind)[best.indices].tolist()
        found = zip(ids, best.values.tolist(), away.tolist(), strict=True)
        return {
            entity: Candidate(self.model.graph.entities[entity], energy=energy, distance=distance)
            for entity, energy, distance in found
        }


def _vector(model: SheafEmbedding, entity: int, kind: int) -> Tensor:
    vectors = model.entities.lookup(torch.tensor([entity]))
    return vectors[..., : model.widths[kind], :].flatten(1, 2)

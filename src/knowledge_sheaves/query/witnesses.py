"""Who stands for the unknowns of a query once its answer is given, by either solver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.maps import End
from knowledge_sheaves.embedding.storage import dataset_of
from knowledge_sheaves.query.chaining import Chaining
from knowledge_sheaves.query.chaining_cycles import make_tables
from knowledge_sheaves.query.chaining_plan import Arrow, _distances, _point, make_plan, template
from knowledge_sheaves.query.chaining_search import Search
from knowledge_sheaves.query.chaining_tables import maximise
from knowledge_sheaves.query.harmonic import (
    Lift,
    NotDefinite,
    QueryBatch,
    full_form,
    reduce,
    type_prior,
)
from knowledge_sheaves.query.pattern import Edge, Pattern, Term
from knowledge_sheaves.query.solve import Options, _tau
from knowledge_sheaves.query.sparql_patterns import substitute
from knowledge_sheaves.query.typing import typed_parts
from knowledge_sheaves.sheaf import Prior, QuadraticForm

MOST_TRIPLES = 2_000
"""How many facts the noise of a model is estimated from."""


@dataclass(frozen=True)
class Candidate:
    """An entity that an unknown may be.

    `chaining` has a ``probability``: of the answer, if the unknown is this entity. `harmonic` has
    an ``energy``, again of the answer, and a ``distance`` from where the unknown is best.
    """

    name: str
    probability: float | None = None
    energy: float | None = None
    distance: float | None = None


@dataclass(frozen=True)
class Witness:
    """The entity that stands for an unknown, and the next best.

    ``spread`` is the posterior deviation of a harmonic unknown in each of its dimensions, ``pull``
    the energy of the prior on it.
    """

    variable: str
    best: Candidate
    others: tuple[Candidate, ...]
    spread: float | None = None
    pull: float = 0.0

    def to_dict(self) -> dict[str, object]:
        """Everything by name, for programs."""
        shown = [
            {name: value for name, value in asdict(candidate).items() if value is not None}
            for candidate in (self.best, *self.others)
        ]
        return {"variable": self.variable, "candidates": shown, "spread": self.spread}


@dataclass(frozen=True)
class Found:
    """An entity for every variable of a pattern, and what its edges cost, in their order."""

    entities: dict[str, int]
    witnesses: tuple[Witness, ...]
    energies: list[float]
    probabilities: list[float]


# Harmonic: unknowns are where the energy is least, and entities near to them are their witnesses.


def extended(
    model: SheafEmbedding,
    pattern: Pattern,
    given: Mapping[str, int],
    target: str,
    options: Options,
    runner_ups: int,
) -> Found:
    """Extend the known entities and the given answer over the unknowns of a pattern."""
    readings = [
        _Extension.of(model, pattern, parts, given, target, options)
        for parts in typed_parts(_put(pattern, given), model.graph)
    ]
    best = min(readings, key=_Extension.total)
    unknown = [v for v in pattern.variables if v not in given]
    spreads = best.spreads()
    found, witnesses = dict(given), []
    for variable in unknown:
        vertex = best.batch.vertex(variable)
        near = best.nearest(vertex, 1 + runner_ups)
        first, *others = near.values()
        pull = best.pull(vertex)
        witnesses.append(Witness(variable, first, tuple(others), spreads[vertex], pull))
        found[variable] = next(iter(near))
    entities = {v: found[v] for v in pattern.variables}
    chances = edge_chances(model, pattern, entities, target, options)
    return Found(entities, tuple(witnesses), best.energies(), chances)


def _put(pattern: Pattern, given: Mapping[str, int]) -> Pattern:
    """The edges of a pattern with entities in the place of variables, one for one."""

    def put(term: Term) -> Term:
        return given.get(term, term) if isinstance(term, str) else term

    return Pattern(tuple(Edge(put(e.head), e.relation, put(e.tail)) for e in pattern.edges))


@dataclass(frozen=True, eq=False)
class _Extension:
    """The vectors of all vertices of a query, and the form that the unknowns minimise."""

    model: SheafEmbedding
    batch: QueryBatch
    on_sphere: bool
    strength: float
    priors: Mapping[int, Prior]
    form: QuadraticForm
    values: Mapping[int, Tensor]
    targets: Mapping[int, int]

    @classmethod
    def of(
        cls,
        model: SheafEmbedding,
        pattern: Pattern,
        parts: tuple[int, ...],
        given: Mapping[str, int],
        target: str,
        options: Options,
    ) -> _Extension:
        batch = QueryBatch.of(model, [pattern], [parts], target)
        targets = {batch.vertex(v): entity for v, entity in given.items() if v in batch.variables}
        on_sphere = model.config.lifted and options.lift == "sphere"
        strength, priors = _priors(model, batch, list(targets), options)
        slots = dict(enumerate(batch.entities[0].tolist()))
        values = {
            vertex: _vector(model, entity, batch.types[vertex])
            for vertex, entity in {**slots, **targets}.items()
        }
        form = full_form(model, batch, options.lift, priors)
        form = form.fix({vertex: values[vertex] for vertex in targets})
        values |= form.minimiser() if form.vertices else {}
        return cls(model, batch, on_sphere, strength, priors, form, values, targets)

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

    def total(self) -> float:
        return sum(self.energies()) + sum(self.pull(vertex) for vertex in self.priors)

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


def _vector(model: SheafEmbedding, entity: int, kind: int) -> Tensor:
    vectors = model.entities.lookup(torch.tensor([entity]))
    return vectors[..., : model.widths[kind], :].flatten(1, 2)


def _priors(
    model: SheafEmbedding, batch: QueryBatch, targets: list[int], options: Options
) -> tuple[float, dict[int, Prior]]:
    """The priors with which the answer was found: raised on the sphere until they suffice."""
    unknown = [v for v in map(batch.vertex, batch.variables) if v not in targets]
    strength = options.strength
    if model.config.lifted and options.lift == "sphere" and unknown:
        strength = strength or 1.0
    names = [v for v in batch.variables if batch.vertex(v) in targets]
    while strength:
        priors = {v: type_prior(model, batch.types[v], strength) for v in unknown}
        try:
            reduce(model, batch, names, options.lift, priors)
        except NotDefinite:
            strength *= 2
            continue
        return strength, priors
    return 0.0, {}


def noise(model: SheafEmbedding) -> float:
    """σ²: the mean energy per dimension of facts held out, or of known ones where none are."""
    facts = dataset_of(model).valid or model.graph
    energies = model.energies(facts.triples[:MOST_TRIPLES])
    if not len(energies):
        return 0.0
    return float(energies.mean()) / (model.n_blocks * model.maps.rows * model.config.sections)


# Chaining: every unknown is one of the candidates that were kept for it.


def chosen(
    model: SheafEmbedding,
    pattern: Pattern,
    given: Mapping[str, int],
    target: str,
    options: Options,
    runner_ups: int,
) -> Found:
    """Find the best assignment of the unknowns to their candidates once the answer is given.

    A candidate's probability is that of the best assignment with it, negated parts included.
    """
    known = {variable: entity for variable, entity in given.items() if variable != target}
    asked = substitute(pattern, known) or pattern
    goal = target if target in given else None
    search = _search(model, asked, goal, options)
    slot = {variable: f"?{number}" for number, variable in enumerate(asked.variables)}
    domains = dict(search.candidates)
    if goal is not None:
        domains[slot[goal]] = torch.tensor([[given[goal]]])
    found, witnesses = dict(given), []
    for variable in asked.variables:
        if variable in given:
            continue
        chances = maximise(make_tables(search, domains), (slot[variable],))[0].exp()
        best = chances.topk(min(1 + runner_ups, len(chances)))
        ids = domains[slot[variable]][0, best.indices]
        named = zip(model.graph.entities.names(ids.tolist()), best.values.tolist(), strict=True)
        first, *others = (Candidate(name, probability=chance) for name, chance in named)
        likely = tuple(other for other in others if other.probability)
        witnesses.append(Witness(variable, first, likely))
        found[variable] = int(ids[0])
        domains[slot[variable]] = ids[:1].unsqueeze(0)  # the others go with this choice
    entities = {variable: found[variable] for variable in pattern.variables}
    chances_of_edges = edge_chances(model, pattern, entities, target, options)
    energies = _edge_energies(model, pattern, entities, target)
    return Found(entities, tuple(witnesses), energies, chances_of_edges)


def _search(
    model: SheafEmbedding, pattern: Pattern, target: str | None, options: Options
) -> Search:
    """Repeat the search that led to the answer: it has the candidates."""
    solver = Chaining(
        model, k=options.k, facts=options.facts, kappa=options.kappa, tau=_tau(model, options)
    ).solver()
    entities, relations = (torch.tensor([ids], dtype=torch.long) for ids in pattern.constants)
    goal = None if target is None else f"?{pattern.variables.index(target)}"
    plan = make_plan(template(pattern.shape), goal, entities.shape[1])
    return Search(solver, plan, entities, relations)


def _edge_energies(
    model: SheafEmbedding, pattern: Pattern, entities: Mapping[str, int], target: str
) -> list[float]:
    """V_e between entities, through the reciprocal relation where chaining reads it backwards."""
    schema, kinds = model.graph.schema, model.graph.entity_types
    rows = []
    for edge, arrow in zip(pattern.edges, _arrows(pattern, target), strict=True):
        head, tail = (entities[t] if isinstance(t, str) else t for t in edge.terms)
        name = schema.relation_names[edge.relation]
        part = int(schema.find_edges([name], kinds[[head]], kinds[[tail]])[0])
        if arrow.inverse and model.config.reciprocal:
            rows.append((tail, part + model.num_relations, head))
        else:
            rows.append((head, part, tail))
    return model.scores(torch.tensor(rows)).tolist()


# Both: the probability of an edge between two entities.


def edge_chances(
    model: SheafEmbedding,
    pattern: Pattern,
    entities: Mapping[str, int],
    target: str,
    options: Options,
) -> list[float]:
    """p_e of every edge between the entities that stand at its ends, seen from the target."""
    rows = Chaining(model, facts=options.facts, tau=_tau(model, options)).solver().rows
    chances = []
    for arrow in _arrows(pattern, target):
        source, goal = (
            entities[t] if isinstance(t, str) else t for t in (arrow.source, arrow.goal)
        )
        ids = torch.tensor([source]), torch.tensor([arrow.relation])
        chances.append(float(rows.log_p(*ids, arrow.inverse)[0, goal].exp()))
    return chances


def _arrows(pattern: Pattern, target: str) -> Iterator[Arrow]:
    """The edges as chaining reads them: towards the target."""
    distance = _distances(pattern, target if target in pattern.variables else None)
    return (_point(edge, distance) for edge in pattern.edges)

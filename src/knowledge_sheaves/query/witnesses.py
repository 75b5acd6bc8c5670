"""Who stands for the unknowns of a query once its answer is given, and how chaining chose them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

import torch

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.query.chaining import Chaining
from knowledge_sheaves.query.chaining_cycles import make_tables
from knowledge_sheaves.query.chaining_plan import Arrow, _distances, _point, make_plan, template
from knowledge_sheaves.query.chaining_search import Search
from knowledge_sheaves.query.chaining_tables import maximise
from knowledge_sheaves.query.pattern import Pattern
from knowledge_sheaves.query.solve import Options, _tau
from knowledge_sheaves.query.sparql_patterns import substitute


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

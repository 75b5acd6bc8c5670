"""Who stands for the unknowns of a query once its answer is given, and how chaining chose them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import torch

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query.language.sparql_patterns import substitute
from knowledge_sheaves.query.options import Settled
from knowledge_sheaves.query.pattern import Edge, Pattern, Term
from knowledge_sheaves.query.solve import chaining_solver
from knowledge_sheaves.query.solvers.chaining.explain import Witness as Assigned
from knowledge_sheaves.query.solvers.chaining.explain import explain
from knowledge_sheaves.query.solvers.chaining.plan import _distances, _point, make_plan, template
from knowledge_sheaves.query.solvers.chaining.rows import Rows
from knowledge_sheaves.query.solvers.chaining.search import Search, Solver


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
        return {
            "variable": self.variable,
            "candidates": shown,
            "spread": self.spread,
            "pull": self.pull,
        }


@dataclass(frozen=True)
class Found:
    """An entity for every variable of a pattern, and what its edges cost, in their order.

    ``possible`` is whether they may stand there at all; ``lift`` what lifting the composite
    relation as a whole adds to the energies of its edges.
    """

    entities: dict[str, int]
    witnesses: tuple[Witness, ...]
    energies: list[float]
    probabilities: list[float]
    possible: bool = True
    lift: float = 0.0


def make_solver(model: SheafEmbedding, options: Settled) -> Solver:
    """The search that led to the answers, ready to be repeated."""
    return chaining_solver(model, options, options.limits()).solver()


def chosen(
    solver: Solver,
    pattern: Pattern,
    given: Mapping[str, int],
    target: str,
    runner_ups: int,
    outside: frozenset[str] = frozenset(),
) -> Found:
    """The best assignment of the unknowns to the candidates that chaining kept for them.

    Variables from ``outside`` a negated part count as known entities in it.
    """
    known = {variable: entity for variable, entity in given.items() if variable in outside}
    asked = substitute(pattern, known) or pattern
    entities, witnesses, possible = dict(given), [], True
    if asked.variables:
        goal = target if target in asked.variables else asked.variables[0]
        search = _search(solver, asked, goal)
        fixed = {v: entity for v, entity in given.items() if v in asked.variables}
        if goal not in fixed:
            fixed[goal] = int(search.result()[0].argmax())
        best = explain(search, asked, 0, fixed, runner_ups)
        entities |= best.assignment
        graph = solver.rows.model.graph
        witnesses = [_witness(graph, *each) for each in best.witnesses.items() if each[1]]
        possible = best.log_probability > -math.inf
    found = {variable: entities[variable] for variable in pattern.variables}
    directed = put(pattern, known)
    energies = [solver.rows.energy(*each) for each in _between(directed, found, target)]
    chances = edge_chances(solver.rows, directed, found, target)
    return Found(found, tuple(witnesses), energies, chances, possible)


def put(pattern: Pattern, given: Mapping[str, int]) -> Pattern:
    """The edges of a pattern with entities in the place of variables, one for one."""

    def new(term: Term) -> Term:
        return given.get(term, term) if isinstance(term, str) else term

    return Pattern(tuple(Edge(new(e.head), e.relation, new(e.tail)) for e in pattern.edges))


def _search(solver: Solver, pattern: Pattern, target: str) -> Search:
    entities, relations = (torch.tensor([ids], dtype=torch.long) for ids in pattern.constants)
    goal = f"?{pattern.variables.index(target)}"
    plan = make_plan(template(pattern.shape), goal, entities.shape[1])
    return Search(solver, plan, entities, relations)


def _witness(graph: KnowledgeGraph, variable: str, found: Sequence[Assigned]) -> Witness:
    first, *others = (
        Candidate(graph.entities[each.entity], probability=math.exp(each.log_probability))
        for each in found
    )
    return Witness(variable, first, tuple(others))


def edge_chances(
    rows: Rows, pattern: Pattern, entities: Mapping[str, int], target: str
) -> list[float]:
    """p_e of every edge between the entities that stand at its ends, seen from the target."""
    return [
        float(rows.log_p(torch.tensor([source]), torch.tensor([name]), inverse)[0, goal].exp())
        for source, name, goal, inverse in _between(pattern, entities, target)
    ]


def _between(
    pattern: Pattern, entities: Mapping[str, int], target: str
) -> Iterator[tuple[int, int, int, bool]]:
    """The edges as chaining reads them, towards the target: source, relation, goal, inverse."""
    distance = _distances(pattern, target if target in pattern.variables else None)
    for arrow in (_point(edge, distance) for edge in pattern.edges):
        source, goal = (
            entities[term] if isinstance(term, str) else term for term in (arrow.source, arrow.goal)
        )
        yield source, arrow.relation, goal, arrow.inverse

"""Why `chaining` gives an answer: an entity for every unknown, a weight for every edge.

The numbers are those of the search that found the answer: the product of the weights of the edges,
times what all candidates of each unknown add to the one that is named (``together``), times what
negated parts leave, is the answer's probability.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from knowledge_sheaves.query.explanation import Against, Candidate, Explanation, Reason, Witness
from knowledge_sheaves.query.pattern import Edge, Entity, Pattern, Query, Variable, slot_variable
from knowledge_sheaves.query.solvers.arrows import Arrow
from knowledge_sheaves.query.solvers.chaining.cycles import make_tables
from knowledge_sheaves.query.solvers.chaining.plan import Factor, Negation
from knowledge_sheaves.query.solvers.chaining.search import Search
from knowledge_sheaves.query.solvers.chaining.tables import Table, maximise

if TYPE_CHECKING:
    from knowledge_sheaves.query.solvers.chaining.solver import Chaining


def explain_pattern(
    solver: Chaining,
    search: Search,
    pattern: Pattern,
    target: Variable | None,
    given: Mapping[Variable, int],
    outside: Mapping[Variable, int] | None = None,
) -> Explanation | None:
    """The best assignment of a pattern with some variables given; None where there is none.

    ``search`` is of this pattern alone, with entities for the variables from ``outside`` a negated
    part. Facts that make the answer certain are candidates too, also where the cut lost them.
    """
    outside = outside or {}
    slots = {v: slot_variable(i) for i, v in enumerate(_inside(pattern, outside).variables)}
    found = _assign(search, _inside(pattern, outside), slots, given, solver.runner_ups)
    if found.total == -math.inf:
        return None
    entities = {**outside, **found.entities}
    reasons = tuple(
        _reason(solver, search, edge, place, entities) for place, edge in enumerate(pattern.edges)
    )
    witnesses = _witnesses(solver, search, slots, found, certain=found.total >= 0)
    return Explanation(
        target if target is not None else next(iter(pattern.variables), Variable("?")),
        solver.name,
        solver.named({v: entities[v] for v in pattern.variables}),
        reasons,
        tuple(witnesses),
        tuple(_against(solver, search, _inside(pattern, outside), pattern, entities)),
    )


def _inside(pattern: Pattern, outside: Mapping[Variable, int]) -> Pattern:
    """A negated part as its search sees it: variables of the outside are known entities."""
    return pattern.substitute({v: Entity(entity) for v, entity in outside.items()}.get)


@dataclass(frozen=True, eq=False)
class _Assignment:
    """An entity for every variable, the candidates of the unknowns with their best, and the sum."""

    entities: dict[Variable, int]
    candidates: dict[Variable, dict[int, float]]
    total: float


def _assign(
    search: Search,
    pattern: Pattern,
    slots: Mapping[Variable, Variable],
    given: Mapping[Variable, int],
    runner_ups: int,
) -> _Assignment:
    """Maximise over the candidates of a search, one unknown after the other."""
    unknowns = [v for v in pattern.variables if v not in given]
    domains = dict(search.candidates)
    domains |= {slots[v]: search.rows.ids([[e]]) for v, e in given.items() if v in slots}
    for variable, ids in _remembered(search, pattern, given, unknowns, 1 + runner_ups).items():
        domains[slots[variable]] = torch.cat([domains[slots[variable]], ids], 1)
    tables = make_tables(search, domains)
    total = float(maximise(tables, ()))
    entities = {v: entity for v, entity in given.items() if v in slots}
    candidates = {
        v: _best(tables, slots[v], domains[slots[v]][0], 1 + runner_ups) for v in unknowns
    }
    for variable in unknowns:  # one after the other, so that ties are broken alike
        slot = slots[variable]
        best = maximise(tables, (slot,))[0].argmax()
        entities[variable] = int(domains[slot][0, best])
        only = search.rows.full(1, domains[slot].shape[1], value=-torch.inf)
        only[0, best] = 0.0
        tables = [*tables, Table((slot,), only)]
    return _Assignment({v: entities[v] for v in pattern.variables}, candidates, total)


def _remembered(
    search: Search,
    pattern: Pattern,
    given: Mapping[Variable, int],
    unknowns: list[Variable],
    count: int,
) -> dict[Variable, Tensor]:
    """Entities (1, n) for the unknowns with which all edges of a pattern are remembered facts."""
    if not search.rows.remembered or pattern.without or not unknowns:
        return {}
    bound = tuple((v, Entity(e)) for v, e in given.items() if v in pattern.variables)
    known = replace(pattern, bindings=(*pattern.bindings, *bound))
    (found,) = search.searcher.facts.answers([Query(tuple(unknowns), (known,))])
    if found is None:  # more ways than can be listed: those of the search will do
        return {}
    columns = search.rows.ids(found).reshape(-1, len(unknowns))
    columns = columns[:count].T
    return {v: ids.unsqueeze(0) for v, ids in zip(unknowns, columns, strict=True)}


def _best(tables: list[Table], slot: Variable, ids: Tensor, count: int) -> dict[int, float]:
    """The best candidates of an unknown, with the log-probability of the best assignment."""
    best = maximise(tables, (slot,))[0].sort(descending=True, stable=True)
    found: dict[int, float] = {}
    for value, entity in zip(best.values.tolist(), ids[best.indices].tolist(), strict=True):
        if len(found) < count and value > -math.inf:
            found.setdefault(entity, value)
    return found


# Edges.


def _reason(
    solver: Chaining, search: Search, edge: Edge, place: int, entities: dict[Variable, int]
) -> Reason:
    arrow = next(arrow for arrow in _arrows(search) if arrow.relation == place)
    head, tail = (entities[t] if isinstance(t, Variable) else int(t) for t in edge.terms)
    source, goal = (tail, head) if arrow.inverse else (head, tail)
    rows, relation = search.rows, int(edge.relation)
    asked = rows.ids([source]), rows.ids([relation]), arrow.inverse
    energy = rows.energy(source, relation, goal, arrow.inverse)
    weight = probability = None
    if not solver.by_energy:
        weight = float(rows.log_p(*asked, search.focus(arrow))[0, goal].exp())
        probability = float(rows.log_p(*asked)[0, goal].exp())
    return solver.reason(
        *(edge, entities, energy),
        probability=probability,
        weight=weight,
        backwards=arrow.inverse and bool(solver.model.config.reciprocal),
    )


def _arrows(search: Search) -> Iterator[Arrow]:
    plan = search.plan
    yield from (arrow for loops in plan.loops.values() for arrow in loops)
    for factors in (plan.scalars, *plan.unary.values(), *plan.links.values()):
        yield from (factor for factor in factors if isinstance(factor, Arrow))


# Unknowns.


def _witnesses(
    solver: Chaining,
    search: Search,
    slots: Mapping[Variable, Variable],
    found: _Assignment,
    certain: bool,
) -> Iterator[Witness]:
    assigned = {slots[v]: entity for v, entity in found.entities.items()}
    for variable, candidates in found.candidates.items():
        shown = [
            _candidate(solver, entity, value)
            for entity, value in candidates.items()
            if entity != found.entities[variable]
        ]
        mine = found.entities[variable]
        best = _candidate(solver, mine, candidates.get(mine, found.total))
        together = 1.0 if certain else _together(search, slots[variable], assigned)
        yield Witness(variable, best, tuple(shown[: solver.runner_ups]), together=together)


def _candidate(solver: Chaining, entity: int, value: float) -> Candidate:
    name = solver.model.graph.name(entity)
    if solver.by_energy:
        return Candidate(name, energy=-value)
    return Candidate(name, probability=math.exp(value))


def _together(search: Search, slot: Variable, assigned: Mapping[Variable, int]) -> float:
    """How many times likelier all candidates of an unknown are than the one that is named.

    Where only the best counts there is nothing to add, nor where tables were maximised.
    """
    if not search.searcher.exists.softness or not search.plan.is_forest:
        return 1.0
    ids = search.candidates[slot]
    weights = search.belief(slot)
    own = weights[0, assigned[slot]]
    values = weights.gather(1, ids)
    kept = search.followed(values)
    for goal, factors in search.plan.out(slot):
        at = search.rows.ids([[assigned[goal]]])
        values = values + _values(search, factors, ids, at)
        own = own + _values(search, factors, search.rows.ids([[assigned[slot]]]), at)[0, 0]
        values = values.masked_fill(~kept, -torch.inf)
    soft = search.searcher.exists(values.unsqueeze(-1))[0, 0]
    return float((soft - own).exp())


def _values(search: Search, factors: list[Factor], ids: Tensor, goals: Tensor) -> Tensor:
    """The log-values (1, k) of a link from candidates to one goal."""
    out = search.constant.new_empty(ids.shape)
    for part in search.parts(factors, ids):
        out[part.queries, part.candidates] = part.at(goals[part.queries])[..., 0]
    return out


# What must not hold.


def _against(
    solver: Chaining,
    search: Search,
    pattern: Pattern,
    shown: Pattern,
    entities: Mapping[Variable, int],
) -> Iterator[Against]:
    """Every negated part at its best; ``shown`` is the pattern with the user's variables."""
    names = {slot_variable(i): v for i, v in enumerate(pattern.all_variables)}
    parts = zip(shown.without, search.plan.negations, strict=True)
    for place, (inner, negation) in enumerate(parts):
        goal = None if negation.goal is None else names[negation.goal]
        outside = {v: entities[v] for v in inner.all_variables if v in entities and v != goal}
        evidence = search.evidence.get(place)
        mine = solver.search(_inside(inner, outside), goal, search.searcher, evidence)
        fixed = {} if goal is None else {goal: entities[goal]}
        part = explain_pattern(solver, mine, inner, goal, fixed, outside)
        if part is not None:  # what cannot hold denies nothing
            yield Against(part, _left(search, negation, entities, names))


def _left(
    search: Search,
    negation: Negation,
    entities: Mapping[Variable, int],
    names: Mapping[Variable, Variable],
) -> float:
    """What is left of the answer by a negated part, as the search found it."""
    if negation.goal is None:
        return float(search.constant_of(negation).exp())
    evidence = search.evidence.get(search.plan.negations.index(negation))
    given = search.rows.ids([[entities[names[v]] for v in negation.given]])
    values = search.denied_given(negation, given.reshape(1, -1), evidence)
    return float(values[0, entities[names[negation.goal]]].exp())

"""Why `chaining` gives an answer: an entity for every unknown, a probability for every edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from knowledge_sheaves.errors import SheafError
from knowledge_sheaves.query.facts.symbolic import answers
from knowledge_sheaves.query.pattern import Edge, Pattern, Query
from knowledge_sheaves.query.solvers.chaining.cycles import make_tables
from knowledge_sheaves.query.solvers.chaining.plan import Arrow
from knowledge_sheaves.query.solvers.chaining.search import Search
from knowledge_sheaves.query.solvers.chaining.tables import Table, maximise


@dataclass(frozen=True)
class Reason:
    """An edge of the query between entities.

    ``inverse`` says that it points to the target against its relation: the probability is that of
    the head, given the tail.
    """

    edge: Edge
    head: int
    tail: int
    probability: float
    energy: float
    known: bool
    inverse: bool


@dataclass(frozen=True)
class Witness:
    """A candidate of an unknown, and the log-probability of the best assignment with it."""

    entity: int
    log_probability: float


@dataclass(frozen=True)
class Explanation:
    """The best assignment of one pattern (of a union, the likeliest) for an answer.

    ``witnesses`` are the candidates of each unknown, the best first. ``denied`` is 1 − min(1, κp)
    of each negated part, 0 where it is certain, in the order of the pattern's ``without``.
    """

    pattern: int
    log_probability: float
    assignment: dict[str, int]
    witnesses: dict[str, tuple[Witness, ...]]
    reasons: tuple[Reason, ...]
    denied: tuple[float, ...]


def explain(
    search: Search, pattern: Pattern, place: int, given: Mapping[str, int], runner_ups: int
) -> Explanation:
    """Maximise over the candidates of a search of one query, with its targets given.

    Facts that make the answer certain are candidates too, also where the cut lost them.
    """
    chosen = {f"?{pattern.variables.index(name)}": entity for name, entity in given.items()}
    unknowns = [variable for variable in search.plan.variables if variable not in chosen]
    domains = search.candidates | {v: torch.tensor([[entity]]) for v, entity in chosen.items()}
    for variable, ids in _remembered(search, pattern, given, unknowns, 1 + runner_ups).items():
        domains[variable] = torch.cat([domains[variable], ids], 1)
    tables = make_tables(search, domains)
    total = float(maximise(tables, ()))
    witnesses = {}
    for variable in unknowns:
        name = pattern.variables[int(variable[1:])]
        witnesses[name] = _witnesses(tables, variable, domains[variable][0], 1 + runner_ups)
    for variable in unknowns:  # one after the other, so that ties are broken alike
        best = maximise(tables, (variable,))[0].argmax()
        chosen[variable] = int(domains[variable][0, best])
        only = torch.full((1, domains[variable].shape[1]), -torch.inf, dtype=search.rows.dtype)
        only[0, best] = 0.0
        tables = [*tables, Table((variable,), only)]
    names = {pattern.variables[int(v[1:])]: entity for v, entity in chosen.items()}
    reasons = tuple(_reason(search, edge, i, names) for i, edge in enumerate(pattern.edges))
    denied = tuple(_denied(search, chosen))
    return Explanation(place, total, names, witnesses, reasons, denied)


def _remembered(
    search: Search, pattern: Pattern, given: Mapping[str, int], unknowns: list[str], count: int
) -> dict[str, Tensor]:
    """Entities (1, n) for the unknowns with which all edges of a pattern are remembered facts."""
    if not search.rows.remembered or pattern.without or not unknowns:
        return {}
    names = [pattern.variables[int(variable[1:])] for variable in unknowns]
    known = replace(pattern, bindings=(*pattern.bindings, *given.items()))
    try:
        (found,) = answers(search.rows.model.graph, [Query(tuple(names), (known,))])
    except SheafError:  # more ways than can be listed: those of the search will do
        return {}
    columns = torch.from_numpy(found.astype("int64")).reshape(-1, len(names))[:count].T
    return {v: ids.unsqueeze(0) for v, ids in zip(unknowns, columns, strict=True)}


def _witnesses(tables: list[Table], variable: str, ids: Tensor, count: int) -> tuple[Witness, ...]:
    best = maximise(tables, (variable,))[0].sort(descending=True, stable=True)
    found: dict[int, float] = {}
    for value, entity in zip(best.values.tolist(), ids[best.indices].tolist(), strict=True):
        if len(found) < count and value > -torch.inf:
            found.setdefault(entity, value)
    return tuple(Witness(*each) for each in found.items())


def _reason(search: Search, edge: Edge, place: int, names: dict[str, int]) -> Reason:
    arrow = next(arrow for arrow in _arrows(search) if arrow.relation == place)
    head, tail = (names[t] if isinstance(t, str) else t for t in edge.terms)
    source, goal = (tail, head) if arrow.inverse else (head, tail)
    rows, relation = search.rows, torch.tensor([edge.relation])
    start, focus = torch.tensor([source]), search.focus(arrow)
    log_p = rows.log_p(start, relation, arrow.inverse, focus)[0, goal]
    known = bool(rows.facts.contains([[head, edge.relation, tail]])[0])
    energy = rows.energy(source, edge.relation, goal, arrow.inverse)
    return Reason(edge, head, tail, float(log_p.exp()), energy, known, arrow.inverse)


def _arrows(search: Search) -> list[Arrow]:
    plan = search.plan
    found = [arrow for loops in plan.loops.values() for arrow in loops]
    for factors in (plan.scalars, *plan.unary.values(), *plan.links.values()):
        found += [factor for factor in factors if isinstance(factor, Arrow)]
    return found


def _denied(search: Search, chosen: dict[str, int]) -> list[float]:
    found = []
    for negation in search.plan.negations:
        if negation.goal is None:
            found.append(float(search.constant_of(negation).exp()))
            continue
        given = torch.tensor([[chosen[v] for v in negation.given]], dtype=torch.long)
        values = search.values(negation, search.batch, given.reshape(1, -1))
        found.append(float(values[0, chosen[negation.goal]].exp()))
    return found

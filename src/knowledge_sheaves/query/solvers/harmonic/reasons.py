"""Reasons of harmonic answers: unknowns are where the energy is least, and entities stand in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query.explanation import Explanation, Witness
from knowledge_sheaves.query.pattern import Entity, Pattern, SchemaEdge, Variable
from knowledge_sheaves.query.solvers.harmonic.extension import Placement
from knowledge_sheaves.query.solvers.harmonic.graph import QueryGraph
from knowledge_sheaves.query.types import TypeClash, readings

if TYPE_CHECKING:
    from knowledge_sheaves.query.solvers.harmonic.solver import Harmonic


def is_possible(pattern: Pattern, given: Mapping[Variable, int], graph: KnowledgeGraph) -> bool:
    """Whether a branch allows an answer at all: its types, and what VALUES and != say."""
    known = pattern.substitute(lambda v: Entity(given[v]) if v in given else None)
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
    known = pattern.substitute(lambda v: Entity(given[v]) if v in given else None)
    found = [
        _place(solver, pattern, parts, given, target)
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
    return Explanation(
        *(target, solver.name, solver.named(entities), reasons, tuple(witnesses)),
        beyond=best.beyond(),
    )


def _place(
    solver: Harmonic,
    pattern: Pattern,
    parts: tuple[SchemaEdge, ...],
    given: Mapping[Variable, int],
    target: Variable,
) -> Placement:
    batch = QueryGraph.of(solver.model, [pattern], [parts], target)
    answer = {batch.vertex(v): entity for v, entity in given.items() if v in batch.variables}
    return solver.extension.place(batch, answer)

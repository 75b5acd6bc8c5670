"""Which way edges are read: towards the target.

Edges point from known entities to variables, and between variables from the farther to the nearer
one; where both are equally far, as written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from knowledge_sheaves.query.pattern import Edge, Pattern, Relation, Term, Variable, variables_of

# Components that nothing connects with the target lie beyond all that are connected.
BEYOND = 1000
KNOWN = 1 << 30
"""Known entities are farther than everything."""


@dataclass(frozen=True)
class Arrow:
    """An edge that points towards the target; against the relation where ``inverse``."""

    source: Term
    relation: Relation
    goal: Term
    inverse: bool

    def reversed(self) -> Arrow:
        return Arrow(self.goal, self.relation, self.source, not self.inverse)


def distances(pattern: Pattern, target: Variable | None) -> dict[Variable, int]:
    """How many edges each variable is from the target, in order of first appearance."""
    distance: dict[Variable, int] = {}
    starts = ([] if target is None else [target]) + list(pattern.variables)
    for number, start in enumerate(starts):
        if start in distance:
            continue
        distance[start] = number * BEYOND
        front = [start]
        while front:
            near = {n for v in front for n in _neighbours(pattern, v) if n not in distance}
            distance |= dict.fromkeys(sorted(near), distance[front[0]] + 1)
            front = sorted(near)
    return {variable: distance[variable] for variable in pattern.variables}


def _neighbours(pattern: Pattern, variable: Variable) -> set[Variable]:
    ends = (edge.terms for edge in pattern.edges if variable in edge.terms)
    return {term for pair in ends for term in variables_of(pair)}


def far_first(pair: tuple[Term, Term], distance: Mapping[Variable, int]) -> tuple[Term, Term]:
    """Two terms, the one that is farther from the target first."""
    a, b = (distance[term] if isinstance(term, Variable) else KNOWN for term in pair)
    return pair if a >= b else pair[::-1]


def point(edge: Edge, distance: Mapping[Variable, int]) -> Arrow:
    """The edge as it is read."""
    source, goal = far_first(edge.terms, distance)
    return Arrow(source, edge.relation, goal, (source, goal) != edge.terms)


def arrows(pattern: Pattern, target: Variable | None) -> list[Arrow]:
    """All edges of a pattern as they are read.

    >>> [arrow.inverse for arrow in arrows(Pattern((Edge("?x", 0, 7), Edge(8, 0, "?x"))), "?x")]
    [True, False]
    """
    distance = distances(pattern, target if target in pattern.variables else None)
    return [point(edge, distance) for edge in pattern.edges]

"""What `chaining` does with a shape: which terms each of its factors joins.

Edges point towards the target (see `arrows`). In a negated branch the variable that it shares with
the outer pattern takes the place of the target; of several, the nearest does (the first of equals),
and the others count as known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.pattern import Pattern, Slot, Term, Variable
from knowledge_sheaves.query.solvers.arrows import Arrow, distances, far_first, point


@dataclass(frozen=True)
class Apart:
    """Two terms that must not be one entity."""

    source: Term
    goal: Term


@dataclass(frozen=True)
class Equal:
    """A variable that is a given entity."""

    source: Term
    goal: Term


@dataclass(frozen=True)
class Negation:
    """A branch that must not hold: ``given`` variables are known in it, ``goal`` is its target.

    In ``pattern`` the given variables have become entities, in slots behind all others.
    """

    pattern: Pattern
    given: tuple[Variable, ...]
    goal: Variable | None


Factor: TypeAlias = Arrow | Apart | Equal | Negation


@dataclass(frozen=True)
class Plan:
    """The factors of a pattern by the variables they join.

    ``links`` join a source with a goal that is nearer to the target. ``wide`` negations join more
    than two variables; ``negations`` are all of them, in order. Ids in terms and relations are
    slots, columns of a batch.
    """

    target: Variable | None
    distance: dict[Variable, int]
    scalars: list[Factor] = field(default_factory=list)
    unary: dict[Variable, list[Factor]] = field(default_factory=dict)
    loops: dict[Variable, list[Arrow]] = field(default_factory=dict)
    links: dict[tuple[Variable, Variable], list[Factor]] = field(default_factory=dict)
    wide: list[Negation] = field(default_factory=list)
    negations: list[Negation] = field(default_factory=list)

    @property
    def variables(self) -> list[Variable]:
        return list(self.distance)

    @property
    def unknowns(self) -> list[Variable]:
        return [variable for variable in self.distance if variable != self.target]

    def out(self, variable: Variable) -> Iterator[tuple[Variable, list[Factor]]]:
        """The links of a variable towards the target."""
        return ((goal, each) for (source, goal), each in self.links.items() if source == variable)

    def sources(self, variable: Variable) -> list[Variable]:
        """The variables that must send their message first."""
        farther = [s for s, goal in self.links if goal == variable]
        return [s for s in farther if self.distance[s] > self.distance[variable]]

    @cached_property
    def is_forest(self) -> bool:
        """Whether messages towards the target are exact."""
        group = {variable: variable for variable in self.variables}
        for a, b in {tuple(sorted(link)) for link in self.links}:
            first, second = group[a], group[b]
            if first == second:
                return False
            group = {v: first if g == second else g for v, g in group.items()}
        return not self.wide

    def add(self, factor: Factor, scope: tuple[Term, ...]) -> None:
        """File a factor under the variables that it joins, the farthest first."""
        variables = tuple(term for term in scope if isinstance(term, Variable))
        if not variables:
            self.scalars.append(factor)
        elif len(variables) == 1:
            self.unary.setdefault(variables[0], []).append(factor)
        elif len(variables) == 2:
            self.links.setdefault((variables[0], variables[1]), []).append(factor)
        else:
            assert isinstance(factor, Negation)
            self.wide.append(factor)


def make_plan(pattern: Pattern, target: Variable | None, slots: int) -> Plan:
    """Point the edges of a pattern of slots towards the target; ``slots`` is their number."""
    plan = Plan(target, distances(pattern, target))
    distance = plan.distance
    for edge in pattern.edges:
        arrow = point(edge, distance)
        if isinstance(edge.head, Variable) and edge.head == edge.tail:
            plan.loops.setdefault(edge.head, []).append(arrow)
        else:
            plan.add(arrow, (arrow.source, arrow.goal))
    for pair in pattern.different:
        far, near = far_first(pair, distance)
        plan.add(Apart(far, near), (far, near))
    for variable, entity in pattern.bindings:
        plan.add(Equal(entity, variable), (variable,))
    for inner in pattern.without:
        negation = _negation(inner, distance, slots)
        plan.negations.append(negation)
        scope = () if negation.goal is None else (*negation.given, negation.goal)
        plan.add(negation, scope)
    return plan


def _negation(inner: Pattern, distance: dict[Variable, int], slots: int) -> Negation:
    shared = [v for v in distance if v in inner.all_variables]
    if not shared:
        return Negation(inner, (), None)
    goal = min(shared, key=distance.__getitem__)
    if goal not in inner.variables:
        raise InputError(
            "A negated part within a negated part speaks of a variable that the part around it "
            "leaves out: add an edge with that variable to it."
        )
    others = sorted(shared, key=distance.__getitem__, reverse=True)
    given = tuple(variable for variable in others if variable != goal)
    if any(variable in given for part in inner.walk() for variable, _ in part.bindings):
        raise InputError("VALUES within a negated part cannot bind a variable of its outside.")
    known = {variable: Slot(slots + place) for place, variable in enumerate(given)}
    return Negation(inner.substitute(known.get), given, goal)

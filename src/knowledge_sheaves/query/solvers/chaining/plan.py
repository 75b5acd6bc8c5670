"""What `chaining` does with a shape: which way its edges point, and which terms each factor joins.

Edges point towards the target: from known entities to variables, and between variables from the
farther to the nearer one; where both are equally far, as written. In a negated branch the variable
that it shares with the outer pattern takes the place of the target; of several, the nearest does
(the first of equals), and the others count as known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.pattern import Edge, Pattern, Shape, Term, is_variable

# Components that nothing connects with the target lie beyond all that are connected.
BEYOND = 1000


@dataclass(frozen=True)
class Arrow:
    """An edge that points towards the target; against the relation where ``inverse``."""

    source: Term
    relation: int
    goal: Term
    inverse: bool

    def reversed(self) -> Arrow:
        return Arrow(self.goal, self.relation, self.source, not self.inverse)


@dataclass(frozen=True)
class Apart:
    """Two terms that must not be one entity."""

    source: Term
    goal: Term


@dataclass(frozen=True)
class Equal:
    """A variable that is a given entity."""

    source: int
    goal: str


@dataclass(frozen=True)
class Negation:
    """A branch that must not hold: ``given`` variables are known in it, ``goal`` is its target.

    In ``pattern`` the given variables have become entities, in slots behind all others.
    """

    pattern: Pattern
    given: tuple[str, ...]
    goal: str | None


Factor: TypeAlias = Arrow | Apart | Equal | Negation


@dataclass(frozen=True)
class Plan:
    """The factors of a pattern by the variables they join.

    ``links`` join a source with a goal that is nearer to the target. ``wide`` negations join more
    than two variables; ``negations`` are all of them, in order. Ids in terms and relations are
    slots, columns of a batch.
    """

    target: str | None
    distance: dict[str, int]
    scalars: list[Factor] = field(default_factory=list)
    unary: dict[str, list[Factor]] = field(default_factory=dict)
    loops: dict[str, list[Arrow]] = field(default_factory=dict)
    links: dict[tuple[str, str], list[Factor]] = field(default_factory=dict)
    wide: list[Negation] = field(default_factory=list)
    negations: list[Negation] = field(default_factory=list)

    @property
    def variables(self) -> list[str]:
        return list(self.distance)

    @property
    def unknowns(self) -> list[str]:
        return [variable for variable in self.distance if variable != self.target]

    def out(self, variable: str) -> Iterator[tuple[str, list[Factor]]]:
        """The links of a variable towards the target."""
        return ((goal, each) for (source, goal), each in self.links.items() if source == variable)

    def sources(self, variable: str) -> list[str]:
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
        variables = tuple(term for term in scope if isinstance(term, str))
        if not variables:
            self.scalars.append(factor)
        elif len(variables) == 1:
            self.unary.setdefault(variables[0], []).append(factor)
        elif len(variables) == 2:
            self.links.setdefault((variables[0], variables[1]), []).append(factor)
        else:
            assert isinstance(factor, Negation)
            self.wide.append(factor)


def template(shape: Shape) -> Pattern:
    """A shape as a pattern whose ids are slots: of entities, and of relations.

    >>> template(Pattern((Edge(7, 3, "?x"),)).shape).edges
    (Edge(head=0, relation=0, tail='?0'),)
    """
    return _template(shape, [0])


def _template(shape: Shape, relations: list[int]) -> Pattern:
    def term(slot: tuple[str, int]) -> Term:
        return slot[1] if slot[0] == "e" else f"?{slot[1]}"

    first = relations[0]
    relations[0] += len(shape.edges)
    edges = tuple(Edge(term(h), first + i, term(t)) for i, (h, t) in enumerate(shape.edges))
    return Pattern(
        edges,
        tuple(_template(inner, relations) for inner in shape.without),
        tuple((term(a), term(b)) for a, b in shape.different),
        tuple((f"?{v[1]}", e[1]) for v, e in shape.bindings),
    )


def filled(pattern: Pattern, entities: Sequence[int], relations: Sequence[int]) -> Pattern:
    """A pattern of slots with the ids that one row of a batch has in them.

    >>> asked = Pattern((Edge(7, 3, "?x"),))
    >>> filled(template(asked.shape), *asked.constants).edges
    (Edge(head=7, relation=3, tail='?0'),)
    """

    def put(term: Term) -> Term:
        return term if isinstance(term, str) else entities[term]

    return Pattern(
        tuple(Edge(put(e.head), relations[e.relation], put(e.tail)) for e in pattern.edges),
        tuple(filled(inner, entities, relations) for inner in pattern.without),
        tuple((put(a), put(b)) for a, b in pattern.different),
        tuple((variable, entities[slot]) for variable, slot in pattern.bindings),
    )


def make_plan(pattern: Pattern, target: str | None, slots: int) -> Plan:
    """Point the edges of a pattern of slots towards the target; ``slots`` is their number."""
    plan = Plan(target, _distances(pattern, target))
    distance = plan.distance
    for edge in pattern.edges:
        arrow = _point(edge, distance)
        if is_variable(edge.head) and edge.head == edge.tail:
            plan.loops.setdefault(str(edge.head), []).append(arrow)
        else:
            plan.add(arrow, (arrow.source, arrow.goal))
    for pair in pattern.different:
        far, near = _far_first(pair, distance)
        plan.add(Apart(far, near), (far, near))
    for variable, entity in pattern.bindings:
        _known(variable, distance)
        plan.add(Equal(entity, variable), (variable,))
    for inner in pattern.without:
        negation = _negation(inner, distance, slots)
        plan.negations.append(negation)
        scope = () if negation.goal is None else (*negation.given, negation.goal)
        plan.add(negation, scope)
    return plan


def _distances(pattern: Pattern, target: str | None) -> dict[str, int]:
    """How many edges each variable is from the target, in order of first appearance."""
    distance: dict[str, int] = {}
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


def _neighbours(pattern: Pattern, variable: str) -> set[str]:
    ends = (edge.terms for edge in pattern.edges if variable in edge.terms)
    return {term for pair in ends for term in pair if isinstance(term, str)}


def _known(term: Term, distance: dict[str, int]) -> int:
    """The distance of a term; known entities are farther than everything."""
    if not isinstance(term, str):
        return 1 << 30
    if term not in distance:
        raise InputError(
            "A variable of a condition occurs in no positive edge of its pattern or of one around "
            "it: add an edge that says what it is."
        )
    return distance[term]


def _far_first(pair: tuple[Term, Term], distance: dict[str, int]) -> tuple[Term, Term]:
    a, b = pair
    return (a, b) if _known(a, distance) >= _known(b, distance) else (b, a)


def _point(edge: Edge, distance: dict[str, int]) -> Arrow:
    source, goal = _far_first(edge.terms, distance)
    inverse = (source, goal) != edge.terms
    return Arrow(source, edge.relation, goal, inverse)


def _negation(inner: Pattern, distance: dict[str, int], slots: int) -> Negation:
    shared = [v for v in distance if v in _all_variables(inner)]
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
    known = {variable: slots + place for place, variable in enumerate(given)}
    return Negation(_substitute(inner, known), given, goal)


def _all_variables(pattern: Pattern) -> set[str]:
    terms: set[Term] = set()
    for part in pattern.walk():
        terms |= {term for edge in part.edges for term in edge.terms}
        terms |= {term for pair in part.different for term in pair}
        terms |= {variable for variable, _ in part.bindings}
    return {term for term in terms if isinstance(term, str)}


def _substitute(pattern: Pattern, known: dict[str, int]) -> Pattern:
    """The pattern with some variables known."""

    def put(term: Term) -> Term:
        return known.get(term, term) if isinstance(term, str) else term

    if any(variable in known for variable, _ in pattern.bindings):
        raise InputError("VALUES within a negated part cannot bind a variable of its outside.")
    return replace(
        pattern,
        edges=tuple(Edge(put(e.head), e.relation, put(e.tail)) for e in pattern.edges),
        different=tuple((put(a), put(b)) for a, b in pattern.different),
        without=tuple(_substitute(inner, known) for inner in pattern.without),
    )

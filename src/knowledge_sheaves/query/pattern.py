"""Queries as small graphs: known entities, unknowns, targets, and relations between them.

A `Pattern` is a conjunction of edges, with patterns that must *not* hold; a `Query` is a union of
patterns with target variables. The shape of a pattern is data: everything that solves queries works
on any shape, and queries of one shape are solved together.

Four kinds of ids are whole numbers, and each has a name of its own: an `Entity`, a `RelationId` (a
place in the schema's ``relation_names``, which is what a query speaks of), a `SchemaEdge` (one pair
of types that a relation joins) and a `ModelEdge` (a schema edge, or its reciprocal behind all of
them). A `Slot` is none of these: it is a column of a batch, in which rows have ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NewType, TypeAlias, TypeVar

import numpy as np

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.names import End, Place, find_entity, find_relation

T = TypeVar("T")
RelationId = NewType("RelationId", int)
SchemaEdge = NewType("SchemaEdge", int)
ModelEdge = NewType("ModelEdge", int)


class Variable(str):
    """A variable, by its name with the question mark."""

    __slots__ = ()

    @property
    def is_named(self) -> bool:
        """Whether a user gave this name; the middle of a path ``a/b`` has one nobody can write."""
        return not self.startswith("?.")


class Entity(int):
    """The id of an entity."""

    __slots__ = ()


class Slot(int):
    """A column of a batch: the place of an entity or a relation in the order of its shape."""

    __slots__ = ()


Term: TypeAlias = Variable | Entity | Slot
Relation: TypeAlias = RelationId | Slot


def as_term(given: object) -> Term:
    """Tell variables from entities in what somebody wrote.

    >>> type(as_term("?x")).__name__, type(as_term(7)).__name__
    ('Variable', 'Entity')
    """
    if isinstance(given, Variable | Entity | Slot):
        return given
    if isinstance(given, str):
        if not given.startswith("?"):
            raise InputError(f"A variable starts with '?', unlike {given!r}.")
        return Variable(given)
    if isinstance(given, int | np.integer):
        return Entity(given)
    raise InputError(f"A term is a variable or the id of an entity, not {given!r}.")


@dataclass(frozen=True)
class Edge:
    """head –relation→ tail.

    >>> Edge(7, 3, "?x")
    Edge(head=7, relation=3, tail='?x')
    """

    head: Term
    relation: Relation
    tail: Term

    def __post_init__(self) -> None:
        object.__setattr__(self, "head", as_term(self.head))
        object.__setattr__(self, "tail", as_term(self.tail))

    @property
    def terms(self) -> tuple[Term, Term]:
        return self.head, self.tail


def _same(relation: Relation) -> Relation:
    return relation


@dataclass(frozen=True)
class Pattern:
    """Edges that must hold together, and patterns of which none may hold with them.

    Variables of a pattern in ``without`` that occur in the outer pattern too are the same; others
    are its own ("there is no …"). ``different`` are pairs of terms that must not be one entity.
    ``bindings`` say of variables which entity they are: what ``VALUES`` gives to a target, which
    stays a variable because it is part of the answer.
    """

    edges: tuple[Edge, ...]
    without: tuple[Pattern, ...] = ()
    different: tuple[tuple[Term, Term], ...] = ()
    bindings: tuple[tuple[Term, Term], ...] = ()

    def __post_init__(self) -> None:
        for name in ("different", "bindings"):
            pairs = tuple((as_term(a), as_term(b)) for a, b in getattr(self, name))
            object.__setattr__(self, name, pairs)

    def map(
        self, term: Callable[[Term], Term], relation: Callable[[Relation], Relation] = _same
    ) -> Pattern:
        """The same pattern with other terms and relations, met in a fixed order: see `shape`.

        >>> Pattern((Edge(7, 3, "?x"),)).map({7: 8, "?x": "?y"}.get).edges
        (Edge(head=8, relation=3, tail='?y'),)
        """
        return Pattern(
            tuple(Edge(term(e.head), relation(e.relation), term(e.tail)) for e in self.edges),
            different=tuple((term(a), term(b)) for a, b in self.different),
            bindings=tuple((term(a), term(b)) for a, b in self.bindings),
            without=tuple(inner.map(term, relation) for inner in self.without),
        )

    def map_edges(self, edge: Callable[[Edge], Edge]) -> Pattern:
        """The same pattern with other edges, also in its negated parts: say, turned around."""
        without = tuple(inner.map_edges(edge) for inner in self.without)
        return replace(self, edges=tuple(map(edge, self.edges)), without=without)

    def substitute(self, values: Callable[[Variable], Term | None]) -> Pattern:
        """The same pattern with terms in the place of the variables that have a value."""

        def new(term: Term) -> Term:
            value = values(term) if isinstance(term, Variable) else None
            return term if value is None else value

        return self.map(new)

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The variables of the positive edges, in order of first appearance."""
        return variables_of(term for edge in self.edges for term in edge.terms)

    @cached_property
    def all_variables(self) -> tuple[Variable, ...]:
        """Those of conditions and of negated parts too."""
        return variables_of(term for part in self.walk() for term in part.own_terms())

    @property
    def bound(self) -> dict[Variable, int]:
        """The variables that are said to be an entity, or in a shape a slot."""
        return {v: int(e) for v, e in self.bindings if isinstance(v, Variable)}

    def own_terms(self) -> Iterator[Term]:
        """All terms but those of negated parts."""
        yield from (term for edge in self.edges for term in edge.terms)
        yield from (term for pair in (*self.different, *self.bindings) for term in pair)

    @property
    def shape(self) -> Pattern:
        """The pattern with slots for its entities and relations; equal shapes make a batch.

        >>> Pattern((Edge(7, 3, "?x"),)).shape.edges
        (Edge(head=0, relation=0, tail='?0'),)
        """
        return self._numbered[0]

    @property
    def constants(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The entities and the relations, in the order in which the shape counts them."""
        return self._numbered[1:]

    @cached_property
    def _numbered(self) -> tuple[Pattern, tuple[int, ...], tuple[int, ...]]:
        entities: list[int] = []
        relations: list[int] = []
        names: dict[Variable, Variable] = {}

        def term(given: Term) -> Term:
            if isinstance(given, Variable):
                return names.setdefault(given, slot_variable(len(names)))
            entities.append(int(given))
            return Slot(len(entities) - 1)

        def relation(given: Relation) -> Relation:
            relations.append(int(given))
            return Slot(len(relations) - 1)

        return self.map(term, relation), tuple(entities), tuple(relations)

    def filled(self, entities: Sequence[int], relations: Sequence[int]) -> Pattern:
        """A shape with the ids that one row of a batch has in its slots.

        >>> asked = Pattern((Edge(7, 3, "?x"),))
        >>> asked.shape.filled(*asked.constants).edges
        (Edge(head=7, relation=3, tail='?0'),)
        """
        return self.map(
            lambda term: Entity(entities[term]) if isinstance(term, Slot) else term,
            lambda relation: RelationId(relations[relation]),
        )

    def walk(self) -> Iterator[Pattern]:
        """This pattern and all within it, outer ones first."""
        yield self
        for inner in self.without:
            yield from inner.walk()


def slot_variable(place: int) -> Variable:
    """What a shape calls its variable at a place."""
    return Variable(f"?{place}")


def variables_of(terms: Iterable[Term]) -> tuple[Variable, ...]:
    """The variables among terms, each once, in their order."""
    return tuple(dict.fromkeys(term for term in terms if isinstance(term, Variable)))


@dataclass(frozen=True)
class Query:
    """A union of patterns, and the variables that are asked for.

    ``types`` are pairs of a target and the name of a type that its answers have.

    >>> graph = KnowledgeGraph.from_triples(
    ...     [("Julia", "friends", "Sachin"), ("Sachin", "favorite movie", "Star Wars")])
    >>> query = Query.from_triples(
    ...     [("Julia", "friends", "?y"), ("?y", "favorite movie", "?x")], "?x", graph)
    >>> query.patterns[0].variables
    ('?y', '?x')
    """

    targets: tuple[Variable, ...]
    patterns: tuple[Pattern, ...]
    types: tuple[tuple[Variable, str], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", tuple(_target(each) for each in self.targets))
        if not self.patterns:
            raise InputError("A query needs at least one pattern.")
        for pattern in self.patterns:
            _check(pattern, self.targets)
        if any(self.targets != (variable,) for variable, _ in self.types):
            raise InputError("Only a target that is asked for alone can be asked for by type.")

    @classmethod
    def from_triples(
        cls,
        triples: Iterable[Sequence[str]],
        target: str | Sequence[str],
        graph: KnowledgeGraph,
        without: Iterable[Iterable[Sequence[str]]] = (),
    ) -> Query:
        """A query from rows of names; a name that starts with "?" is a variable.

        A row of four has "not" in its last place where the edge must not hold. ``without`` are
        groups of rows of which none may hold as a whole.
        """
        positive: list[Edge] = []
        negated: list[Edge] = []
        for row in triples:
            if len(row) not in (3, 4) or (len(row) == 4 and row[3] != "not"):
                raise InputError(
                    f'A row of a query is (head, relation, tail) or has "not" behind: {row!r}.'
                )
            (negated if len(row) == 4 else positive).append(make_edge(row[:3], graph))
        inner = [Pattern((edge,)) for edge in negated]
        inner += [Pattern(tuple(make_edge(row, graph) for row in group)) for group in without]
        targets = (target,) if isinstance(target, str) else tuple(target)
        return cls(tuple(map(_target, targets)), (Pattern(tuple(positive), tuple(inner)),))

    def map(
        self, term: Callable[[Term], Term], relation: Callable[[Relation], Relation] = _same
    ) -> Query:
        """The same query with other terms and relations; targets stay variables."""
        targets = (term(target) for target in self.targets)
        named = [(term(target), kind) for target, kind in self.types]
        types = tuple((target, kind) for target, kind in named if isinstance(target, Variable))
        patterns = tuple(p.map(term, relation) for p in self.patterns)
        return Query(variables_of(targets), patterns, types)

    @property
    def is_negated(self) -> bool:
        """Whether something must not hold."""
        return any(pattern.without for pattern in self.patterns)

    @property
    def has_unknowns(self) -> bool:
        """Whether there are variables beside the targets."""
        return any(set(pattern.variables) - set(self.targets) for pattern in self.patterns)


def _target(given: str) -> Variable:
    if not given.startswith("?"):
        raise InputError(f"A target is a variable and starts with '?', unlike {given!r}.")
    return Variable(given)


def make_edge(row: Sequence[str], graph: KnowledgeGraph) -> Edge:
    """An edge from names; unknown names are errors with suggestions."""
    head, relation, tail = row
    name = find_relation(graph, relation)

    def term(text: str, end: End) -> Term:
        if text.startswith("?"):
            return Variable(text)
        return Entity(find_entity(graph, text, [Place(name, end)]))

    place = RelationId(graph.schema.relation_names.index(name))
    return Edge(term(head, "head"), place, term(tail, "tail"))


def _check(pattern: Pattern, targets: tuple[Variable, ...]) -> None:
    """Refuse what no solver could answer."""
    if not targets:
        raise InputError("A query needs at least one target variable.")
    if not pattern.edges:
        raise InputError(
            "A query needs at least one positive edge: what is only forbidden has no answers."
        )
    for target in targets:
        if target not in pattern.variables:
            raise InputError(f"The target {target} occurs in no positive edge of its pattern.")
    _check_conditions(pattern, frozenset())
    _check_connected(pattern)


def _check_conditions(pattern: Pattern, outside: frozenset[Variable]) -> None:
    """A condition speaks of variables that an edge of its pattern, or of one around it, has."""
    known = outside | frozenset(pattern.variables)
    for term in (term for pair in (*pattern.different, *pattern.bindings) for term in pair):
        if isinstance(term, Variable) and term not in known:
            raise InputError(
                f"A condition speaks of {term}, which occurs in no positive edge of its pattern or "
                "of one around it: add an edge that says what it is."
            )
    for inner in pattern.without:
        _check_conditions(inner, known)


def connected_variables(pattern: Pattern) -> list[set[Variable]]:
    """The variables that edges connect with each other, a set for every part of the pattern.

    >>> [sorted(part) for part in connected_variables(Pattern((Edge("?x", 0, "?y"),)))]
    [['?x', '?y']]
    """
    variables = (
        [term for term in edge.terms if isinstance(term, Variable)] for edge in pattern.edges
    )
    return _joined(variables)


def _joined(groups: Iterable[Iterable[T]]) -> list[set[T]]:
    """Sets that share no member, of groups whose members hang together."""
    found: dict[T, set[T]] = {}
    for group in groups:
        members = set(group)
        together = members.union(*(found.get(member, set()) for member in members))
        found |= dict.fromkeys(together, together)
    return list({id(group): group for group in found.values()}.values())


def _check_connected(pattern: Pattern) -> None:
    """Every variable must hang together with a target, if only through a known entity.

    What does not is another query. Parts that meet in an entity are a sum of independent energies.
    """
    parts = _joined(edge.terms for edge in pattern.edges)
    named = [set(variables_of(part)) for part in parts if variables_of(part)]
    if len(named) > 1:
        first, second = (min(part) for part in named[:2])
        raise InputError(
            f"The query falls apart: nothing connects {first} with {second}; ask two queries."
        )

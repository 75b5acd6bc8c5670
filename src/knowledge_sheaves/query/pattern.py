"""Queries as small graphs: known entities, unknowns, targets, and relations between them.

A `Pattern` is a conjunction of edges, with patterns that must *not* hold; a `Query` is a union of
patterns with target variables. The shape of a pattern is data: everything that solves queries works
on any shape, and queries of one shape are solved together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.vocabulary import suggestion

Term: TypeAlias = int | str
"""The id of an entity, or the name of a variable, which starts with a question mark."""


def is_variable(term: Term) -> bool:
    return isinstance(term, str)


@dataclass(frozen=True)
class Edge:
    """head –relation→ tail; ``relation`` is a place in the schema's ``relation_names``."""

    head: Term
    relation: int
    tail: Term

    @property
    def terms(self) -> tuple[Term, Term]:
        return self.head, self.tail


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
    bindings: tuple[tuple[str, int], ...] = ()

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """The variables of the positive edges, in order of first appearance."""
        terms = (term for edge in self.edges for term in edge.terms)
        return tuple(dict.fromkeys(term for term in terms if isinstance(term, str)))

    @cached_property
    def shape(self) -> Shape:
        """What is left when entities and relations are taken out; equal shapes make a batch."""
        return Shape.of(self)

    @cached_property
    def constants(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The entities and the relations, in the order in which the shape counts them."""
        entities: list[int] = []
        relations: list[int] = []
        for pattern in self.walk():
            for edge in pattern.edges:
                relations.append(edge.relation)
                entities.extend(term for term in edge.terms if isinstance(term, int))
            entities.extend(t for pair in pattern.different for t in pair if isinstance(t, int))
            entities.extend(entity for _, entity in pattern.bindings)
        return tuple(entities), tuple(relations)

    def walk(self) -> Iterator[Pattern]:
        """This pattern and all within it, outer ones first."""
        yield self
        for inner in self.without:
            yield from inner.walk()


@dataclass(frozen=True)
class Shape:
    """A pattern with numbered slots: ("e", i) for the i-th entity, ("v", i) for variables."""

    edges: tuple[tuple[tuple[str, int], tuple[str, int]], ...]
    without: tuple[Shape, ...]
    different: tuple[tuple[tuple[str, int], tuple[str, int]], ...]
    bindings: tuple[tuple[tuple[str, int], tuple[str, int]], ...] = ()

    @classmethod
    def of(cls, pattern: Pattern) -> Shape:
        return _number(pattern, {}, [0])


def _number(pattern: Pattern, variables: dict[str, int], entities: list[int]) -> Shape:
    def slot(term: Term) -> tuple[str, int]:
        if isinstance(term, str):
            return "v", variables.setdefault(term, len(variables))
        entities[0] += 1
        return "e", entities[0] - 1

    edges = tuple((slot(edge.head), slot(edge.tail)) for edge in pattern.edges)
    different = tuple((slot(a), slot(b)) for a, b in pattern.different)
    bindings = tuple((slot(variable), slot(entity)) for variable, entity in pattern.bindings)
    without = tuple(_number(inner, variables, entities) for inner in pattern.without)
    return Shape(edges, without, different, bindings)


@dataclass(frozen=True)
class Query:
    """A union of patterns, and the variables that are asked for.

    >>> graph = KnowledgeGraph.from_triples(
    ...     [("Julia", "friends", "Sachin"), ("Sachin", "favorite movie", "Star Wars")])
    >>> query = Query.from_triples(
    ...     [("Julia", "friends", "?y"), ("?y", "favorite movie", "?x")], "?x", graph)
    >>> query.patterns[0].variables
    ('?y', '?x')
    """

    targets: tuple[str, ...]
    patterns: tuple[Pattern, ...]

    def __post_init__(self) -> None:
        if not self.patterns:
            raise InputError("A query needs at least one pattern.")
        for pattern in self.patterns:
            _check(pattern, self.targets)

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
        return cls(targets, (Pattern(tuple(positive), tuple(inner)),))


def make_edge(row: Sequence[str], graph: KnowledgeGraph) -> Edge:
    """An edge from names; unknown names are errors with suggestions."""
    head, relation, tail = row
    names = graph.schema.relation_names
    if relation not in names:
        raise InputError(f"There is no relation {relation!r}{suggestion(relation, names) or '.'}")
    ends = [name if name.startswith("?") else graph.entities.id(name) for name in (head, tail)]
    return Edge(ends[0], names.index(relation), ends[1])


def _check(pattern: Pattern, targets: tuple[str, ...]) -> None:
    """Refuse what no solver could answer."""
    if not targets:
        raise InputError("A query needs at least one target variable.")
    if not pattern.edges:
        raise InputError(
            "A query needs at least one positive edge: what is only forbidden has no answers."
        )
    for target in targets:
        if not target.startswith("?"):
            raise InputError(f"A target is a variable and starts with '?', unlike {target!r}.")
        if target not in pattern.variables:
            raise InputError(f"The target {target} occurs in no positive edge of its pattern.")
    _check_connected(pattern)


def connected_variables(pattern: Pattern) -> list[set[str]]:
    """The variables that edges connect with each other, a set for every part of the pattern.

    >>> [sorted(part) for part in connected_variables(Pattern((Edge("?x", 0, "?y"),)))]
    [['?x', '?y']]
    """
    groups: dict[str, set[str]] = {}
    for edge in pattern.edges:
        variables = {term for term in edge.terms if isinstance(term, str)}
        joined = set().union(variables, *(groups.get(v, set()) for v in variables))
        for member in joined:
            groups[member] = joined
    return list({id(group): group for group in groups.values()}.values())


def _check_connected(pattern: Pattern) -> None:
    """Every variable must hang together with a target: the rest would be another query."""
    parts = connected_variables(pattern)
    if len(parts) > 1:
        first, second = (min(part) for part in parts[:2])
        raise InputError(
            f"The query falls apart: nothing connects {first} with {second}; ask two queries."
        )

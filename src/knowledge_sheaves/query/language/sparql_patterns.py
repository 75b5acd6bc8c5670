"""Patterns as solutions of a group in SPARQL: joined, renamed, and kept from holding."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.pattern import (
    Entity,
    Pattern,
    Term,
    Variable,
    connected_variables,
    variables_of,
)

MOST_PATTERNS = 1_000
MOST_EDGES = 100


def join_all(groups: Iterable[Sequence[Pattern]]) -> list[Pattern]:
    """Return the union of all joins of one pattern from each group: a union distributes.

    >>> from knowledge_sheaves.query.pattern import Edge
    >>> a, b = (Pattern((Edge("?x", relation, "?y"),)) for relation in (0, 1))
    >>> [len(pattern.edges) for pattern in join_all([[a], [a, b]])]
    [1, 2]
    """
    found = [Pattern(())]
    for group in groups:
        if len(found) * len(group) > MOST_PATTERNS:
            raise InputError(
                f"The query is too large: its alternatives (UNION, | and VALUES) multiply to more "
                f"than {MOST_PATTERNS:,} patterns; ask several smaller ones."
            )
        joined = (_join(one, other) for one in found for other in group)
        found = list(dict.fromkeys(pattern for pattern in joined if pattern is not None))
    return found


def _join(one: Pattern, other: Pattern) -> Pattern | None:
    """Return both together, or None where they say different things of a variable."""
    bindings = dict(one.bindings)
    if any(bindings.setdefault(name, entity) != entity for name, entity in other.bindings):
        return None
    edges = tuple(dict.fromkeys(one.edges + other.edges))
    if len(edges) > MOST_EDGES:
        raise InputError(
            f"The query is too large: one of its patterns has more than {MOST_EDGES} edges; "
            "ask several smaller ones."
        )
    return Pattern(
        edges,
        one.without + other.without,
        tuple(dict.fromkeys(one.different + other.different)),
        tuple(bindings.items()),
    )


def bound_variables(pattern: Pattern) -> frozenset[Variable]:
    """Return the variables that have a value in every solution of a pattern."""
    return frozenset(pattern.variables).union(variables_of(name for name, _ in pattern.bindings))


def substitute(pattern: Pattern, terms: Mapping[Variable, Term]) -> Pattern | None:
    """Put terms in the place of variables; None where the result can never hold.

    >>> from knowledge_sheaves.query.pattern import Edge
    >>> substitute(Pattern((Edge("?x", 0, "?y"),), different=(("?x", "?y"),)), {"?x": Entity(7)})
    Pattern(edges=(Edge(head=7, relation=0, tail='?y'),), without=(), different=((7, '?y'),),
        bindings=())
    """
    return simplified(pattern.substitute(terms.get))


def simplified(pattern: Pattern) -> Pattern | None:
    """Settle conditions that speak of entities alone; None where one of them fails.

    Edges that have become equal are one.
    """
    inner = [simplified(each) for each in pattern.without]
    if any(a == b for a, b in pattern.different) or Pattern(()) in inner:
        return None
    if any(isinstance(term, Entity) and term != entity for term, entity in pattern.bindings):
        return None
    return Pattern(
        tuple(dict.fromkeys(pattern.edges)),
        tuple(each for each in inner if each is not None),
        tuple(pair for pair in pattern.different if variables_of(pair)),
        tuple(pair for pair in pattern.bindings if variables_of(pair)),
    )


def settle(pattern: Pattern, keep: Collection[Variable]) -> Pattern | None:
    """Put entities in the place of the bound variables that need not be kept.

    None where the bindings contradict the rest. An entity connects nothing, so where the pattern
    would fall apart its variables stay, and stay bound.

    >>> from knowledge_sheaves.query.pattern import Edge
    >>> settle(Pattern((Edge("?x", 0, "?y"),), bindings=(("?y", 3),)), ["?x"]).edges
    (Edge(head='?x', relation=0, tail=3),)
    """
    bound = {n: e for n, e in pattern.bindings if isinstance(n, Variable)}
    if substitute(pattern, bound) is None:
        return None

    def with_entities(kept: Collection[Variable]) -> Pattern | None:
        return substitute(pattern, {n: e for n, e in bound.items() if n not in kept})

    settled = with_entities(keep)
    if settled is None or len(connected_variables(settled)) <= 1:
        return settled
    return with_entities([*keep, *pattern.variables])


def exclude(pattern: Pattern, inner: Pattern, shared: frozenset[Variable]) -> Pattern | None:
    """Return a pattern without the solutions for which an inner one holds; None if all go.

    >>> from knowledge_sheaves.query.pattern import Edge
    >>> exclude(Pattern((Edge("?x", 0, 1),)), Pattern((), bindings=(("?x", 5),)), frozenset(["?x"]))
    Pattern(edges=(Edge(head='?x', relation=0, tail=1),), without=(), different=(('?x', 5),),
        bindings=())
    """
    settled = settle(inner, shared)
    if settled is None:
        return pattern
    if settled == Pattern(()):
        return None
    if settled.edges:
        return replace(pattern, without=(*pattern.without, settled))
    if settled.without or settled.different or len(settled.bindings) > 1:
        raise InputError("NOT EXISTS and MINUS need at least one triple between their braces.")
    return replace(pattern, different=pattern.different + settled.bindings)

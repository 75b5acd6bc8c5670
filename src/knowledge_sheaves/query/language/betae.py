"""The BetaE benchmark's nested tuples as queries: any nesting, in disjunctive normal form.

A node is an entity with a row of steps behind it, ``(entity, (relation, relation, -2))``; or nodes
side by side, which are an intersection; or nodes with a row of steps behind them, where -1 in the
first place makes them a union. A step is a relation to follow, or -2: not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import count, product, repeat
from typing import Any

import numpy as np

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers.betae import STRUCTURES, Structure
from knowledge_sheaves.query.pattern import Edge, Entity, Pattern, Query, RelationId, Variable

UNION, NOT = -1, -2
TARGET = Variable("?x")
NOTHING = Pattern(())


def from_betae(query: Structure) -> Query:
    """Turn one of the benchmark's queries into a query with the target ``?x``.

    Unions come out on top, negations within: a double one cancels, that of a union is two, that of
    an intersection stays one ("not both").

    >>> query = from_betae(((7, (0, 1)), (8, (2, -2))))
    >>> query.patterns[0].edges
    (Edge(head=7, relation=0, tail='?y1'), Edge(head='?y1', relation=1, tail='?x'))
    >>> query.patterns[0].without[0].edges
    (Edge(head=8, relation=2, tail='?x'),)
    """
    patterns = _node(query, TARGET, (Variable(f"?y{number}") for number in count(1)), query)
    return Query((TARGET,), tuple(patterns))


def template(name: str) -> Query:
    """Return the shape of a query type of the benchmark, or of a path: "5p" follows 5 relations.

    Its entities and relations are placeholders, numbered from 0.

    >>> template("2i").patterns[0].edges
    (Edge(head=0, relation=0, tail='?x'), Edge(head=1, relation=1, tail='?x'))
    >>> len(template("7p").patterns[0].edges)
    7
    """
    aliases = {"2u": "2u-DNF", "up": "up-DNF"}
    structure = STRUCTURES.get(aliases.get(name, name))
    if structure is None and name[-1:] == "p" and name[:-1].isdecimal() and int(name[:-1]):
        structure = ("e", ("r",) * int(name[:-1]))
    if structure is None:
        known = ", ".join([*STRUCTURES, *aliases])
        raise InputError(f"There is no query type {name!r}: give a path as '4p', or {known}.")
    numbers = {"e": count(), "r": count(), "u": repeat(UNION), "n": repeat(NOT)}
    return from_betae(_fill(structure, numbers))


def _fill(structure: Any, numbers: dict[str, Iterator[int]]) -> Any:
    if isinstance(structure, str):
        return next(numbers[structure])
    return tuple(_fill(part, numbers) for part in structure)


def _node(node: Any, at: Variable, fresh: Iterator[Variable], whole: Structure) -> list[Pattern]:
    """Return the alternatives that say that ``at`` is an answer of a node."""
    if not isinstance(node, tuple) or len(node) < 2:
        raise InputError(f"{node!r} is no part of a BetaE query: {whole!r}.")
    *parts, steps = node
    if not _is_steps(steps):
        return _all(_node(part, at, fresh, whole) for part in node)
    return _steps(parts, steps, at, fresh, whole)


def _is_steps(part: Any) -> bool:
    return isinstance(part, tuple) and all(isinstance(step, int) for step in part)


def _steps(
    parts: list[Any],
    steps: tuple[int, ...],
    at: Variable,
    fresh: Iterator[Variable],
    whole: Structure,
) -> list[Pattern]:
    """Return the alternatives for nodes, or an entity, with steps behind: the last step first."""
    if not steps:
        return _all(_node(part, at, fresh, whole) for part in parts)
    *before, last = steps
    rest = tuple(before)
    if last == NOT:
        return _not(_steps(parts, rest, at, fresh, whole))
    if last == UNION and not rest:
        return [pattern for part in parts for pattern in _node(part, at, fresh, whole)]
    if last < 0:
        raise InputError(f"The step {last} has no meaning where it stands in {whole!r}.")
    if len(parts) == 1 and isinstance(parts[0], int) and not rest:
        return [Pattern((Edge(Entity(parts[0]), RelationId(last), at),))]
    middle = next(fresh)
    edge = Edge(middle, RelationId(last), at)
    reached = _steps(parts, rest, middle, fresh, whole)
    return [Pattern((*pattern.edges, edge), pattern.without) for pattern in reached]


def _all(branches: Iterable[list[Pattern]]) -> list[Pattern]:
    """Distribute an intersection of unions: a union of intersections."""
    return [reduce(_both, branch, NOTHING) for branch in product(*branches)]


def _both(first: Pattern, second: Pattern) -> Pattern:
    return Pattern(first.edges + second.edges, first.without + second.without)


def _not(alternatives: list[Pattern]) -> list[Pattern]:
    """None of the alternatives holds; what only forbids turns into what it forbade."""
    return _all(
        [Pattern((), (pattern,))] if pattern.edges else list(pattern.without)
        for pattern in alternatives
    )


def smaller_and_larger(data: Dataset, split: str) -> tuple[KnowledgeGraph, KnowledgeGraph]:
    """Return what is known before a split, which gives the easy answers, and with it.

    >>> train = KnowledgeGraph.from_triples([("a", "r", "b")], entities="abc")
    >>> data = Dataset(train, valid=train.with_triples([("b", "r", "c")]))
    >>> [graph.num_triples for graph in smaller_and_larger(data, "valid")]
    [1, 2]
    """
    names = list(data.splits)
    if split not in names[1:]:
        raise InputError(f"Hard answers come from one of {names[1:]}, not from {split!r}.")
    triples = [data.splits[name].triples for name in names[: names.index(split) + 1]]
    smaller, larger = np.concatenate(triples[:-1]), np.concatenate(triples)
    return data.train.with_triples(smaller).closed, data.train.with_triples(larger).closed

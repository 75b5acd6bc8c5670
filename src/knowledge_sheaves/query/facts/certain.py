"""What remembered facts make certain, whatever the cut to the best candidates leaves of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.errors import SheafError
from knowledge_sheaves.graph import IntArray, KnowledgeGraph
from knowledge_sheaves.query.facts.symbolic import answers
from knowledge_sheaves.query.pattern import Pattern, Query, Term, connected_variables
from knowledge_sheaves.query.solvers.chaining.plan import filled

MOST_ROWS = 10_000_000
"""How many ways through the facts are listed for a query."""
MOST_DENIED = 1_000_000
"""The same for a part that is negated, which may have nothing known to start from."""


def certain(
    graph: KnowledgeGraph, queries: Sequence[Query], most_rows: int = MOST_ROWS
) -> tuple[Tensor, Tensor]:
    """What remembered facts make certain: rows of queries, and of the entities of their targets.

    A pattern without negation holds with probability 1 where all of its edges are facts, and so
    does a union with such a pattern.

    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "s", "c")])
    >>> query = Query.from_triples([("a", "r", "?y"), ("?y", "s", "?x")], "?x", graph)
    >>> certain(graph, [query])
    (tensor([0]), tensor([[2]]))
    """
    positive = [tuple(p for p in query.patterns if not p.without) for query in queries]
    places = [place for place, patterns in enumerate(positive) if patterns]
    asked = [Query(queries[place].targets, positive[place]) for place in places]
    distinct = {query: number for number, query in enumerate(dict.fromkeys(asked))}
    found = _listed(graph, list(distinct), most_rows)
    each = [found[distinct[query]] for query in asked]
    width = len(queries[0].targets) if queries else 1
    ids = np.concatenate(
        [np.zeros((0, width), np.int64), *(one.reshape(-1, width) for one in each)]
    )
    rows = np.repeat(np.array(places, np.int64), [len(one) for one in each])
    return torch.from_numpy(rows), torch.from_numpy(ids.astype(np.int64))


def _listed(graph: KnowledgeGraph, queries: list[Query], most_rows: int) -> list[IntArray]:
    """The answers of every query; none of one with more ways than can be listed."""
    try:
        return list(answers(graph, queries, max_rows=most_rows))
    except SheafError:
        if len(queries) == 1:
            return [np.zeros(0, np.int64)]  # those that the search finds will do
        return [one for query in queries for one in _listed(graph, [query], most_rows)]


def certain_goals(
    graph: KnowledgeGraph, pattern: Pattern, goal: str | None, entities: Tensor, relations: Tensor
) -> tuple[Tensor, Tensor]:
    """What is certain of a negated part, whose ids are slots, in every row of a batch.

    Rows and the entities of its goal; without one, rows in which it is certain, and column 0.
    """
    slots = list(zip(entities.tolist(), relations.tolist(), strict=True))
    rows = goals = torch.zeros(0, dtype=torch.long)
    for number, (target, part) in enumerate(_parts(pattern, goal)):
        asked = [Query((target,), (filled(part, *row),)) for row in slots]
        mine, ids = certain(graph, asked, MOST_DENIED)
        if number:  # what nothing connects with the goal must hold as well
            kept = torch.isin(rows, mine)
            rows, goals = rows[kept], goals[kept]
        elif goal is None:
            rows = mine.unique()
            goals = torch.zeros_like(rows)
        else:
            rows, goals = mine, ids[:, 0]
    return rows, goals


def _parts(pattern: Pattern, goal: str | None) -> list[tuple[str, Pattern]]:
    """The parts of a pattern that edges connect, each with a target, the goal's first.

    There are no parts to ask for where an inequality joins them, or something is negated in them.

    >>> from knowledge_sheaves.query.pattern import Edge
    >>> pattern = Pattern((Edge(0, 0, "?y"), Edge(1, 1, "?x"), Edge("?x", 2, "?z")))
    >>> [(target, len(part.edges)) for target, part in _parts(pattern, "?z")]
    [('?z', 2), ('?y', 1)]
    """
    groups = connected_variables(pattern)
    groups.sort(key=lambda group: goal not in group)

    def where(terms: Sequence[Term]) -> set[int]:
        """The parts that terms are of; known entities alone go with the first."""
        named = {term for term in terms if isinstance(term, str)}
        return {n for n, group in enumerate(groups) if group & named} or {0}

    if pattern.without or any(len(where(pair)) > 1 for pair in pattern.different):
        return []
    return [
        (
            goal if goal is not None and goal in group else min(group),
            replace(
                pattern,
                edges=tuple(edge for edge in pattern.edges if n in where(edge.terms)),
                different=tuple(pair for pair in pattern.different if n in where(pair)),
                bindings=tuple(each for each in pattern.bindings if n in where(each[:1])),
            ),
        )
        for n, group in enumerate(groups)
    ]

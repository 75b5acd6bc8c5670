"""What remembered facts make certain, whatever the cut to the best candidates leaves of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.graph import IntArray, KnowledgeGraph
from knowledge_sheaves.query.budget import Budget, OutOfBudget
from knowledge_sheaves.query.facts.symbolic import MOST_ROWS, answers
from knowledge_sheaves.query.pattern import (
    Pattern,
    Query,
    Term,
    Variable,
    connected_variables,
    variables_of,
)

MOST_DENIED = 1_000_000
"""How many rows are listed for a part that is negated, which may have nothing to start from."""


@dataclass(frozen=True, eq=False)
class KnownFacts:
    """What a graph answers, each query once: a question asks for the same more than once."""

    graph: KnowledgeGraph
    budget: Budget = field(default_factory=Budget)
    _found: dict[Query, IntArray | None] = field(default_factory=dict)

    def answers(
        self, queries: Sequence[Query], most_rows: int = MOST_ROWS
    ) -> list[IntArray | None]:
        """The answers of each query; None where they are too many to list."""
        new = [query for query in dict.fromkeys(queries) if query not in self._found]
        self._found.update(zip(new, self._list(new, most_rows), strict=True))
        return [self._found[query] for query in queries]

    def _list(self, queries: list[Query], most_rows: int) -> list[IntArray | None]:
        if not queries:
            return []
        self.budget.check_time()
        try:
            return list(answers(self.graph, queries, max_rows=most_rows, budget=self.budget))
        except OutOfBudget:
            self.budget.check_time()  # a query that has no time left has no facts left either
            if len(queries) == 1:
                return [None]
            half = len(queries) // 2
            return self._list(queries[:half], most_rows) + self._list(queries[half:], most_rows)

    def certain(
        self, queries: Sequence[Query], most_rows: int = MOST_ROWS
    ) -> tuple[Tensor, Tensor]:
        """What facts make certain: rows of queries, and of the entities of their targets.

        A pattern without negation holds with probability 1 where all of its edges are facts, and
        so does a union with such a pattern. What is too much to list is left to the search.

        >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "s", "c")])
        >>> query = Query.from_triples([("a", "r", "?y"), ("?y", "s", "?x")], "?x", graph)
        >>> KnownFacts(graph).certain([query])
        (tensor([0]), tensor([[2]]))
        """
        positive = [tuple(p for p in query.patterns if not p.without) for query in queries]
        places = [place for place, patterns in enumerate(positive) if patterns]
        asked = [Query(queries[place].targets, positive[place]) for place in places]
        width = len(queries[0].targets) if queries else 1
        nothing = np.zeros((0, width), np.int64)
        each = [
            nothing if found is None else found.reshape(-1, width)
            for found in self.answers(asked, most_rows)
        ]
        ids = np.concatenate([nothing, *each]).astype(np.int64)
        rows = np.repeat(np.array(places, np.int64), [len(one) for one in each])
        return torch.from_numpy(rows), torch.from_numpy(ids)

    def certain_goals(
        self, pattern: Pattern, goal: Variable | None, entities: Tensor, relations: Tensor
    ) -> tuple[Tensor, Tensor]:
        """What is certain of a negated part, which has slots, in every row of a batch.

        Rows and the entities of its goal; without one, rows in which it is certain, and column 0.
        """
        slots = list(zip(entities.tolist(), relations.tolist(), strict=True))
        rows = goals = torch.zeros(0, dtype=torch.long)
        for number, (target, part) in enumerate(_parts(pattern, goal)):
            asked = [Query((target,), (part.filled(*row),)) for row in slots]
            mine, ids = self.certain(asked, MOST_DENIED)
            if number:  # what nothing connects with the goal must hold as well
                kept = torch.isin(rows, mine)
                rows, goals = rows[kept], goals[kept]
            elif goal is None:
                rows = mine.unique()
                goals = torch.zeros_like(rows)
            else:
                rows, goals = mine, ids[:, 0]
        return rows, goals


def _parts(pattern: Pattern, goal: Variable | None) -> list[tuple[Variable, Pattern]]:
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
        named = set(variables_of(terms))
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

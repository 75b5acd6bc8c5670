"""``ks:probability(?s, ?p, ?o)``: how likely a single fact is, in FILTER and BIND.

A function is called for one row at a time, and facts are scored best many at once. So the query
runs twice: the first time the arguments are collected, then they are scored, and the second time
all values are there. Where a value decides what is asked next, there is another round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from pyoxigraph import Literal, NamedNode

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.asking import Asker, queries_at_once, scores_of
from knowledge_sheaves.query.batches import slices
from knowledge_sheaves.query.budget import Budget
from knowledge_sheaves.query.full.predictions import NODE, _entity, node
from knowledge_sheaves.query.full.roles import PROBABILITY
from knowledge_sheaves.query.language.iris import name_of
from knowledge_sheaves.query.pattern import Edge, Entity, Pattern, Query, RelationId, Variable
from knowledge_sheaves.query.results import XSD
from knowledge_sheaves.query.shown import fact_chances
from knowledge_sheaves.query.types import TypeClash, possible_types

MOST_SCORED = 100_000
_ASKED = Variable("?.fact")

Fact = tuple[int, int, int]


class Functions:
    """Our functions for one query: what was asked of them, and what is known by now."""

    def __init__(self, asker: Asker, budget: Budget | None = None) -> None:
        self.asker, self.budget = asker, budget
        self.relations = {name: n for n, name in enumerate(asker.graph.schema.relation_names)}
        self.scored: dict[Fact, float | None] = {}
        self.waiting: dict[Fact, None] = {}
        self.too_many = False

    def by_name(self) -> dict[NamedNode, Callable[..., Any]]:
        """The functions as Oxigraph takes them."""
        return {NamedNode(PROBABILITY): self.probability, NamedNode(NODE): node}

    def probability(self, *terms: Any) -> Any:
        """The probability of a fact; unbound where the model does not know a name in it."""
        if len(terms) != 3:
            return None
        head, tail = _entity(terms[0], self.asker), _entity(terms[2], self.asker)
        relation = self.relations.get(name_of(terms[1].value)) if _is_iri(terms[1]) else None
        if head is None or tail is None or relation is None:
            return None
        fact = head, relation, tail
        if fact in self.scored:
            value = self.scored[fact]
            return None if value is None else Literal(repr(value), datatype=_DOUBLE)
        if len(self.waiting) < MOST_SCORED:
            self.waiting[fact] = None
        else:
            self.too_many = True
        return None

    @torch.no_grad()
    def score(self) -> bool:
        """Score what is waiting; return whether there was something."""
        if self.too_many:
            raise InputError(
                f"ks:probability is asked for more than {MOST_SCORED:,} facts: bind fewer."
            )
        facts, self.waiting = list(self.waiting), {}
        tails: dict[tuple[int, int], list[int]] = {}
        for head, relation, tail in facts:
            tails.setdefault((head, relation), []).append(tail)
        self.scored |= dict.fromkeys(facts, None)
        self._score(tails)
        return bool(facts)

    def _score(self, tails: dict[tuple[int, int], list[int]]) -> None:
        asked = {pair: self._query(*pair) for pair in tails}
        pairs = [pair for pair in tails if asked[pair] is not None]
        for head, relation in tails.keys() - set(pairs):  # types rule them out
            self.scored |= {(head, relation, tail): 0.0 for tail in tails[head, relation]}
        solver = self.asker.options.start(self.asker.model, self.budget)
        for part in slices(len(pairs), queries_at_once(self.asker.model, solver.budget)):
            group = pairs[part]
            queries = [query for pair in group if (query := asked[pair]) is not None]
            solver.check(queries)
            chances = scores_of(solver, queries).probabilities
            if chances is None:
                return
            for row, pair in enumerate(group):
                raw = chances[row, tails[pair]].cpu()
                found = fact_chances(solver, *pair, tails[pair], raw)
                for tail, p in zip(tails[pair], found, strict=True):
                    self.scored[*pair, tail] = p

    def _query(self, head: int, relation: int) -> Query | None:
        pattern = Pattern((Edge(Entity(head), RelationId(relation), _ASKED),))
        try:
            possible_types(pattern, self.asker.typed)
        except TypeClash:
            return None
        return Query((_ASKED,), (pattern,))


_DOUBLE = NamedNode(f"{XSD}double")


def _is_iri(term: Any) -> bool:
    return isinstance(term, NamedNode)

"""Draw grounded queries of any shape, by the BetaE benchmark's method.

A query is grounded backwards from a random answer in the larger graph: each edge takes a random
relation at the end that is known already, then a random triple of it. Branches that must not hold
are grounded from the same answer, so that they withdraw something. Then both graphs are asked, and
a query stays that has answers only the larger one gives.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np
import numpy.typing as npt

from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.graph import BoolArray, IntArray, KnowledgeGraph
from knowledge_sheaves.query.facts.symbolic import SymbolicAnswers, answers
from knowledge_sheaves.query.language.betae import template
from knowledge_sheaves.query.pattern import (
    Edge,
    Entity,
    Pattern,
    Query,
    Relation,
    RelationId,
    Term,
    Variable,
)

# A shape that no draw in so many fits is one that the graph hardly has.
TRIES_PER_QUERY, LEAST_TRIES = 1_000, 20_000
LARGEST_DRAW = 5_000
MOST_DRAWN = 1_000_000
"""So many draws are remembered, to be left out when they come again."""
# Whoever takes what there is does not wait for the last ones: a draw that brings fewer is the last.
TRIES_FOR_ANOTHER = 2_000


Alike = Callable[[Query, IntArray], Hashable]
"""What of a query, given its hard answers, tells it from those that say the same."""


@dataclass(frozen=True)
class SampledQueries:
    """Queries with the answers of the smaller graph, and those that only the larger one gives."""

    queries: list[Query]
    easy: SymbolicAnswers
    hard: SymbolicAnswers


def sample_queries(
    graph: KnowledgeGraph,
    larger_graph: KnowledgeGraph,
    shape: Query | str,
    n: int,
    seed: int = 0,
    *,
    max_answers: int = 100,
    inverses: npt.ArrayLike | None = None,
    alike: Alike | None = None,
    at_most: bool = False,
) -> SampledQueries:
    """Draw n distinct queries of a shape: a type of the benchmark, "5p", or any query.

    The entities and relations of a query that is given are placeholders: equal ones are drawn
    equal. Each query has a hard answer, at most ``max_answers`` of them, and, where something must
    not hold, also between 1 and ``max_answers`` answers of the smaller graph that the larger one
    withdraws. ``inverses`` tells for each relation its inverse (-1: none); no relation is then
    followed by its own inverse. Of queries for which ``alike``, given their hard answers, is equal
    one is drawn. Where there are fewer than n, that is an error, unless ``at_most`` so many are
    asked for.

    >>> train = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "s", "c")], entities="abcd")
    >>> larger = train.with_triples([("a", "r", "b"), ("b", "s", "c"), ("b", "s", "d")])
    >>> drawn = sample_queries(train, larger, "2p", 1)
    >>> drawn.queries[0].patterns[0].edges[0]
    Edge(head=0, relation=0, tail='?y1')
    >>> drawn.easy[0].tolist(), drawn.hard[0].tolist()
    ([2], [3])
    """
    asked = template(shape) if isinstance(shape, str) else shape
    rng = np.random.default_rng(seed)
    draws = _Grounding(larger_graph, asked, inverses)
    kept: dict[Hashable, Query] = {}
    tries, most = 0, max(TRIES_PER_QUERY * n, LEAST_TRIES)
    while len(kept) < n:
        if tries >= most:
            if at_most:
                break
            raise SheafError(
                f"Only {len(kept)} of {n} queries were found in {tries} draws: the larger graph "
                "adds too few answers to this shape; ask for fewer or raise max_answers."
            )
        rate, before = (len(kept) + 1) / (tries + 10), len(kept)
        size = min(int((n - len(kept)) / rate) + 1, LARGEST_DRAW)
        tries += size
        for query, missing in _good(draws.draw(size, rng), graph, larger_graph, max_answers):
            kept.setdefault(alike(query, missing) if alike else query, query)
        if at_most and tries >= LEAST_TRIES and TRIES_FOR_ANOTHER * (len(kept) - before) < size:
            break
    queries = list(kept.values())[:n]
    easy = answers(graph, queries)
    return SampledQueries(queries, easy, answers(larger_graph, queries).minus(easy))


def _good(
    queries: list[Query], graph: KnowledgeGraph, larger_graph: KnowledgeGraph, most: int
) -> Iterator[tuple[Query, IntArray]]:
    """The queries that may stay, with their hard answers."""
    easy, after = answers(graph, queries), answers(larger_graph, queries)
    hard, withdrawn = after.minus(easy), easy.minus(after).counts
    least = np.array([query.is_negated for query in queries], np.int64)
    fine = (hard.counts >= 1) & (hard.counts <= most) & (withdrawn >= least) & (withdrawn <= most)
    for place in np.flatnonzero(fine).tolist():
        yield queries[place], hard[place]


class _Facts:
    """Triples by the names of relations, arranged so that a random one with given ends is found."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        whole = graph.by_name
        heads, relations, tails = whole.triples.T.astype(np.int64)
        self.num_relations, self.num_entities = whole.num_relations, whole.num_entities
        self.entities = np.unique(np.concatenate((heads, tails)))
        self.outgoing = self._index(heads, relations, tails)
        self.incoming = self._index(tails, relations, heads)
        pairs = heads * self.num_entities + tails
        order = np.argsort(pairs, kind="stable")
        self.pairs, self.between = pairs[order], relations[order]

    def _index(self, near: IntArray, relations: IntArray, far: IntArray) -> tuple[IntArray, ...]:
        keys = near * self.num_relations + relations
        order = np.argsort(keys, kind="stable")
        return np.unique(keys), keys[order], far[order]

    def relation_at(
        self, index: tuple[IntArray, ...], near: IntArray, rng: np.random.Generator
    ) -> tuple[IntArray, BoolArray]:
        """Draw a relation at each entity, every one equally likely however many triples it has."""
        first = near * self.num_relations
        places, found = _pick(index[0], first, first + self.num_relations, rng)
        return index[0][places] % self.num_relations, found

    def other_end(
        self,
        index: tuple[IntArray, ...],
        near: IntArray,
        relations: IntArray,
        rng: np.random.Generator,
    ) -> tuple[IntArray, BoolArray]:
        """Draw an entity at the other end of a relation."""
        key = near * self.num_relations + relations
        places, found = _pick(index[1], key, key + 1, rng)
        return index[2][places], found

    def relation_between(
        self, heads: IntArray, tails: IntArray, rng: np.random.Generator
    ) -> tuple[IntArray, BoolArray]:
        """Draw a relation from heads to tails."""
        key = heads * self.num_entities + tails
        places, found = _pick(self.pairs, key, key + 1, rng)
        return self.between[places], found


def _pick(
    keys: IntArray, low: IntArray, high: IntArray, rng: np.random.Generator
) -> tuple[IntArray, BoolArray]:
    """Draw, for each range, a place where the sorted keys are within; tell where there is any."""
    starts, stops = np.searchsorted(keys, low), np.searchsorted(keys, high)
    places = rng.integers(starts, np.maximum(stops, starts + 1))
    return np.minimum(places, len(keys) - 1), stops > starts


class _Grounding:
    """One shape, ready to be grounded many times at once."""

    def __init__(self, graph: KnowledgeGraph, query: Query, inverses: npt.ArrayLike | None) -> None:
        self.query = query
        self.facts = _Facts(graph)
        self.drawn: set[bytes] = set()
        self.inverses = None if inverses is None else np.asarray(inverses)
        if not len(self.facts.entities):
            raise InputError("There is nothing to draw queries from: the larger graph is empty.")
        if self.inverses is not None and len(self.inverses) != self.facts.num_relations:
            raise InputError(
                f"Give an inverse, or -1, to each of the {self.facts.num_relations} relations, "
                f"not to {len(self.inverses)}."
            )
        self.edges = list(_outwards(query))

    def draw(self, size: int, rng: np.random.Generator) -> list[Query]:
        """Ground the shape from random answers; what finds no triple, degenerates or was drawn
        before is left out.
        """
        terms: dict[Term, IntArray] = {self.query.targets[0]: rng.choice(self.facts.entities, size)}
        relations: dict[int, IntArray] = {}
        fine = np.ones(size, np.bool_)
        for edge in self.edges:
            fine &= self._ground(edge, terms, relations, rng)
        self._name_the_rest(terms, size, rng)
        rows = self._new(fine & ~self._degenerate(terms, relations, size), terms, relations)
        entities = {term: values[rows].tolist() for term, values in terms.items()}
        names = {relation: values[rows].tolist() for relation, values in relations.items()}
        return [self._fill(entities, names, row) for row in range(len(rows))]

    def _new(
        self, fine: BoolArray, terms: dict[Term, IntArray], relations: dict[int, IntArray]
    ) -> list[int]:
        """The fine ones that were not drawn before."""
        named = [values for term, values in terms.items() if not isinstance(term, Variable)]
        ids = np.stack([*named, *relations.values()], axis=1)
        places = np.flatnonzero(fine).tolist()
        first = {
            one: row for row in reversed(places) if (one := ids[row].tobytes()) not in self.drawn
        }
        if len(self.drawn) < MOST_DRAWN:
            self.drawn.update(first)
        return sorted(first.values())

    def _fill(
        self, entities: dict[Term, list[int]], names: dict[int, list[int]], row: int
    ) -> Query:
        def term(given: Term) -> Term:
            return given if isinstance(given, Variable) else Entity(entities[given][row])

        def relation(given: Relation) -> Relation:
            return RelationId(names[given][row])

        return self.query.map(term, relation)

    def _ground(
        self,
        edge: Edge,
        terms: dict[Term, IntArray],
        relations: dict[int, IntArray],
        rng: np.random.Generator,
    ) -> BoolArray:
        """Draw what is open of an edge; tell where there was something to draw."""
        facts, found = self.facts, np.ones(1, np.bool_)
        if edge.head in terms and edge.tail in terms:
            if edge.relation not in relations:
                relations[edge.relation], found = facts.relation_between(
                    terms[edge.head], terms[edge.tail], rng
                )
            # Where all is drawn already, the answers will tell whether the edge holds.
            return found
        near, far, index = (
            (edge.tail, edge.head, facts.incoming)
            if edge.tail in terms
            else (edge.head, edge.tail, facts.outgoing)
        )
        if edge.relation not in relations:
            relations[edge.relation], found = facts.relation_at(index, terms[near], rng)
        terms[far], there = facts.other_end(index, terms[near], relations[edge.relation], rng)
        return found & there

    def _name_the_rest(
        self, terms: dict[Term, IntArray], size: int, rng: np.random.Generator
    ) -> None:
        """Give entities to placeholders that no edge has: those of named and of other variables."""
        for pattern in _all_patterns(self.query):
            for variable, entity in pattern.bindings:
                terms.setdefault(entity, terms[variable])
            for term in (end for pair in pattern.different for end in pair):
                if term not in terms:
                    terms[term] = rng.choice(self.facts.entities, size)

    def _degenerate(
        self, terms: dict[Term, IntArray], relations: dict[int, IntArray], size: int
    ) -> BoolArray:
        """Tell where two edges became the same, or one is followed by its inverse."""
        wrong = np.zeros(size, np.bool_)
        for one, other in combinations(self.edges, 2):
            same = relations[one.relation] == relations[other.relation]
            for first, second in zip(one.terms, other.terms, strict=True):
                constants = isinstance(first, Entity) and isinstance(second, Entity)
                same = same & (terms[first] == terms[second] if constants else first == second)
            wrong |= same
        if self.inverses is not None:
            for one, other in permutations(self.edges, 2):
                if isinstance(one.tail, Variable) and one.tail == other.head:
                    wrong |= self.inverses[relations[one.relation]] == relations[other.relation]
        return wrong


def _all_patterns(query: Query) -> Iterator[Pattern]:
    for pattern in query.patterns:
        yield from pattern.walk()


def _outwards(query: Query) -> Iterator[Edge]:
    """Order the distinct edges so that each hangs at the first target or at one before it."""
    left = list(dict.fromkeys(edge for pattern in _all_patterns(query) for edge in pattern.edges))
    reached: set[Term] = {query.targets[0]}
    while left:
        edge = next((edge for edge in left if reached & set(edge.terms)), None)
        if edge is None:
            raise InputError(
                f"A shape to draw from hangs together, but nothing leads from {query.targets[0]} "
                f"to {left[0].terms}."
            )
        left.remove(edge)
        reached |= set(edge.terms)
        yield edge

"""What the known triples answer, exactly: joins over the graph's index, one shape at a time.

The bindings of a batch are columns: the number of the query, and the entity of each variable that
is still needed. Edges extend or filter them; what is no longer needed is dropped at once and
repeats with it, so that a path or a tree never holds more than the distinct entities of one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import BoolArray, IntArray, KnowledgeGraph
from knowledge_sheaves.graph.arrays import gather_slices, offsets_of
from knowledge_sheaves.query.batches import Batch, batches
from knowledge_sheaves.query.budget import Budget, OutOfBudget
from knowledge_sheaves.query.pattern import Edge, Pattern, Query, Term, Variable, variables_of

# Batches beyond this are split: larger ones only cost memory.
BATCH_ROWS = 1_000_000
MOST_ROWS = 10_000_000
"""How many rows a join of one query may have, whatever the memory."""


@dataclass(frozen=True)
class SymbolicAnswers:
    """The sorted answers of each query: ids, or rows of ids where there are several targets.

    ``ids[offsets[i]:offsets[i + 1]]`` is what ``answers[i]`` gives.
    """

    ids: IntArray
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, query: int) -> IntArray:
        if not -len(self) <= query < len(self):
            raise IndexError(f"There are {len(self)} queries, and none at place {query}.")
        place = query % len(self)
        return self.ids[self.offsets[place] : self.offsets[place + 1]]

    def __iter__(self) -> Iterator[IntArray]:
        return (self[place] for place in range(len(self)))

    @property
    def counts(self) -> IntArray:
        """How many answers each query has."""
        return np.diff(self.offsets)

    def minus(self, other: SymbolicAnswers) -> SymbolicAnswers:
        """Return, query by query, the answers that are not among the other's.

        >>> all_of_them = SymbolicAnswers(np.array([3, 4, 3]), np.array([0, 2, 3]))
        >>> easy = SymbolicAnswers(np.array([4]), np.array([0, 1, 1]))
        >>> [part.tolist() for part in all_of_them.minus(easy)]
        [[3], [3]]
        """
        mine, others = self._rows, other._rows
        width = 1 + max((int(rows.max()) for rows in (mine, others) if rows.size), default=0)
        left = ~_contains_rows(others, mine, [len(self), *[width] * (mine.shape[1] - 1)])
        counts = np.bincount(mine[left, 0], minlength=len(self))
        return SymbolicAnswers(self.ids[left], offsets_of(counts))

    @property
    def _rows(self) -> IntArray:
        return np.column_stack((np.repeat(np.arange(len(self)), self.counts), self.ids))


def answers(
    graph: KnowledgeGraph,
    queries: Sequence[Query],
    *,
    max_rows: int = MOST_ROWS,
    budget: Budget | None = None,
) -> SymbolicAnswers:
    """Answer queries by what the graph knows; a join of one query has at most ``max_rows`` rows.

    Rows also keep to the budget, where there is one, and a query that would not is an error.

    >>> graph = KnowledgeGraph.from_triples(
    ...     [("Julia", "friends", "Sachin"), ("Sachin", "favorite movie", "Star Wars")])
    >>> query = Query.from_triples(
    ...     [("Julia", "friends", "?y"), ("?y", "favorite movie", "?x")], "?x", graph)
    >>> graph.entities.names(answers(graph, [query])[0])
    ['Star Wars']
    """
    widths = {len(query.targets) for query in queries}
    if len(widths) > 1:
        raise InputError(
            f"Queries that are answered together have equally many targets, not {sorted(widths)}."
        )
    width = widths.pop() if widths else 1
    found: list[IntArray] = [np.zeros((0, 1 + width), np.int64)]
    whole = graph.by_name
    for batch in batches(queries):
        batch.check(whole)
        join = _Join(whole, batch, max_rows, budget or Budget(memory=2**62))
        found += join.rows(np.arange(len(batch.queries)))
    rows = _distinct_rows(np.concatenate(found), len(queries), graph.num_entities)
    offsets = offsets_of(np.bincount(rows[:, 0], minlength=len(queries)))
    return SymbolicAnswers(rows[:, 1] if width == 1 else rows[:, 1:], offsets)


class _TooManyRows(Exception):
    """A join would go beyond the limit; with fewer queries at a time it may not."""


@dataclass(frozen=True)
class _Bindings:
    """Rows without repeats: the member of the batch, and the entity of each bound variable."""

    members: IntArray
    columns: Mapping[Variable, IntArray]

    def __len__(self) -> int:
        return len(self.members)

    def take(self, rows: IntArray | BoolArray) -> _Bindings:
        return _Bindings(
            self.members[rows], {name: column[rows] for name, column in self.columns.items()}
        )

    def bind(self, variable: Variable, values: IntArray) -> _Bindings:
        return _Bindings(self.members, {**self.columns, variable: values})

    def table(self, variables: Iterable[Variable]) -> IntArray:
        return np.stack((self.members, *(self.columns[name] for name in variables)), axis=1)


def _vars(terms: Iterable[Term]) -> frozenset[Variable]:
    return frozenset(variables_of(terms))


class _Join:
    """The answers of one batch."""

    def __init__(self, graph: KnowledgeGraph, batch: Batch, max_rows: int, budget: Budget) -> None:
        self.graph = graph
        self.batch = batch
        self.budget = budget
        # The columns of a step before and after it, and what sorting them takes.
        bytes_a_row = 8 * (2 * len(batch.shape.all_variables) + 8)
        self.max_rows = self.limit = min(max_rows, budget.memory // bytes_a_row)

    def rows(self, members: IntArray) -> list[IntArray]:
        """Return rows of query and targets; too many at once are halved, one is an error."""
        self.limit = self.max_rows if len(members) == 1 else min(self.max_rows, BATCH_ROWS)
        try:
            found = self.solve(self.batch.shape, _Bindings(members, {}), _vars(self.batch.targets))
        except _TooManyRows:
            if len(members) == 1:
                raise OutOfBudget(
                    f"Query {self.batch.queries[members[0]]} needs more than {self.max_rows} rows "
                    "in one join; ask for something narrower or raise the memory limit."
                ) from None
            half = len(members) // 2
            return self.rows(members[:half]) + self.rows(members[half:])
        table = found.table(self.batch.targets)
        table[:, 0] = self.batch.queries[found.members]
        return [table]

    def solve(self, pattern: Pattern, bound: _Bindings, keep: frozenset[Variable]) -> _Bindings:
        """Extend what is bound by all that a pattern asks, and keep some of the variables."""
        inherited = frozenset(bound.columns)
        for variable, entity in pattern.bindings:
            bound = self._name(bound, variable, entity)
        positive = _vars(pattern.own_terms()) | inherited
        edges, different, without = (
            list(pattern.edges),
            list(pattern.different),
            [(inner, _vars(inner.all_variables) & positive) for inner in pattern.without],
        )
        while True:
            self.budget.check_time()
            bound = self._filter(bound, edges, different, without)
            needed = keep.union(
                _vars(term for edge in edges for term in edge.terms),
                _vars(term for pair in different for term in pair),
                *(shared for _, shared in without),
            )
            bound = self._project(bound, needed)
            if not edges:
                break
            bound = self._extend(bound, edges)
        if different:
            raise InputError("A variable that must differ from another occurs in no edge.")
        return bound

    def _name(self, bound: _Bindings, variable: Term, entity: Term) -> _Bindings:
        """Let a variable be an entity; where it is bound already, keep the rows that agree."""
        assert isinstance(variable, Variable), "what is bound is a variable"
        values = self._values(bound, entity)
        if variable not in bound.columns:
            return bound.bind(variable, values)
        return bound.take(bound.columns[variable] == values)

    def _filter(
        self,
        bound: _Bindings,
        edges: list[Edge],
        different: list[tuple[Term, Term]],
        without: list[tuple[Pattern, frozenset[Variable]]],
    ) -> _Bindings:
        """Apply, and take off the lists, whatever speaks of bound variables only."""
        have = frozenset(bound.columns)
        for edge in [edge for edge in edges if _vars(edge.terms) <= have]:
            edges.remove(edge)
            bound = bound.take(self._holds(bound, edge))
        for pair in [pair for pair in different if _vars(pair) <= have]:
            different.remove(pair)
            bound = bound.take(self._values(bound, pair[0]) != self._values(bound, pair[1]))
        for negated in [negated for negated in without if negated[1] <= have]:
            without.remove(negated)
            bound = bound.take(~self._exists(bound, *negated))
        return bound

    def _exists(self, bound: _Bindings, inner: Pattern, shared: frozenset[Variable]) -> BoolArray:
        """Tell for which rows an inner pattern holds: solve it from the distinct shared values."""
        seeds = self._project(bound, shared)
        found = self.solve(inner, seeds, shared)
        names = sorted(shared)
        return _contains_rows(found.table(names), bound.table(names), self._sizes(names))

    def _values(self, bound: _Bindings, term: Term) -> IntArray:
        if isinstance(term, Variable):
            return bound.columns[term]
        return self.batch.entities[bound.members, term]

    def _holds(self, bound: _Bindings, edge: Edge) -> BoolArray:
        heads, tails = (self._values(bound, end) for end in edge.terms)
        relations = self.batch.relations[bound.members, edge.relation]
        return self.graph.contains(np.stack((heads, relations, tails), axis=1))

    def _extend(self, bound: _Bindings, edges: list[Edge]) -> _Bindings:
        """Follow the edge that leads to the fewest rows, and take it off the list."""
        steps = [_Step(self, bound, edge) for edge in edges]
        best = min(steps, key=lambda step: (step.open_ends, step.size))
        if best.size > self.limit:
            raise _TooManyRows
        edges.remove(best.edge)
        return best.follow()

    def _project(self, bound: _Bindings, needed: frozenset[Variable]) -> _Bindings:
        names = sorted(needed & bound.columns.keys())
        if len(names) == len(bound.columns):
            return bound
        columns = (bound.members, *(bound.columns[name] for name in names))
        _, rows = np.unique(_keys(columns, self._sizes(names)), return_index=True)
        return _Bindings(bound.members[rows], {name: bound.columns[name][rows] for name in names})

    def _sizes(self, names: Sequence[Variable]) -> list[int]:
        return [len(self.batch.queries), *[self.graph.num_entities] * len(names)]


class _Step:
    """What following an edge from bound rows would give; counted first, so it can be refused."""

    def __init__(self, join: _Join, bound: _Bindings, edge: Edge) -> None:
        self.graph, self.bound, self.edge = join.graph, bound, edge
        self.open_ends = len(_vars(edge.terms) - bound.columns.keys())
        self.heads, self.tails = (
            None
            if isinstance(end, Variable) and end not in bound.columns
            else join._values(bound, end)
            for end in edge.terms
        )
        self.relations = join.batch.relations[bound.members, edge.relation]

    @cached_property
    def size(self) -> int:
        """How many rows there would be."""
        graph = self.graph
        if self.heads is not None:
            return int(graph.out_degree(self.heads, self.relations).sum())
        if self.tails is not None:
            return int(graph.in_degree(self.relations, self.tails).sum())
        return int(np.diff(graph.by_relation[1])[self.relations].sum())

    def follow(self) -> _Bindings:
        """Return the extended rows."""
        graph, (head, tail) = self.graph, self.edge.terms
        if self.heads is not None:
            return self._bind(tail, *graph.tails_many(self.heads, self.relations))
        if self.tails is not None:
            return self._bind(head, *graph.heads_many(self.relations, self.tails))
        order, starts = graph.by_relation
        slices = starts[self.relations], starts[self.relations + 1]
        places, offsets = gather_slices(order, *slices)
        heads, _, tails = graph.triples[places].T
        if head != tail:
            return _bound(self._bind(head, heads, offsets), tail, tails)
        return self._bind(head, heads, offsets).take(heads == tails)

    def _bind(self, term: Term, ids: IntArray, offsets: IntArray) -> _Bindings:
        rows = np.repeat(np.arange(len(self.bound)), np.diff(offsets))
        return _bound(self.bound.take(rows), term, ids)


def _bound(bound: _Bindings, term: Term, ids: IntArray) -> _Bindings:
    assert isinstance(term, Variable), "only the open ends of an edge are bound"
    return bound.bind(term, ids)


def _keys(columns: Sequence[IntArray], sizes: Sequence[int]) -> IntArray:
    """Number rows so that they are equal, and ordered, as their keys are."""
    keys, span = columns[0].astype(np.int64), sizes[0]
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        if span * size >= 2**63:
            # The keys seen so far are fewer than the rows: count them instead of their span.
            seen, keys = np.unique(keys, return_inverse=True)
            span = len(seen)
        keys = keys * size + column
        span *= size
    return keys


def _distinct_rows(rows: IntArray, num_queries: int, num_entities: int) -> IntArray:
    sizes = [num_queries, *[num_entities] * (rows.shape[1] - 1)]
    _, places = np.unique(_keys(list(rows.T), sizes), return_index=True)
    return rows[places]


def _contains_rows(table: IntArray, rows: IntArray, sizes: Sequence[int]) -> BoolArray:
    """Tell which rows are in a table."""
    keys = _keys(list(np.concatenate((table, rows)).T), sizes)
    return np.isin(keys[len(table) :], keys[: len(table)])

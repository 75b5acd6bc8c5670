"""What the known triples answer, exactly: joins over the graph's index, one shape at a time.

The bindings of a batch are columns: the number of the query, and the entity of each variable that
is still needed. Edges extend or filter them; what is no longer needed is dropped at once and
repeats with it, so that a path or a tree never holds more than the distinct entities of one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.graph import BoolArray, IntArray, KnowledgeGraph, Schema
from knowledge_sheaves.graph.arrays import gather_slices, offsets_of
from knowledge_sheaves.query.batches import Batch, batches
from knowledge_sheaves.query.pattern import Query, Shape

# Batches beyond this are split: larger ones only cost memory.
BATCH_ROWS = 1_000_000

Slot: TypeAlias = tuple[str, int]
SlotEdge: TypeAlias = tuple[int, Slot, Slot]


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
    graph: KnowledgeGraph, queries: Sequence[Query], *, max_rows: int = 10_000_000
) -> SymbolicAnswers:
    """Answer queries by what the graph knows; a join of one query has at most ``max_rows`` rows.

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
    known = _Known(graph)
    for batch in batches(queries):
        batch.check(known.graph)
        found += _Join(known, batch, max_rows).rows(np.arange(len(batch.queries)))
    rows = _distinct_rows(np.concatenate(found), len(queries), graph.num_entities)
    offsets = offsets_of(np.bincount(rows[:, 0], minlength=len(queries)))
    return SymbolicAnswers(rows[:, 1] if width == 1 else rows[:, 1:], offsets)


class _TooManyRows(Exception):
    """A join would go beyond the limit; with fewer queries at a time it may not."""


@dataclass(frozen=True)
class _Bindings:
    """Rows without repeats: the member of the batch, and the entity of each bound variable."""

    members: IntArray
    columns: Mapping[int, IntArray]

    def __len__(self) -> int:
        return len(self.members)

    def take(self, rows: IntArray | BoolArray) -> _Bindings:
        return _Bindings(
            self.members[rows], {name: column[rows] for name, column in self.columns.items()}
        )

    def bind(self, variable: int, values: IntArray) -> _Bindings:
        return _Bindings(self.members, {**self.columns, variable: values})

    def table(self, variables: Iterable[int]) -> IntArray:
        return np.stack((self.members, *(self.columns[name] for name in variables)), axis=1)


@dataclass(frozen=True)
class _Scope:
    """A pattern of a shape with its edges numbered as the batch's relations are."""

    edges: tuple[SlotEdge, ...]
    different: tuple[tuple[Slot, Slot], ...]
    bindings: tuple[tuple[Slot, Slot], ...]
    without: tuple[_Scope, ...]

    @classmethod
    def of(cls, shape: Shape, relations: Iterator[int]) -> _Scope:
        edges = tuple((next(relations), head, tail) for head, tail in shape.edges)
        without = tuple(cls.of(inner, relations) for inner in shape.without)
        return cls(edges, shape.different, shape.bindings, without)

    @cached_property
    def positive(self) -> frozenset[int]:
        named = _variables(variable for variable, _ in self.bindings)
        return named | _variables(slot for _, *ends in self.edges for slot in ends)

    @cached_property
    def variables(self) -> frozenset[int]:
        compared = _variables(slot for pair in self.different for slot in pair)
        return frozenset().union(self.positive, compared, *(s.variables for s in self.without))


def _variables(slots: Iterable[Slot]) -> frozenset[int]:
    return frozenset(number for kind, number in slots if kind == "v")


class _Join:
    """The answers of one batch."""

    def __init__(self, known: _Known, batch: Batch, max_rows: int) -> None:
        self.known = known
        self.graph = known.graph
        self.batch = batch
        self.max_rows = self.limit = max_rows
        self.scope = _Scope.of(batch.shape, iter(range(batch.relations.shape[1])))

    def rows(self, members: IntArray) -> list[IntArray]:
        """Return rows of query and targets; too many at once are halved, one is an error."""
        self.limit = self.max_rows if len(members) == 1 else min(self.max_rows, BATCH_ROWS)
        try:
            found = self.solve(self.scope, _Bindings(members, {}), frozenset(self.batch.targets))
        except _TooManyRows:
            if len(members) == 1:
                raise SheafError(
                    f"Query {self.batch.queries[members[0]]} needs more than {self.max_rows} rows "
                    "in one join; ask for something narrower or raise max_rows."
                ) from None
            half = len(members) // 2
            return self.rows(members[:half]) + self.rows(members[half:])
        table = found.table(self.batch.targets)
        table[:, 0] = self.batch.queries[found.members]
        return [table]

    def solve(self, scope: _Scope, bound: _Bindings, keep: frozenset[int]) -> _Bindings:
        """Extend what is bound by all that a pattern asks, and keep some of the variables."""
        inherited = frozenset(bound.columns)
        for variable, entity in scope.bindings:
            bound = self._name(bound, variable, entity)
        edges, different, without = (
            list(scope.edges),
            list(scope.different),
            [(inner, inner.variables & (scope.positive | inherited)) for inner in scope.without],
        )
        while True:
            bound = self._filter(bound, edges, different, without)
            needed = keep.union(
                _variables(slot for _, *ends in edges for slot in ends),
                _variables(slot for pair in different for slot in pair),
                *(shared for _, shared in without),
            )
            bound = self._project(bound, needed)
            if not edges:
                break
            bound = self._extend(bound, edges)
        if different:
            raise InputError("A variable that must differ from another occurs in no edge.")
        return bound

    def _name(self, bound: _Bindings, variable: Slot, entity: Slot) -> _Bindings:
        """Let a variable be an entity; where it is bound already, keep the rows that agree."""
        values = self._values(bound, entity)
        if variable[1] not in bound.columns:
            return bound.bind(variable[1], values)
        return bound.take(bound.columns[variable[1]] == values)

    def _filter(
        self,
        bound: _Bindings,
        edges: list[SlotEdge],
        different: list[tuple[Slot, Slot]],
        without: list[tuple[_Scope, frozenset[int]]],
    ) -> _Bindings:
        """Apply, and take off the lists, whatever speaks of bound variables only."""
        have = frozenset(bound.columns)
        for edge in [edge for edge in edges if _variables(edge[1:]) <= have]:
            edges.remove(edge)
            bound = bound.take(self._holds(bound, edge))
        for pair in [pair for pair in different if _variables(pair) <= have]:
            different.remove(pair)
            bound = bound.take(self._values(bound, pair[0]) != self._values(bound, pair[1]))
        for negated in [negated for negated in without if negated[1] <= have]:
            without.remove(negated)
            bound = bound.take(~self._exists(bound, *negated))
        return bound

    def _exists(self, bound: _Bindings, inner: _Scope, shared: frozenset[int]) -> BoolArray:
        """Tell for which rows an inner pattern holds: solve it from the distinct shared values."""
        seeds = self._project(bound, shared)
        found = self.solve(inner, seeds, shared)
        names = sorted(shared)
        return _contains_rows(found.table(names), bound.table(names), self._sizes(names))

    def _values(self, bound: _Bindings, slot: Slot) -> IntArray:
        kind, number = slot
        if kind == "v":
            return bound.columns[number]
        return self.batch.entities[bound.members, number]

    def _holds(self, bound: _Bindings, edge: SlotEdge) -> BoolArray:
        relation, *ends = edge
        heads, tails = (self._values(bound, end) for end in ends)
        relations = self.batch.relations[bound.members, relation]
        return self.graph.contains(np.stack((heads, relations, tails), axis=1))

    def _extend(self, bound: _Bindings, edges: list[SlotEdge]) -> _Bindings:
        """Follow the edge that leads to the fewest rows, and take it off the list."""
        steps = [_Step(self, bound, edge) for edge in edges]
        best = min(steps, key=lambda step: (step.open_ends, step.size))
        if best.size > self.limit:
            raise _TooManyRows
        edges.remove(best.edge)
        return best.follow()

    def _project(self, bound: _Bindings, needed: frozenset[int]) -> _Bindings:
        names = sorted(needed & bound.columns.keys())
        if len(names) == len(bound.columns):
            return bound
        columns = (bound.members, *(bound.columns[name] for name in names))
        _, rows = np.unique(_keys(columns, self._sizes(names)), return_index=True)
        return _Bindings(bound.members[rows], {name: bound.columns[name][rows] for name in names})

    def _sizes(self, names: Sequence[int]) -> list[int]:
        return [len(self.batch.queries), *[self.graph.num_entities] * len(names)]


class _Step:
    """What following an edge from bound rows would give; counted first, so it can be refused."""

    def __init__(self, join: _Join, bound: _Bindings, edge: SlotEdge) -> None:
        self.known, self.bound, self.edge = join.known, bound, edge
        relation, self.head, self.tail = edge
        self.open_ends = len(_variables(edge[1:]) - bound.columns.keys())
        self.heads, self.tails = (
            None if slot[0] == "v" and slot[1] not in bound.columns else join._values(bound, slot)
            for slot in (self.head, self.tail)
        )
        self.relations = join.batch.relations[bound.members, relation]

    @cached_property
    def size(self) -> int:
        """How many rows there would be."""
        graph = self.known.graph
        if self.heads is not None:
            return int(graph.out_degree(self.heads, self.relations).sum())
        if self.tails is not None:
            return int(graph.in_degree(self.relations, self.tails).sum())
        return int(self.known.counts[self.relations].sum())

    def follow(self) -> _Bindings:
        """Return the extended rows."""
        graph = self.known.graph
        if self.heads is not None:
            return self._bind(self.tail, *graph.tails_many(self.heads, self.relations))
        if self.tails is not None:
            return self._bind(self.head, *graph.heads_many(self.relations, self.tails))
        places, offsets = self.known.triples_of(self.relations)
        heads, _, tails = graph.triples[places].T
        if self.head != self.tail:
            return self._bind(self.head, heads, offsets).bind(self.tail[1], tails)
        return self._bind(self.head, heads, offsets).take(heads == tails)

    def _bind(self, slot: Slot, ids: IntArray, offsets: IntArray) -> _Bindings:
        rows = np.repeat(np.arange(len(self.bound)), np.diff(offsets))
        return self.bound.take(rows).bind(slot[1], ids)


class _Known:
    """A graph with whole relations, and where the triples of each relation are."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.graph = with_whole_relations(graph)

    @cached_property
    def counts(self) -> IntArray:
        """How many triples each relation has."""
        return np.bincount(self.graph.triples[:, 1], minlength=self.graph.num_relations)

    @cached_property
    def _order(self) -> IntArray:
        return np.argsort(self.graph.triples[:, 1], kind="stable")

    def triples_of(self, relations: IntArray) -> tuple[IntArray, IntArray]:
        """Return the places of the triples of many relations, and the offsets of each."""
        offsets = offsets_of(self.counts)
        return gather_slices(self._order, offsets[relations], offsets[relations + 1])


# Merging costs a sort of all triples, and a graph is asked again and again.
_whole: WeakKeyDictionary[KnowledgeGraph, KnowledgeGraph] = WeakKeyDictionary()


def with_whole_relations(graph: KnowledgeGraph) -> KnowledgeGraph:
    """Return the same triples with relations as users name them, not split by types.

    >>> types = {"Julia": "Person", "Sachin": "Person", "Fargo": "Film"}
    >>> graph = KnowledgeGraph.from_triples(
    ...     [("Julia", "likes", "Sachin"), ("Julia", "likes", "Fargo")], types=types)
    >>> graph.num_relations, with_whole_relations(graph).num_relations
    (2, 1)
    """
    names = graph.schema.relation_names
    if len(names) == graph.num_relations:
        return graph
    if graph not in _whole:
        place = {name: place for place, name in enumerate(names)}
        relations = np.array([place[relation.name] for relation in graph.schema.relations])
        heads, edges, tails = graph.triples.T
        _whole[graph] = KnowledgeGraph.from_arrays(
            *(heads, relations[edges], tails),
            schema=Schema.single(names),
            num_entities=graph.num_entities,
        )
    return _whole[graph]


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

"""Several targets by chaining: the likeliest combinations of real entities for all of them.

Edges point towards the last target, and the others are unknowns that are part of the answer. The
members of the best K combinations are each among the best K of their target's own maximum (all
else chosen as well as it can be), given the members before them; so one target after the other is
put in, and K combinations are kept. For one pattern nothing is missed beyond chaining's own cut to
k candidates of each variable. A union is the noisy or of its patterns: its candidates are the best
of each, and a combination that is none's may still be better than they are, unless the best that
it could be is too little.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from knowledge_sheaves.query.batches import Batch, batches, slices
from knowledge_sheaves.query.pattern import Query, Variable
from knowledge_sheaves.query.solvers.base import Combinations
from knowledge_sheaves.query.solvers.chaining.cycles import make_tables
from knowledge_sheaves.query.solvers.chaining.exists import BEST, either
from knowledge_sheaves.query.solvers.chaining.search import Search, Searcher
from knowledge_sheaves.query.solvers.chaining.tables import Table, largest, maximise

UNION = 4
"""How many times as many combinations of a union are looked at as are wanted."""


@dataclass
class _Candidates:
    """The combinations of one query with the log p of their best pattern, and what may be missed.

    ``beyond`` has, of each pattern, the log p that no combination left out exceeds.
    """

    found: dict[tuple[int, ...], float] = field(default_factory=dict)
    beyond: list[float] = field(default_factory=list)

    def add(self, ids: list[list[int]], values: list[float], count: int) -> None:
        self.beyond.append(values[-1] if len(values) == count else -math.inf)
        for combination, value in zip(map(tuple, ids), values, strict=True):
            if value > -math.inf:
                self.found[combination] = max(value, self.found.get(combination, value))

    def cut(self, count: int) -> None:
        """Leave out the least; each of their patterns may have had as much as the best of them."""
        order = sorted(self.found, key=self.found.__getitem__, reverse=True)
        if order[count:]:
            most = self.found[order[count]]
            self.beyond = [max(most, bound) for bound in self.beyond]
        self.found = {combination: self.found[combination] for combination in order[:count]}


def best_combinations(
    searcher: Searcher,
    queries: Sequence[Query],
    certain: Sequence[list[list[int]]],
    count: int,
    allowed: Tensor | None = None,
) -> list[Combinations]:
    """The ``count`` likeliest combinations of each query, with −log p for an energy.

    ``certain`` are those that remembered facts hold; ``allowed`` (entities) says who may be one.
    """
    searcher = replace(searcher, k=max(searcher.k, count), exists=BEST)
    candidates = [_Candidates() for _ in queries]
    for batch in batches(queries):
        batch.check(searcher.rows.model.graph)
        for members, search, targets in _searches(searcher, batch):
            ids, values = _best(search, targets, count, allowed)
            for member, mine, row in zip(members, ids.tolist(), values.tolist(), strict=True):
                candidates[member].add(mine, row, count)
    _remember(candidates, certain, count)
    unions = [place for place, query in enumerate(queries) if len(query.patterns) > 1]
    _unite(searcher, [queries[i] for i in unions], [candidates[i] for i in unions], UNION * count)
    _remember(candidates, certain, count)
    return [
        _combinations(mine, query, count) for mine, query in zip(candidates, queries, strict=True)
    ]


def _remember(
    candidates: list[_Candidates], certain: Sequence[list[list[int]]], count: int
) -> None:
    for mine, facts in zip(candidates, certain, strict=True):
        mine.found |= dict.fromkeys(map(tuple, facts[:count]), 0.0)


def _searches(
    searcher: Searcher, batch: Batch
) -> Iterator[tuple[list[int], Search, tuple[Variable, ...]]]:
    """Searches for some patterns of a batch at a time: their queries, and the targets' names."""
    targets = batch.targets
    ids = searcher.rows.ids(batch.entities), searcher.rows.ids(batch.relations)
    for part, search in searcher.searches(batch.shape, targets[-1], *ids):
        yield batch.queries[part].tolist(), search, targets


def _best(
    search: Search, targets: tuple[Variable, ...], count: int, allowed: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Ids (batch, n, targets) and log p (batch, n) of the best combinations, the best first."""
    queries = len(search.batch)
    last = search.result()
    if allowed is not None:
        last = last.masked_fill(~allowed, -torch.inf)
    domains = search.candidates | {targets[-1]: last.topk(min(count, last.shape[1])).indices}
    tables = make_tables(search, domains)
    if allowed is not None:
        tables += [Table((t,), _forbidden(allowed, domains[t]).to(last)) for t in targets]
    rows, picked = search.batch, dict[Variable, Tensor]()
    values = torch.empty(0)
    for target in reversed(targets):
        marginal = _maxima(search, tables, rows, picked, (target,))
        size = marginal.shape[1]
        together = marginal.reshape(queries, -1)
        values, best = together.topk(min(count, together.shape[1]))
        earlier = (search.batch.unsqueeze(1) * (len(rows) // queries) + best // size).flatten()
        picked = {name: places[earlier] for name, places in picked.items()}
        picked[target] = (best % size).flatten()
        rows = rows[earlier]
    ids = [domains[t][rows, picked[t]].reshape(queries, -1) for t in targets]
    return torch.stack(ids, 2), values


def _forbidden(allowed: Tensor, ids: Tensor) -> Tensor:
    return torch.where(allowed[ids], 0.0, -torch.inf)


def _maxima(
    search: Search,
    tables: list[Table],
    rows: Tensor,
    picked: Mapping[Any, Tensor],
    keep: tuple[Variable, ...],
) -> Tensor:
    """The largest sums, a row for every query in ``rows`` with some variables picked."""
    left = [tuple(axis for axis in table.axes if axis not in picked) for table in tables]
    sizes = {
        axis: size
        for table in tables
        for axis, size in zip(table.axes, table.values.shape[1:], strict=True)
    }
    numbers = 2 * largest(left, keep, sizes) * search.rows.dtype.itemsize
    parts = []
    for some in slices(len(rows), search.rows.budget.fit(numbers)):
        search.rows.budget.check_time()
        here = {name: places[some] for name, places in picked.items()}
        parts.append(maximise([_fix(table, rows[some], here) for table in tables], keep))
    return torch.cat(parts)


def _fix(table: Table, rows: Tensor, picked: Mapping[Any, Tensor]) -> Table:
    """A table for each of the rows, at the places that are picked."""
    index = [picked[axis] if axis in picked else slice(None) for axis in table.axes]
    axes = tuple(axis for axis in table.axes if axis not in picked)
    return Table(axes, table.values[(rows, *index)])


def _unite(
    searcher: Searcher, queries: list[Query], candidates: list[_Candidates], most: int
) -> None:
    """Replace the log p of each combination by that of the whole union."""
    for mine in candidates:
        mine.cut(most)
    asked = [place for place, mine in enumerate(candidates) if mine.found]
    if not asked:
        return
    found = [list(candidates[place].found) for place in asked]
    width = max(map(len, found))
    # Rows are of one length: those of fewer combinations repeat their first.
    ids = searcher.rows.ids([each + each[:1] * (width - len(each)) for each in found])
    totals = searcher.rows.full(len(asked), width, value=-torch.inf)
    for batch in batches([queries[place] for place in asked]):
        for members, search, targets in _searches(searcher, batch):
            values = _at(search, targets, ids[members])
            for member, row in zip(members, values, strict=True):
                totals[member] = either(totals[member], row)
    for place, each, row in zip(asked, found, totals.tolist(), strict=True):
        candidates[place].found = dict(zip(each, row, strict=False))


def _at(search: Search, targets: tuple[Variable, ...], ids: Tensor) -> Tensor:
    """log p (batch, n) of given combinations (batch, n, targets)."""
    queries, count, _ = ids.shape
    tables = make_tables(search, search.candidates | dict(zip(targets, ids.unbind(2), strict=True)))
    places = search.rows.places(count).repeat(queries)
    rows = search.batch.repeat_interleave(count)
    values = _maxima(search, tables, rows, dict.fromkeys(targets, places), ())
    return values.reshape(queries, count)


def _combinations(mine: _Candidates, query: Query, count: int) -> Combinations:
    order = sorted(mine.found, key=mine.found.__getitem__, reverse=True)
    best = [each for each in order if mine.found[each] > -math.inf][:count]
    values = torch.tensor([mine.found[each] for each in best], dtype=torch.float64)
    bounds = torch.tensor(mine.beyond, dtype=torch.float64)
    most = reduce(either, bounds) if len(bounds) > 1 else bounds.new_tensor(-torch.inf)
    exact = bool(most <= values.min()) if best else True
    ids = torch.tensor(best).reshape(-1, len(query.targets))
    cut = "Candidates were cut to the best combinations of each alternative."
    return Combinations(ids, -values, exact, values.exp(), () if exact else (cut,))

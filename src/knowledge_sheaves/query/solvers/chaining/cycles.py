"""Queries with cycles: all combinations of the unknowns' candidates, maximised exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.batches import slices
from knowledge_sheaves.query.pattern import Variable
from knowledge_sheaves.query.solvers.chaining.plan import Factor, Negation
from knowledge_sheaves.query.solvers.chaining.tables import Table, largest, maximise

if TYPE_CHECKING:
    from knowledge_sheaves.query.solvers.chaining.search import Search


def exact(search: Search) -> Tensor:
    """log p of every entity as the target, for some entities at a time."""
    target = search.plan.target
    tables = make_tables(search, search.candidates)
    keep = () if target is None else (target,)
    together = _entities_at_once(search, tables, keep)
    if target is None:
        return maximise(tables, ()).unsqueeze(1)
    parts = []
    for some in slices(search.rows.size, together):
        search.rows.budget.check_time()
        parts.append(maximise([_narrow(table, target, some) for table in tables], keep))
    return torch.cat(parts, 1)


def make_tables(search: Search, domains: dict[Variable, Tensor]) -> list[Table]:
    """All factors as tables over the domains (batch, n); all entities where there is none."""
    found = [Table((), search.constant)]
    for variable in search.plan.variables:
        ids, own = domains.get(variable), search.own.get(variable)
        if own is None:
            own = search.rows.full(len(search.batch), search.rows.size)
        found.append(Table((variable,), own if ids is None else own.gather(1, ids)))
    for (source, goal), factors in search.plan.links.items():
        values = _link(search, factors, domains[source], domains.get(goal))
        found.append(Table((source, goal), values))
    return found + [_wide(search, negation, domains) for negation in search.plan.wide]


def _link(search: Search, factors: list[Factor], ids: Tensor, goals: Tensor | None) -> Tensor:
    size = search.rows.size if goals is None else goals.shape[1]
    out = search.constant.new_empty(*ids.shape, size)
    for part in search.parts(factors, ids):
        if goals is None:
            values = part.logits.add_(part.offsets.unsqueeze(1))[part.index]
        else:
            values = part.at(goals[part.queries])
        out[part.queries, part.candidates] = values
    return out


def _wide(search: Search, negation: Negation, domains: dict[Variable, Tensor]) -> Table:
    """A negation over all combinations of the candidates of the variables that it is given."""
    assert negation.goal is not None
    grids = [domains[variable] for variable in negation.given]
    sizes = [grid.shape[1] for grid in grids]
    places = torch.cartesian_prod(*map(search.rows.places, sizes))
    goals = domains.get(negation.goal)
    rows = []
    for query in search.batch:
        for some in slices(len(places), search.rows.at_once):
            pairs = zip(grids, places[some].T, strict=True)
            given = torch.stack([grid[query][place] for grid, place in pairs], 1)
            values = search.values(negation, query.expand(len(given)), given)
            rows.append(values if goals is None else values[:, goals[query]])
    values = torch.cat(rows).reshape(len(search.batch), *sizes, -1)
    return Table((*negation.given, negation.goal), values)


def _entities_at_once(search: Search, tables: list[Table], keep: tuple[Variable, ...]) -> int:
    """How many targets can be maximised for at once; none is an error."""
    sizes = {v: ids.shape[1] for v, ids in search.candidates.items()} | dict.fromkeys(keep, 1)
    numbers = largest([table.axes for table in tables], keep, sizes) * len(search.batch)
    together = search.rows.budget.memory // (2 * numbers * search.rows.dtype.itemsize)
    if together < 1:
        raise InputError(
            "The cycles of the query do not fit into the memory limit: keep fewer than "
            f"{search.searcher.k} candidates of each unknown, or raise the limit."
        )
    return together


def _narrow(table: Table, variable: Variable, some: slice) -> Table:
    if variable not in table.axes:
        return table
    axis = 1 + table.axes.index(variable)
    return Table(table.axes, table.values.narrow(axis, some.start, some.stop - some.start))

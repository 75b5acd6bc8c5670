"""The best answers of conjunctions by an index, without the energy of every entity."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from knowledge_sheaves.embedding.probability import EPSILON
from knowledge_sheaves.embedding.search.about import SEVERAL, SINGLE
from knowledge_sheaves.embedding.search.ends import rows_of
from knowledge_sheaves.embedding.search.finders import Asked, Filter, Finder
from knowledge_sheaves.embedding.search.kept import FULL, finder_of, search_mode, search_note
from knowledge_sheaves.query.pattern import Pattern, Query, Variable
from knowledge_sheaves.query.solvers.base import Combinations, Hidden, conditions, grounded
from knowledge_sheaves.query.solvers.harmonic.graph import QueryGraph
from knowledge_sheaves.query.solvers.harmonic.lifted import NotDefinite
from knowledge_sheaves.query.types import readings
from knowledge_sheaves.sheaf.monomials import Candidates

if TYPE_CHECKING:
    from knowledge_sheaves.query.solvers.harmonic.solver import Harmonic


class Reading(NamedTuple):
    """One reading of a pattern: the type of its answers, what finds them, what it is asked."""

    kind: int
    finder: Finder
    asked: Asked


def best_answers(
    solver: Harmonic, queries: Sequence[Query], count: int, hidden: Sequence[Hidden]
) -> list[Combinations] | None:
    """The best answers of queries; None where all entities must be compared."""
    mode = search_mode(solver.model, solver.settings.search)
    plain = all(len(q.patterns) == 1 and not q.patterns[0].without for q in queries)
    if mode == FULL or not plain:
        return None
    asked = [list(_readings(solver, query, mode)) for query in queries]
    for each in asked:
        kinds = [reading.kind for reading in each if reading is not None]
        # Readings with answers of one type compete entity by entity.
        if None in each or len(set(kinds)) < len(kinds):
            return None
    found = zip(queries, asked, hidden, strict=True)
    return [_best(solver, query, [r for r in each if r], count, h) for query, each, h in found]


def _readings(solver: Harmonic, query: Query, mode: str) -> Iterator[Reading | None]:
    (pattern,), (target,) = query.patterns, query.targets
    ground = grounded(pattern, [target])
    for parts in readings(ground, solver.model.graph):
        solver.budget.check_time()
        batch = QueryGraph.of(solver.model, [ground], [parts], target)
        yield _reading(solver, pattern, batch, target, mode)


def _reading(
    solver: Harmonic, pattern: Pattern, batch: QueryGraph, target: Variable, mode: str
) -> Reading | None:
    kind = batch.types[batch.vertex(target)]
    shape = SINGLE if len(pattern.edges) == 1 else SEVERAL
    finder = finder_of(solver.model, kind, mode, shape=shape)
    asked = asked_by(solver, pattern, batch, target, finder.candidates)
    if asked is None or not finder.takes(asked):
        return None
    return Reading(kind, finder, asked)


def asked_by(
    solver: Harmonic, pattern: Pattern, batch: QueryGraph, target: Variable, candidates: Candidates
) -> Asked | None:
    """What one reading asks of candidates; None where that is no form."""
    try:
        least = solver.extension.form_at(batch, target)
    except NotDefinite:
        return None
    forms = None if least is None else least.form.forms(candidates)
    if least is None or forms is None:
        return None
    if least.indifferent is not None and bool(least.indifferent.any()):
        solver.note_indifferent(pattern)
    vertex = batch.vertex(target)
    heads, tails = (float((v == vertex).sum()) for v in (batch.graph.heads, batch.graph.tails))
    columns = 0 if solver.model.biases is None else solver.model.biases.shape[1]
    favour = {0: (), 1: (heads + tails,), 2: (heads, tails)}[columns]
    return Asked(forms, favour)


def _best(
    solver: Harmonic, query: Query, asked: Sequence[Reading], count: int, hidden: Hidden
) -> Combinations:
    model, (pattern,), (target,) = solver.model, query.patterns, query.targets
    tau, allowed = solver.temperature(pattern), conditions(model, pattern, target, solver.false)
    ids, energies, totals, notes = list[Tensor](), list[Tensor](), list[float](), list[str]()
    for kind, finder, forms in asked:
        filter_ = Filter(*_of_type(solver, allowed, kind), *_of_type(solver, hidden, kind))
        (found,) = finder.best(forms, count, [filter_], tau)
        several = len(model.widths) > 1
        ids.append(model.entities_of_type(kind)[found.rows] if several else found.rows)
        energies.append(found.values)
        totals.append(found.log_total)
        notes += search_note(finder, found)
    values, order = torch.cat(energies).sort(stable=True)
    total = torch.logsumexp(torch.tensor(totals, dtype=torch.float64), 0)
    log_share = -values.double() / tau - total + math.log(solver.counts([pattern], target)[0])
    chances = log_share.exp().clamp(max=1 - EPSILON).to(values.dtype)
    entities = torch.cat(ids)[order].unsqueeze(1)
    exact = all(reading.finder.exact for reading in asked)
    return Combinations(
        entities[:count], values[:count], exact, chances[:count], tuple(dict.fromkeys(notes))
    )


def _of_type(solver: Harmonic, hidden: Hidden, kind: int) -> tuple[Tensor | None, Tensor | None]:
    """Who of a type is not hidden, as a mask, and who is, as ids, by place among the type's."""
    model, (mask, ids) = solver.model, hidden
    if len(model.widths) == 1:
        return (None if mask is None else ~mask), ids
    open_ = None if mask is None else ~mask[model.entities_of_type(kind)]
    if ids is None:
        return open_, None
    return open_, rows_of(model, kind, ids)

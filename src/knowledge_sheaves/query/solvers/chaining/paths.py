"""Paths by an index: from a known entity over unknowns to the target, without rows over everybody.

Of every candidate of an unknown the index finds who is most likely next, and what all entities come
to together, by which a softmax is divided. Whoever was found for one candidate is then compared
with all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from knowledge_sheaves.embedding.loops import bars_loops
from knowledge_sheaves.embedding.scoring import make_query
from knowledge_sheaves.embedding.search.building import asked_of
from knowledge_sheaves.embedding.search.finders import Filter, Finder, Found
from knowledge_sheaves.embedding.search.kept import FULL, finder_of, search_mode, search_note
from knowledge_sheaves.query.pattern import Query, Term, Variable
from knowledge_sheaves.query.solvers.arrows import Arrow, arrows
from knowledge_sheaves.query.solvers.base import Combinations, Hidden
from knowledge_sheaves.query.solvers.chaining.search import FAINT, INACTIVE
from knowledge_sheaves.query.solvers.rows import HIGHEST

if TYPE_CHECKING:
    from knowledge_sheaves.query.solvers.chaining.solver import Chaining

LOOKED_AT = 4
"""For every candidate that is kept so many are found: some lead nowhere."""
NOBODY = Hidden()


class Belief(NamedTuple):
    """Who a variable may be: ids, log p of each, and what to know of it."""

    ids: Tensor
    logs: Tensor
    notes: tuple[str, ...] = ()


@torch.no_grad()
def best_of_paths(
    solver: Chaining, queries: Sequence[Query], count: int, hidden: Sequence[Hidden]
) -> list[Combinations] | None:
    """The best answers of queries that are paths; None where all entities must be compared."""
    model = solver.model
    mode = search_mode(model, solver.settings.search)
    if mode == FULL or solver.by_energy or len(model.graph.schema.types) > 1:
        return None
    paths = [path_of(query) for query in queries]
    finder, found = finder_of(model, 0, mode), list[Combinations]()
    for query, path, unwanted in zip(queries, paths, hidden, strict=True):
        belief = None if path is None else _follow(solver, finder, path, count, unwanted)
        if belief is None:
            return None
        ids, logs, notes = _with_certain(solver, query, belief, unwanted)
        best, at = logs.topk(min(count, len(logs)))
        at = at[best > -torch.inf]
        found.append(
            Combinations(ids[at, None], 0.0 - logs[at], finder.exact, logs[at].exp(), notes)
        )
    return found


def path_of(query: Query) -> list[Arrow] | None:
    """The edges of a query from a known entity to its target; None where it is no single path.

    >>> from knowledge_sheaves.query.pattern import Edge, Pattern
    >>> pattern = Pattern((Edge("?y", 1, "?x"), Edge(7, 0, "?y")))
    >>> [arrow.relation for arrow in path_of(Query(("?x",), (pattern,)))]
    [0, 1]
    """
    (target,) = query.targets
    pattern = query.patterns[0]
    if len(query.patterns) > 1 or pattern.without or pattern.different or pattern.bindings:
        return None
    read = arrows(pattern, target)
    towards: dict[Term, Arrow] = {arrow.goal: arrow for arrow in read}
    path: list[Arrow] = []
    here: Term = target
    while isinstance(here, Variable) and here in towards:
        path.insert(0, towards.pop(here))
        here = path[0].source
    return None if isinstance(here, Variable) or len(path) < len(read) else path


def _follow(
    solver: Chaining, finder: Finder, path: Sequence[Arrow], count: int, hidden: Hidden
) -> Belief | None:
    """Who the target may be, step by step."""
    rows, searcher = solver.searcher.rows, solver.searcher
    sources, weights = rows.ids([int(path[0].source)]), rows.full(1)
    for arrow, after in zip(path, [*path[1:], None], strict=True):
        rows.budget.check_time()
        last = after is None
        wanted = count if last else LOOKED_AT * searcher.k
        tau = rows.tau / (1.0 if last else searcher.focus)
        step = Step(solver, finder, arrow, sources, tau)
        if step.asked is None:
            return None
        belief = step.message(weights, wanted, hidden if last else NOBODY)
        if after is None or not len(belief.ids):  # nobody can stand there
            return belief
        sources, weights = _chosen(solver, belief, after)
    return None


def _chosen(solver: Chaining, belief: Belief, after: Arrow) -> tuple[Tensor, Tensor]:
    """The candidates of an unknown that are followed: those that lead on come first."""
    rows, searcher = solver.searcher.rows, solver.searcher
    by = rows.ids([int(after.relation)]).expand(len(belief.ids))
    nowhere = rows.degrees(belief.ids, by, after.inverse) == 0
    order = belief.logs + INACTIVE * nowhere
    kept = order.topk(min(searcher.k, len(order))).indices
    weights = belief.logs[kept]
    likely = weights >= weights.amax() + FAINT
    return belief.ids[kept][likely], weights[likely]


class Step:
    """One edge, from some candidates of its source to whoever may be its goal."""

    def __init__(
        self, solver: Chaining, finder: Finder, arrow: Arrow, sources: Tensor, tau: float
    ) -> None:
        self.rows, self.exists = solver.searcher.rows, solver.searcher.exists
        self.finder, self.sources, self.tau, self.inverse = finder, sources, tau, arrow.inverse
        self.relations = self.rows.ids([int(arrow.relation)]).expand(len(sources))
        model = solver.model
        end, edges, _ = self.rows.edges(sources, self.relations, arrow.inverse)
        query = make_query(model, end, edges, sources)
        asked = asked_of(model, query, finder.candidates)
        self.asked = asked if asked is not None and finder.takes(asked) else None
        possible = model.possible(end)
        self.open = None if possible is None else possible.entities(edges[:1])[0]
        self.barred = sources if bars_loops(model, int(edges[0])) else None

    def message(self, weights: Tensor, count: int, hidden: Hidden) -> Belief:
        """Who is likely at the goal, where candidates are so likely at the source."""
        assert self.asked is not None
        count += self.rows.most_false(self.sources, self.relations, self.inverse)
        found = self.finder.best(self.asked, count, self._filters(hidden), self.tau)
        counts, known = self.rows.known(self.sources, self.relations, self.inverse)
        facts = self.sources[:0] if known is None else known[1]
        ids = torch.cat([*(each.rows for each in found), facts]).unique()
        logs = self._log_p(found, ids, counts)
        if known is not None:
            logs[known[0], torch.searchsorted(ids, facts)] = 0.0
        self.rows.drop_false(logs, self.sources, self.relations, self.inverse, among=ids)
        total = self.exists.sum(logs.add_(weights[:, None]).unsqueeze(0))[0]
        shown, message = _shown(ids, hidden), self.exists.close(total)
        return Belief(ids[shown], message[shown], tuple(search_note(self.finder, found[0])))

    def _filters(self, hidden: Hidden) -> list[Filter]:
        wanted = None if hidden.mask is None else ~hidden.mask
        loops: Sequence[Tensor | None] = (
            [None] * len(self.sources) if self.barred is None else self.barred.split(1)
        )
        return [Filter(self.open, barred, wanted, hidden.ids) for barred in loops]

    def _log_p(self, found: Sequence[Found], ids: Tensor, counts: Tensor) -> Tensor:
        """log p (candidates, entities), as `Rows.score` has it of everybody."""
        assert self.asked is not None
        logs = self.finder.values(self.asked, ids).to(self.rows.dtype).div_(-self.tau)
        if self.open is not None:
            logs[:, ~self.open[ids]] = -torch.inf
        if self.barred is not None:
            logs[ids == self.barred[:, None]] = -torch.inf
        totals = torch.tensor([each.log_total for each in found], dtype=self.rows.dtype)
        offsets = torch.where(totals.isneginf(), 0.0, counts.log() - totals)
        return logs.add_(offsets[:, None]).clamp_(max=HIGHEST)


def _shown(ids: Tensor, hidden: Hidden) -> Tensor:
    """Which entities are not hidden."""
    shown = torch.ones_like(ids, dtype=torch.bool)
    if hidden.mask is not None:
        shown &= ~hidden.mask[ids]
    if hidden.ids is not None:
        shown &= ~torch.isin(ids, hidden.ids)
    return shown


def _with_certain(solver: Chaining, query: Query, belief: Belief, hidden: Hidden) -> Belief:
    """What facts make certain counts so, even if the cut to k candidates lost it."""
    if not solver.remembers:
        return belief
    certain = solver.searcher.rows.ids(solver.facts.certain([query])[1])[:, 0].unique()
    certain = certain[_shown(certain, hidden)]
    others = ~torch.isin(belief.ids, certain)
    ids = torch.cat([belief.ids[others], certain])
    logs = torch.cat([belief.logs[others], belief.logs.new_zeros(len(certain))])
    return Belief(ids, logs, belief.notes)

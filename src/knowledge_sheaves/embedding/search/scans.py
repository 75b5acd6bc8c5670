"""Reading codes: all of them, or some lists, and what can still be among the best.

What one form reads, all that are asked together read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from knowledge_sheaves.embedding.search.codes import Bounds, Codes, Where, places_in, rows_at
from knowledge_sheaves.embedding.search.finders import AT_ONCE, Asked, Filter, Finder, Found
from knowledge_sheaves.embedding.search.top import top
from knowledge_sheaves.sheaf.monomials import Candidates

FIRST = 1 << 12
"""So many rows are read at first, to know what is far: of those that follow few are then kept."""
TOGETHER = 16
"""How many forms are looked for at once, at most."""
NOBODY = torch.zeros(0, dtype=torch.long)
NOTHING = 80.0
"""exp(−80) is nothing beside 1. What is less still takes a hundred times as long to compute."""


def log_sum(logs: Tensor) -> Tensor:
    """log Σ exp of every row, of whatever counts in it."""
    most = logs.amax(-1, keepdim=True)
    least = torch.where(most.isneginf(), 0.0, most)  # of nothing the logarithm is −∞
    counted = (logs - least).clamp_(min=-NOTHING).exp_().sum(-1).log_().add_(least.squeeze(-1))
    return torch.where(most.squeeze(-1).isneginf(), -torch.inf, counted)


class Barred:
    """Who is no answer to every form: by a mask over candidates, or by ids."""

    def __init__(
        self, codes: Codes, masks: Sequence[Tensor | None], ids: Sequence[Tensor | None]
    ) -> None:
        self.codes = codes
        self.masks = {id(mask): mask for mask in masks if mask is not None}
        self.forms_of = {
            key: [form for form, mask in enumerate(masks) if id(mask) == key] for key in self.masks
        }
        given = [(form, each) for form, each in enumerate(ids) if each is not None and len(each)]
        self.forms = torch.cat([NOBODY, *(torch.full_like(each, form) for form, each in given)])
        rows = torch.cat([NOBODY, *(each for _, each in given)])
        self.places = codes.place[rows].long() if given else NOBODY

    def bar(self, values: Tensor, where: Where) -> None:
        """Give whoever is barred the value ∞."""
        if self.masks:
            self._mask(values, self.codes.order[where].long())
        if len(self.places):
            there, rows = rows_at(where, self.places)
            values[self.forms[there], rows] = torch.inf

    def bar_sample(self, values: Tensor) -> None:
        """The same where values are those of the sample."""
        if self.masks:
            self._mask(values, self.codes.sampled.order.long())
        if len(self.places):
            places, at = self.codes.sampled_places
            there, rows = rows_at(places, self.places)
            values[self.forms[there], at[rows]] = torch.inf

    def _mask(self, values: Tensor, rows: Tensor) -> None:
        for key, mask in self.masks.items():
            shut = ~mask[rows]
            for form in self.forms_of[key]:
                values[form].masked_fill_(shut, torch.inf)


class Best:
    """The places that can still be among the ``count`` best of one form."""

    def __init__(self, count: int, tau: float | None, score: Callable[[Tensor], Tensor]) -> None:
        self.count, self.tau = count, tau
        self.score = score
        # Nothing that is infinite can win, and at first nobody knows what can.
        self.threshold = torch.finfo(torch.float32).max
        self.uppers = torch.zeros(0)
        self.kept: list[tuple[Tensor, Tensor, Tensor]] = []
        self.totals: list[Tensor] = []

    def meet(self, values: Tensor, lower: Tensor, where: Where) -> None:
        """Look at the rows of some places, at bounds; one that cannot be has infinite ones."""
        if self.tau is not None:
            self.totals.append(log_sum(self.score(values) / -self.tau))
        if not bool(lower.amin() <= self.threshold):
            return
        some = (lower <= self.threshold).nonzero().squeeze(1)
        low, known = lower[some], values[some]
        self.uppers = top(torch.cat([self.uppers, 2 * known - low]), self.count)[0]
        if len(self.uppers) == self.count:
            self.threshold = float(self.uppers[-1])
        left = low <= self.threshold
        self.kept.append((low[left], known[left], places_in(where, some[left])))

    def places(self) -> tuple[Tensor, Tensor]:
        """Those that are left, and their values as far as they are known."""
        if not self.kept:
            return torch.zeros(0, dtype=torch.long), torch.zeros(0)
        lower, values, places = (torch.cat(parts) for parts in zip(*self.kept, strict=True))
        left = lower <= self.threshold
        return places[left], values[left]


class CodeScan(Finder):
    """Reads all codes, and compares exactly whatever can still win: no answer is missed."""

    def __init__(self, candidates: Candidates, biases: Tensor | None, codes: Codes) -> None:
        super().__init__(candidates, biases)
        self.codes = codes

    def takes(self, asked: Asked) -> bool:
        return self.codes.takes(asked.forms)

    def best(
        self, asked: Asked, count: int, filters: Sequence[Filter], tau: float | None = None
    ) -> list[Found]:
        starts = range(0, len(asked), TOGETHER)
        parts = [slice(start, min(start + TOGETHER, len(asked))) for start in starts]
        return [
            found
            for part in parts
            for found in self._together(asked.take(part), count, filters[part], tau)
        ]

    def _together(
        self, asked: Asked, count: int, filters: Sequence[Filter], tau: float | None
    ) -> list[Found]:
        """The best of some forms: what one of them reads, all of them read."""
        bounds, read = Bounds(self.codes, asked), 0
        bests = [Best(count, tau, asked.score) for _ in filters]
        codes = self.codes
        shut = Barred(codes, [f.possible for f in filters], [f.impossible for f in filters])
        hidden = Barred(codes, [f.wanted for f in filters], [f.unwanted for f in filters])
        lists = self._lists(bounds, filters)
        for where in self._blocks(lists):
            values = bounds.at(codes, where)
            shut.bar(values, where)
            lower = bounds.below(values, codes, where)
            hidden.bar(lower, where)
            for place, best in enumerate(bests):
                best.meet(values[place], lower[place], where)
            read += values.shape[1]
        if lists is not None and tau is not None:
            for best, rest in zip(bests, self._unread(bounds, lists, shut, tau), strict=True):
                best.totals.append(rest)
        return [
            self._compare(one, best, read) for one, best in zip(asked.each(), bests, strict=True)
        ]

    def _lists(self, bounds: Bounds, filters: Sequence[Filter]) -> Tensor | None:
        """Which lists are read, the best first; None: all."""
        return None

    def _blocks(self, lists: Tensor | None) -> Iterator[Where]:
        """What is read, some at a time."""
        size = len(self.codes)
        if lists is None:
            cuts = [0, *range(FIRST, size, AT_ONCE), size]
            yield from (slice(*cut) for cut in pairwise(cuts))
            return
        before, first = self.codes.sizes()[lists].cumsum(0), 0
        for last in [*range(FIRST, int(before[-1]), AT_ONCE), int(before[-1])]:
            stop = int(torch.searchsorted(before, last)) + 1
            if stop > first:
                yield self.codes.places_of(lists[first:stop])
            first = stop

    def _unread(self, bounds: Bounds, lists: Tensor, shut: Barred, tau: float) -> Tensor:
        """What other lists add to the total of every form, from a sample.

        Each of the sample stands for as many as there are to one of it.
        """
        codes, sampled = self.codes, self.codes.sampled
        read = torch.zeros(len(codes.spread), dtype=torch.bool)
        read[lists] = True
        values = bounds.at(sampled, slice(None))
        values.masked_fill_(read[codes.list_of_sample], torch.inf)
        shut.bar_sample(values)
        return log_sum(bounds.score(values) / -tau) + math.log(len(codes) / max(1, len(sampled)))

    def _compare(self, asked: Asked, best: Best, read: int) -> Found:
        """The exact values of all that can still win; their part of the total is then exact too."""
        places, rough = best.places()
        rows = self.codes.order[places].long()
        parts = [self.values(asked, some)[0] for some in rows.split(AT_ONCE)]
        values = torch.cat(parts) if parts else self.candidates.flat.new_zeros(0)
        total = math.nan
        if best.tau is not None:
            total = _corrected(
                *(torch.stack(best.totals), best.score(rough), values.float(), best.tau)
            )
        chosen, at = top(values, best.count)
        return Found(rows[at], chosen, total, read)


def _corrected(totals: Tensor, rough: Tensor, exact: Tensor, tau: float) -> float:
    """log Σ exp(−V/τ), with exact values in the place of rough ones."""
    logs = [totals, -exact / tau]
    whole = torch.logsumexp(torch.cat(logs), 0).double()
    if whole.isneginf():
        return -math.inf
    parts = [torch.exp(each.double() - whole).sum() for each in (*logs, -rough / tau)]
    left = torch.maximum(parts[0] - parts[2], torch.zeros(())) + parts[1]
    return float(whole + left.log())


class ListScan(CodeScan):
    """Reads the lists that are best in the mean, ``reach`` candidates of them.

    Some of the best answers may be in others: ``recall`` is how many of the 10 best were met.
    """

    exact = False

    def __init__(
        self,
        candidates: Candidates,
        biases: Tensor | None,
        codes: Codes,
        reach: int,
        recall: float | None = None,
    ) -> None:
        super().__init__(candidates, biases, codes)
        self.reach, self.recall = reach, recall

    def _lists(self, bounds: Bounds, filters: Sequence[Filter]) -> Tensor:
        chosen = []
        for filter_, ranked in zip(filters, bounds.lists().argsort(1), strict=True):
            counts = self._open(filter_)
            some = ranked[counts[ranked] > 0]
            chosen.append(some[: int((counts[some].cumsum(0) < self.reach).sum()) + 1])
        return chosen[0] if len(chosen) == 1 else torch.cat(chosen).unique()

    def _open(self, filter_: Filter) -> Tensor:
        """How many of each list are not barred."""
        codes, open_ = self.codes, None
        for mask in (filter_.possible, filter_.wanted):
            open_ = mask if open_ is None else open_ if mask is None else open_ & mask
        ids = [each for each in (filter_.impossible, filter_.unwanted) if each is not None]
        barred = torch.cat(ids).unique() if ids else torch.zeros(0, dtype=torch.long)
        counts = codes.sizes()
        if open_ is not None:
            before = torch.cat([counts.new_zeros(1), open_[codes.order.long()].cumsum(0)])
            counts, barred = before[codes.starts].diff(), barred[open_[barred]]
        lists = codes.lists_of(codes.place[barred].long())
        return counts - torch.bincount(lists, minlength=len(counts))

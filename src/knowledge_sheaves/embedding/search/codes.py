"""Candidates in 8 bits: a quarter of the memory to read, and a bound on what rounding cost.

A row x is kept as s·c, c whole numbers between −127 and 127, with ‖x − s·c‖ beside it. Then
⟨q, x⟩ lies within ‖q‖ ‖x − s·c‖ of s⟨q, c⟩, and rows that cannot be among the best are told from
the others without being looked at. Those others are compared exactly.

Rows of one list (a cluster of vectors) are neighbours. Who reads all rows misses nothing; who reads
the lists of least mean value misses little. A list's mean value is the form at its mean row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from knowledge_sheaves.embedding.search.finders import AT_ONCE, Asked, Filter, Finder, Found
from knowledge_sheaves.embedding.search.top import top
from knowledge_sheaves.sheaf.monomials import Candidates, Forms, Monomials

LARGEST = 127
ROUNDING = 6 * torch.finfo(torch.float32).eps
"""What adding up some hundred products in single precision loses of the product of the norms."""
LEEWAY = 0.1
"""A list counts as if its mean were so many times its spread better."""
FIRST = 1 << 12
"""So many rows are read at first, to know what is far: of those that follow few are then kept."""
NOTHING = 80.0
"""exp(−80) is nothing beside 1. What is less still takes a hundred times as long to compute."""


class Rounded(NamedTuple):
    """Forms in 8 bits: unit · parts, and how long what is left of each is.

    Twice as many bits would leave less to compare exactly, and take half as long again to read by.
    """

    parts: Tensor
    unit: Tensor
    rest: Tensor

    @classmethod
    def of(cls, rows: Tensor) -> Rounded:
        unit = rows.abs().amax(1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny) / LARGEST
        parts = (rows / unit).round()
        rest = (rows - unit * parts).norm(dim=1)
        return cls(parts.to(torch.int8), unit.float(), rest.float())


class Coded(NamedTuple):
    """Rows in 8 bits, the unit of each, and the length of what is left of each."""

    codes: Tensor
    unit: Tensor
    rest: Tensor

    @classmethod
    def of(cls, rows: Tensor) -> Coded:
        rows = rows.float()
        unit = rows.abs().amax(1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny) / LARGEST
        codes = (rows / unit).round()
        rest = (rows - unit * codes).norm(dim=1) + ROUNDING * rows.norm(dim=1)
        return cls(codes.to(torch.int8), unit.squeeze(1), rest)

    def take(self, places: Tensor) -> Coded:
        """Some of the rows."""
        return Coded(self.codes[places], self.unit[places], self.rest[places])

    def product(self, given: Rounded, spans: Sequence[slice]) -> Tensor:
        """The products of the codes of one given row with those of some spans."""
        parts = [torch._int_mm(given.parts, self.codes[span].T)[0] for span in spans]
        return (parts[0] if len(parts) == 1 else torch.cat(parts)).float()


def over(table: Tensor, spans: Sequence[slice]) -> Tensor:
    """The rows of some spans."""
    parts = [table[span] for span in spans]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def places_in(spans: Sequence[slice], some: Tensor) -> Tensor:
    """Where some of the rows of spans are, that follow each other.

    >>> places_in([slice(5, 8), slice(0, 2)], torch.tensor([0, 2, 3]))
    tensor([5, 7, 0])
    """
    starts = torch.tensor([span.start for span in spans])
    sizes = torch.tensor([span.stop for span in spans]) - starts
    before = sizes.cumsum(0) - sizes
    at = torch.searchsorted(before, some, right=True) - 1
    return starts[at] + some - before[at]


def log_sum(logs: Tensor) -> Tensor:
    """log Σ exp, of whatever counts in it."""
    most = logs.amax()
    if most.isneginf():
        return most
    return (logs - most).clamp_(min=-NOTHING).exp_().sum().log_().add_(most)


@dataclass(frozen=True, eq=False)
class Codes:
    """All candidates of one type in 8 bits, list after list.

    ``more`` are their monomials where the model's forms need more than ‖x‖². ``columns`` are exact:
    ‖x‖², then the biases. ``order`` is the candidate at every place, ``starts`` is where lists
    start; ``means`` are of points, monomials and columns.
    """

    points: Coded
    more: Coded | None
    columns: Tensor
    order: Tensor
    starts: Tensor
    means: Tensor
    spread: Tensor
    sample: Tensor
    longest: Tensor
    kind: Monomials

    def __len__(self) -> int:
        return len(self.order)

    def fit(self, candidates: Candidates, biases: Tensor | None) -> bool:
        """Whether these are codes of so many candidates and nothing in them leads elsewhere."""
        size, width = candidates.flat.shape
        lists, wide = len(self.means), 0 if self.more is None else self.more.codes.shape[-1]
        own = 1 if biases is None else 1 + biases.shape[1]
        shapes = [
            *_shapes(self.points, size, width),
            *([] if self.more is None else _shapes(self.more, size, wide)),
            (self.columns, (size, own)),
            (self.order, (size,)),
            (self.starts, (lists + 1,)),
            (self.means, (lists, width + wide + own)),
            (self.spread, (lists,)),
            (self.longest, (2 + own,)),
        ]
        return (
            all(tensor.shape == shape for tensor, shape in shapes)
            and (self.more is not None) == (self.kind > Monomials.NORM)
            and self.points.codes.dtype == torch.int8
            and all(_within(ids, size) for ids in (self.order, self.sample))
            and int(self.starts[0]) == 0
            and int(self.starts[-1]) == size
            and bool((self.starts.diff() >= 0).all())
        )

    def takes(self, forms: Forms) -> bool:
        """Whether these forms need no other monomials."""
        return forms.kind in (Monomials.NONE, Monomials.NORM, self.kind)

    @cached_property
    def place(self) -> Tensor:
        """Where every candidate is."""
        place = torch.empty_like(self.order)
        place[self.order.long()] = torch.arange(len(self), dtype=self.order.dtype)
        return place

    @cached_property
    def sampled(self) -> Codes:
        """Some candidates by chance, that stand for those that nobody reads."""
        some = self.sample.long()
        return Codes(
            self.points.take(some),
            None if self.more is None else self.more.take(some),
            *(self.columns[some], self.order[some], self.starts, self.means, self.spread),
            *(self.sample, self.longest, self.kind),
        )

    @cached_property
    def list_of_sample(self) -> Tensor:
        return self.lists_of(self.sample.long())

    def lists_of(self, places: Tensor) -> Tensor:
        """The list that every place is in."""
        return torch.searchsorted(self.starts, places, right=True) - 1

    def sizes(self) -> Tensor:
        """How many candidates each list has."""
        return self.starts.diff()


def _shapes(table: Coded, size: int, width: int) -> list[tuple[Tensor, tuple[int, ...]]]:
    return [(table.codes, (size, width)), (table.unit, (size,)), (table.rest, (size,))]


def _within(ids: Tensor, size: int) -> bool:
    """Whether these are places among so many."""
    whole = ids.dtype == torch.int32 and ids.dim() == 1
    return whole and not (len(ids) and (int(ids.min()) < 0 or int(ids.max()) >= size))


class Bounds:
    """One form that is ready to be bounded at codes."""

    def __init__(self, codes: Codes, asked: Asked) -> None:
        linear, weights, kind, constant = asked.forms
        assert len(linear) == 1, "forms are looked for one by one"
        self.codes, self.score = codes, asked.score
        rows = 2 * linear.float()
        self.points, self.length = Rounded.of(rows), float(rows.norm())
        at_norm = rows.new_zeros(1, 1)
        self.more, self.more_length = None, 0.0
        if weights is not None and kind is Monomials.NORM:
            at_norm = weights.float()
        elif weights is not None and kind > Monomials.NORM:
            self.more = Rounded.of(weights.float())
            self.more_length = float(weights.float().norm())
        taken = rows.new_tensor([[-each for each in asked.favour]])
        self.columns = torch.cat([at_norm, taken], 1)
        self.constant = 0.0 if constant is None else float(constant)
        self.linear = torch.cat([rows, *self._wide(weights, kind), self.columns], 1)
        self.has_columns = bool(self.columns.any())
        self.rest = self._rest()

    def _wide(self, weights: Tensor | None, kind: Monomials) -> list[Tensor]:
        if self.codes.more is None:
            return []
        width = self.codes.more.codes.shape[1]
        if weights is None or kind <= Monomials.NORM:
            return [self.columns.new_zeros(1, width)]
        return [weights.float()]

    def _rest(self) -> float:
        """What rounding the form, and adding up, may cost at any candidate."""
        points, more, *columns = self.codes.longest.tolist()
        rest = float(self.points.rest) * points
        own = sum(a * b for a, b in zip(self.columns[0].abs().tolist(), columns, strict=True))
        size = self.length * points + self.more_length * more + own + abs(self.constant)
        if self.more is not None:
            rest += float(self.more.rest) * more
        return rest + ROUNDING * size

    def at(self, codes: Codes, spans: Sequence[slice]) -> Tensor:
        """The values at the rows of some spans, as far as they are known."""
        points, more = codes.points, codes.more
        values = points.product(self.points, spans)
        values.mul_(over(points.unit, spans)).mul_(float(self.points.unit)).add_(self.constant)
        if self.more is not None:
            assert more is not None, "only forms that fit are asked"
            wide, unit = more.product(self.more, spans), over(more.unit, spans)
            values.addcmul_(wide, unit, value=float(self.more.unit))
        if self.has_columns:
            values.addmv_(over(codes.columns, spans), self.columns[0])
        return values

    def below(self, values: Tensor, codes: Codes, spans: Sequence[slice]) -> Tensor:
        """What the exact values are not below, where `at` found values."""
        lower = torch.add(values, over(codes.points.rest, spans), alpha=-self.length)
        if self.more is not None:
            assert codes.more is not None
            lower.add_(over(codes.more.rest, spans), alpha=-self.more_length)
        return lower.sub_(self.rest)

    def lists(self) -> Tensor:
        """How good lists are: the mean value of each, less some of its spread."""
        means = self.codes.means @ self.linear[0]
        return means.sub_(self.codes.spread, alpha=LEEWAY * float(self.linear.norm()))


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

    def meet(self, values: Tensor, lower: Tensor, spans: Sequence[slice]) -> None:
        """Look at the rows of spans, at bounds; one that cannot be has infinite ones."""
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
        self.kept.append((low[left], known[left], places_in(spans, some[left])))

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

    def best(
        self, asked: Asked, count: int, filters: Sequence[Filter], tau: float | None = None
    ) -> list[Found]:
        return [
            self._best(asked.take(place), count, filter_, tau)
            for place, filter_ in enumerate(filters)
        ]

    def _best(self, asked: Asked, count: int, filter_: Filter, tau: float | None) -> Found:
        bounds, best, read = Bounds(self.codes, asked), Best(count, tau, asked.score), 0
        shut = self._in_lists(filter_.possible, filter_.impossible)
        hidden = self._in_lists(filter_.wanted, filter_.unwanted)
        lists = self._lists(bounds, filter_)
        for spans in self._spans(lists):
            values = bounds.at(self.codes, spans)
            if shut is not None:
                values.masked_fill_(over(shut, spans), torch.inf)
            lower = bounds.below(values, self.codes, spans)
            if hidden is not None:
                lower.masked_fill_(over(hidden, spans), torch.inf)
            best.meet(values, lower, spans)
            read += len(values)
        if lists is not None and tau is not None:
            best.totals.append(self._unread(bounds, lists, shut, tau))
        return self._compare(asked, best, read)

    def _in_lists(self, open_: Tensor | None, ids: Tensor | None) -> Tensor | None:
        """Who is barred by a mask or by ids, place by place."""
        codes = self.codes
        if open_ is None and (ids is None or not len(ids)):
            return None
        size = len(codes)
        out = torch.zeros(size, dtype=torch.bool) if open_ is None else ~open_[codes.order.long()]
        if ids is not None:
            out[codes.place[ids].long()] = True
        return out

    def _lists(self, bounds: Bounds, filter_: Filter) -> Tensor | None:
        """Which lists are read; None: all."""
        return None

    def _spans(self, lists: Tensor | None) -> Iterator[list[slice]]:
        """What is read, some at a time."""
        size = len(self.codes)
        if lists is None:
            cuts = [0, *range(FIRST, size, AT_ONCE), size]
            yield from ([slice(*cut)] for cut in pairwise(cuts))
            return
        starts, stops = self.codes.starts[lists].tolist(), self.codes.starts[lists + 1].tolist()
        spans, held, most = list[slice](), 0, FIRST
        for start, stop in zip(starts, stops, strict=True):
            spans.append(slice(start, stop))
            held += stop - start
            if held >= most:
                yield spans
                spans, held, most = [], 0, AT_ONCE
        if spans:
            yield spans

    def _unread(self, bounds: Bounds, lists: Tensor, shut: Tensor | None, tau: float) -> Tensor:
        """What other lists add to the total, from a sample.

        Each of the sample stands for as many as there are to one of it.
        """
        codes, sampled = self.codes, self.codes.sampled
        read = torch.zeros(len(codes.spread), dtype=torch.bool)
        read[lists] = True
        read = read[codes.list_of_sample]
        if shut is not None:
            read |= shut[codes.sample.long()]
        values = bounds.at(sampled, [slice(None)]).masked_fill_(read, torch.inf)
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

    def _lists(self, bounds: Bounds, filter_: Filter) -> Tensor:
        counts = self._open(filter_)
        ranked = bounds.lists().argsort()
        ranked = ranked[counts[ranked] > 0]
        return ranked[: int((counts[ranked].cumsum(0) < self.reach).sum()) + 1]

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

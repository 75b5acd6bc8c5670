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
from typing import NamedTuple

import torch
from torch import Tensor

from knowledge_sheaves.embedding.search.finders import AT_ONCE, Asked, Filter, Finder, Found
from knowledge_sheaves.embedding.search.top import top
from knowledge_sheaves.sheaf.monomials import Candidates, Forms, Monomials

LARGEST = 127
ROUNDING = 4 * torch.finfo(torch.float32).eps
"""What adding up some hundred products in single precision loses of the product of the norms."""
LEEWAY = 0.1
"""A list counts as if its mean were so many times its spread better."""


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
        """The products of given rows with those of some spans: (given, rows)."""
        parts = [torch._int_mm(given.parts, self.codes[span].T) for span in spans]
        whole = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
        return whole.float().mul_(given.unit)


def over(table: Tensor, spans: Sequence[slice]) -> Tensor:
    """The rows of some spans."""
    parts = [table[span] for span in spans]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


@dataclass(frozen=True, eq=False)
class Codes:
    """All candidates of one type in 8 bits, list after list.

    ``more`` are their monomials where the model's forms need more than ‖x‖². ``columns`` are exact:
    ‖x‖², then the biases. ``order`` is the candidate at every place, ``starts`` is where lists
    start; ``means`` are of points, monomials and columns. ``reach`` rows are read by who does not
    read all.
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
    reach: int

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
            and 0 < self.reach <= size
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
            *(self.sample, self.longest, self.kind, len(some)),
        )

    @cached_property
    def list_of_sample(self) -> Tensor:
        return torch.searchsorted(self.starts, self.sample.long(), right=True) - 1

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
    """Forms that are ready to be bounded at codes."""

    def __init__(self, codes: Codes, asked: Asked) -> None:
        linear, weights, kind, constant = asked.forms
        self.codes, self.score = codes, asked.score
        rows = 2 * linear.float()
        self.points = Rounded.of(rows)
        self.lengths = rows.norm(dim=1, keepdim=True)
        at_norm = rows.new_zeros(len(rows), 1)
        self.more, self.more_lengths = None, at_norm
        if weights is not None and kind is Monomials.NORM:
            at_norm = weights.float()
        elif weights is not None and kind > Monomials.NORM:
            self.more = Rounded.of(weights.float())
            self.more_lengths = weights.float().norm(dim=1, keepdim=True)
        taken = rows.new_tensor([[-each for each in asked.favour]]).expand(len(rows), -1)
        self.columns = torch.cat([at_norm, taken], 1)
        self.constant = rows.new_zeros(len(rows)) if constant is None else constant.float()
        self.linear = torch.cat([rows, *self._wide(weights, kind), self.columns], 1)
        self.rest = self._rest()

    def _wide(self, weights: Tensor | None, kind: Monomials) -> list[Tensor]:
        if self.codes.more is None:
            return []
        width = self.codes.more.codes.shape[1]
        if weights is None or kind <= Monomials.NORM:
            return [self.columns.new_zeros(len(self.columns), width)]
        return [weights.float()]

    def _rest(self) -> Tensor:
        """What rounding the forms, and adding up, may cost at any candidate: (forms, 1)."""
        points, more, columns = self.codes.longest[0], self.codes.longest[1], self.codes.longest[2:]
        rest = self.points.rest * points
        size = self.lengths[:, 0] * points + self.columns.abs() @ columns + self.constant.abs()
        if self.more is not None:
            rest = rest + self.more.rest * more
            size = size + self.more_lengths[:, 0] * more
        return (rest + ROUNDING * size).unsqueeze(1)

    def at(self, codes: Codes, spans: Sequence[slice]) -> tuple[Tensor, Tensor]:
        """Values (forms, rows of the spans), and how far they may be off."""
        points, more = codes.points, codes.more
        values = points.product(self.points, spans).mul_(over(points.unit, spans))
        slack = self.rest + self.lengths * over(points.rest, spans)
        if self.more is not None:
            assert more is not None, "only forms that fit are asked"
            values += more.product(self.more, spans).mul_(over(more.unit, spans))
            slack += self.more_lengths * over(more.rest, spans)
        if self.columns.any():
            values.addmm_(self.columns, over(codes.columns, spans).T)
        return values.add_(self.constant.unsqueeze(1)), slack

    def lists(self) -> Tensor:
        """How good lists are, (forms, lists): the mean value of each, less some of its spread."""
        means = self.linear @ self.codes.means.T
        return means - LEEWAY * self.linear.norm(dim=1, keepdim=True) * self.codes.spread


class Best:
    """The places that can still be among the ``count`` best of one form."""

    def __init__(self, count: int, tau: float | None, score: Callable[[Tensor], Tensor]) -> None:
        self.count, self.tau = count, tau
        self.score = score
        self.threshold = math.inf
        self.uppers = torch.zeros(0)
        self.kept: list[tuple[Tensor, Tensor, Tensor]] = []
        self.totals: list[Tensor] = []

    def meet(
        self, values: Tensor, slack: Tensor, places: Tensor, hidden: Tensor | None = None
    ) -> None:
        """Look at bounds; a value that cannot be is infinite."""
        if self.tau is not None:
            self.totals.append(torch.logsumexp(self.score(values) / -self.tau, 0))
        lower = values - slack
        # Nothing that is infinite can win, and at first nobody knows what can.
        near = lower <= min(self.threshold, torch.finfo(torch.float32).max)
        if hidden is not None:
            near &= ~hidden
        some = near.nonzero().squeeze(1)
        if not len(some):
            return
        uppers = torch.cat([self.uppers, values[some] + slack[some]])
        self.uppers = top(uppers, self.count)[0]
        if len(self.uppers) == self.count:
            self.threshold = float(self.uppers[-1])
        some = some[lower[some] <= self.threshold]
        self.kept.append((lower[some], values[some], places[some]))

    def places(self) -> tuple[Tensor, Tensor]:
        """Those that are left, and their values as far as they are known."""
        if not self.kept:
            return torch.zeros(0, dtype=torch.long), torch.zeros(0)
        lower, values, places = (torch.cat(parts) for parts in zip(*self.kept, strict=True))
        left = lower <= self.threshold
        return places[left].long(), values[left]


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
        lists = self._lists(bounds, shut, hidden)
        for spans in self._spans(lists):
            values, slack = (each[0] for each in bounds.at(self.codes, spans))
            places = torch.cat([torch.arange(span.start, span.stop) for span in spans])
            if shut is not None:
                values.masked_fill_(over(shut, spans), torch.inf)
            best.meet(values, slack, places, None if hidden is None else over(hidden, spans))
            read += len(places)
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

    def _lists(self, bounds: Bounds, shut: Tensor | None, hidden: Tensor | None) -> Tensor | None:
        """Which lists are read; None: all."""
        return None

    def _spans(self, lists: Tensor | None) -> Iterator[list[slice]]:
        """What is read, some at a time."""
        size = len(self.codes)
        if lists is None:
            yield from ([slice(i, min(i + AT_ONCE, size))] for i in range(0, size, AT_ONCE))
            return
        starts, stops = self.codes.starts[lists].tolist(), self.codes.starts[lists + 1].tolist()
        spans, held = list[slice](), 0
        for start, stop in zip(starts, stops, strict=True):
            spans.append(slice(start, stop))
            held += stop - start
            if held >= AT_ONCE:
                yield spans
                spans, held = [], 0
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
        values = bounds.at(sampled, [slice(None)])[0][0].masked_fill_(read, torch.inf)
        return torch.logsumexp(bounds.score(values) / -tau, 0) + math.log(
            len(codes) / max(1, len(sampled))
        )

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
    """Reads the lists that are best in the mean; some of the best answers may be in others."""

    exact = False

    def __init__(
        self,
        candidates: Candidates,
        biases: Tensor | None,
        codes: Codes,
        reach: int | None = None,
    ) -> None:
        super().__init__(candidates, biases, codes)
        self.reach = codes.reach if reach is None else reach

    def _lists(self, bounds: Bounds, shut: Tensor | None, hidden: Tensor | None) -> Tensor:
        codes = self.codes
        barred = shut if hidden is None else hidden if shut is None else shut | hidden
        counts = codes.sizes() if barred is None else _open(barred, codes.starts)
        ranked = bounds.lists()[0].argsort()
        ranked = ranked[counts[ranked] > 0]
        return ranked[: int((counts[ranked].cumsum(0) < self.reach).sum()) + 1]


def _open(barred: Tensor, starts: Tensor) -> Tensor:
    """How many of each list are not barred."""
    before = torch.cat([torch.zeros(1, dtype=torch.long), (~barred).cumsum(0)])
    return before[starts].diff()

"""Candidates in 8 bits: a quarter of the memory to read, and a bound on what rounding cost.

A row x is kept as s·c, c whole numbers between −127 and 127, with ‖x − s·c‖ beside it. Then
⟨q, x⟩ lies within ‖q‖ ‖x − s·c‖ of s⟨q, c⟩, and rows that cannot be among the best are told from
the others without being looked at. Those others are compared exactly.

Rows of one list (a cluster of vectors) are neighbours. Who reads all rows misses nothing; who reads
the lists of least mean value misses little. A list's mean value is the form at its mean row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from knowledge_sheaves.embedding.search.finders import Asked
from knowledge_sheaves.sheaf.monomials import Candidates, Forms, Monomials

LARGEST = 127
ROUNDING = 6 * torch.finfo(torch.float32).eps
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

    def product(self, given: Rounded, where: Where) -> Tensor:
        """The products of the codes of given rows with those of some places."""
        return torch._int_mm(given.parts, self.codes[where].T).float()


Where: TypeAlias = slice | Tensor
"""Places that follow each other, or single ones, ascending."""


def places_in(where: Where, some: Tensor) -> Tensor:
    """The places of some of the rows.

    >>> places_in(slice(5, 8), torch.tensor([0, 2]))
    tensor([5, 7])
    >>> places_in(torch.tensor([4, 9]), torch.tensor([1]))
    tensor([9])
    """
    return some + where.start if isinstance(where, slice) else where[some]


def rows_at(where: Where, places: Tensor) -> tuple[Tensor, Tensor]:
    """Which of some places are there, and in which rows.

    >>> rows_at(torch.tensor([4, 9]), torch.tensor([9, 7, 4]))
    (tensor([ True, False,  True]), tensor([1, 0]))
    """
    if isinstance(where, slice):
        there = (places >= where.start) & (places < where.stop)
        return there, places[there] - where.start
    rows = torch.searchsorted(where, places).clamp_(max=len(where) - 1)
    there = where[rows] == places
    return there, rows[there]


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
    def sampled_places(self) -> tuple[Tensor, Tensor]:
        """The places of the sample, ascending, and where in it each is."""
        return self.sample.long().sort()

    @cached_property
    def list_of_sample(self) -> Tensor:
        return self.lists_of(self.sample.long())

    def lists_of(self, places: Tensor) -> Tensor:
        """The list that every place is in."""
        return torch.searchsorted(self.starts, places, right=True) - 1

    def sizes(self) -> Tensor:
        """How many candidates each list has."""
        return self.starts.diff()

    def places_of(self, lists: Tensor) -> Tensor:
        """All places of some lists, ascending."""
        lists = lists.sort().values
        starts, sizes = self.starts[lists].long(), self.sizes()[lists].long()
        first = starts - (sizes.cumsum(0) - sizes)
        return torch.repeat_interleave(first, sizes) + torch.arange(int(sizes.sum()))


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
        self.points, self.length = Rounded.of(rows), rows.norm(dim=1, keepdim=True)
        at_norm = rows.new_zeros(len(rows), 1)
        self.more, self.more_length = None, at_norm
        if weights is not None and kind is Monomials.NORM:
            at_norm = weights.float()
        elif weights is not None and kind > Monomials.NORM:
            self.more = Rounded.of(weights.float())
            self.more_length = weights.float().norm(dim=1, keepdim=True)
        taken = rows.new_tensor([[-each for each in asked.favour]]).expand(len(rows), -1)
        self.columns = torch.cat([at_norm, taken], 1)
        self.constant = at_norm.new_zeros(len(rows), 1)
        if constant is not None:
            self.constant += constant.float().reshape(-1, 1)
        self.linear = torch.cat([rows, *self._wide(weights, kind), self.columns], 1)
        self.has_columns = bool(self.columns.any())
        self.rest = self._rest()

    def _wide(self, weights: Tensor | None, kind: Monomials) -> list[Tensor]:
        if self.codes.more is None:
            return []
        width = self.codes.more.codes.shape[1]
        if weights is None or kind <= Monomials.NORM:
            return [self.columns.new_zeros(len(self.columns), width)]
        return [weights.float()]

    def _rest(self) -> Tensor:
        """What rounding a form, and adding up, may cost at any candidate."""
        points, more, *columns = self.codes.longest.tolist()
        rest = self.points.rest[:, None] * points
        own = self.columns.abs() @ self.columns.new_tensor(columns)[:, None]
        size = self.length * points + self.more_length * more + own + self.constant.abs()
        if self.more is not None:
            rest = rest + self.more.rest[:, None] * more
        return rest + ROUNDING * size

    def at(self, codes: Codes, where: Where) -> Tensor:
        """The values of all forms at the rows of some places, as far as they are known."""
        points, more = codes.points, codes.more
        values = points.product(self.points, where)
        values.mul_(points.unit[where]).mul_(self.points.unit).add_(self.constant)
        if self.more is not None:
            assert more is not None, "only forms that fit are asked"
            values.addcmul_(more.product(self.more, where).mul_(more.unit[where]), self.more.unit)
        if self.has_columns:
            values.addmm_(self.columns, codes.columns[where].T)
        return values

    def below(self, values: Tensor, codes: Codes, where: Where) -> Tensor:
        """What the exact values are not below, where `at` found values."""
        lower = torch.addcmul(values, codes.points.rest[where], self.length, value=-1)
        if self.more is not None:
            assert codes.more is not None
            lower.addcmul_(codes.more.rest[where], self.more_length, value=-1)
        return lower.sub_(self.rest)

    def lists(self) -> Tensor:
        """How good lists are for every form: the mean value of each, less some of its spread."""
        means = self.linear @ self.codes.means.T
        norms = self.linear.norm(dim=1, keepdim=True)
        return means.addcmul_(self.codes.spread, norms, value=-LEEWAY)

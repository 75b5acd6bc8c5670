"""The best candidates for linear forms under filters, and what finds them.

Every energy with a linear form ranks candidates by ⟨q, x⟩ with x the candidate's vector and its
monomials (`sheaf.monomials`): the best answers are a search for the largest inner product.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from knowledge_sheaves.embedding.search.top import top
from knowledge_sheaves.sheaf.monomials import Candidates, Forms

AT_ONCE = 1 << 16
"""How many rows are worked on at a time: what is computed from them stays in a core's cache."""


def itself(values: Tensor) -> Tensor:
    return values


@dataclass(frozen=True)
class Asked:
    """Forms, and how often each column of the candidates' biases is taken off their values.

    ``score`` makes of values, in the same order, what probabilities are made of.
    """

    forms: Forms
    favour: tuple[float, ...] = ()
    score: Callable[[Tensor], Tensor] = itself

    def __len__(self) -> int:
        return len(self.forms.linear)

    def each(self) -> list[Asked]:
        """The forms one by one."""
        return [self.take(slice(place, place + 1)) for place in range(len(self))]

    def take(self, mine: slice) -> Asked:
        """Some of the forms."""
        linear, weights, kind, constant = self.forms
        some = Forms(
            linear[mine],
            None if weights is None else weights[mine],
            kind,
            None if constant is None else constant[mine],
        )
        return replace(self, forms=some)


@dataclass(frozen=True)
class Filter:
    """Which candidates are answers; masks are over all of them, ids are places among them.

    What is not ``possible``, or is ``impossible``, has no share in probabilities either; what is
    not ``wanted``, or is ``unwanted``, is only not shown.
    """

    possible: Tensor | None = None
    impossible: Tensor | None = None
    wanted: Tensor | None = None
    unwanted: Tensor | None = None


def _bar(values: Tensor, open_: Tensor | None, ids: Tensor | None) -> None:
    if open_ is not None:
        values.masked_fill_(~open_, torch.inf)
    if ids is not None:
        values[ids] = torch.inf


class Found(NamedTuple):
    """The best candidates of one form, ascending by value, and log Σ exp(−value/τ) of all."""

    rows: Tensor
    values: Tensor
    log_total: float
    looked_at: int
    """How many were compared, or bounded, one by one."""


class Finder(ABC):
    """Finds the best of some candidates, whose ``biases`` are (candidates, columns)."""

    exact = True

    def __init__(self, candidates: Candidates, biases: Tensor | None) -> None:
        self.candidates, self.biases = candidates, biases

    def takes(self, asked: Asked) -> bool:
        """Whether it can look for these forms."""
        return True

    @abstractmethod
    def best(
        self, asked: Asked, count: int, filters: Sequence[Filter], tau: float | None = None
    ) -> list[Found]:
        """The ``count`` candidates of least value for every form, which has a filter each."""

    def values(self, asked: Asked, rows: Tensor | None = None) -> Tensor:
        """The values of every form at some candidates, or at all."""
        some = self.candidates if rows is None else self.candidates.take(rows)
        values = some.product(*asked.forms)
        if self.biases is not None:
            biases = self.biases if rows is None else self.biases[rows]
            values -= biases.to(values) @ values.new_tensor(asked.favour)
        return asked.score(values)


class FullScan(Finder):
    """Compares all candidates by one product."""

    def best(
        self, asked: Asked, count: int, filters: Sequence[Filter], tau: float | None = None
    ) -> list[Found]:
        found = []
        size = len(self.candidates)
        for values, filter_ in zip(self.values(asked), filters, strict=True):
            _bar(values, filter_.possible, filter_.impossible)
            total = math.nan if tau is None else float(torch.logsumexp(-values / tau, 0))
            _bar(values, filter_.wanted, filter_.unwanted)
            best, rows = top(values, count)
            possible = best < torch.inf
            found.append(Found(rows[possible], best[possible], total, size))
        return found

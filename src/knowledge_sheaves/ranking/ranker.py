"""Where answers stand among all entities: the one place that ranks, for facts and for queries.

Ranks are *filtered*: other answers that are known to be true do not compete. An energy that is not
a number is as bad as infinity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knowledge_sheaves.graph import IntArray
from knowledge_sheaves.graph.arrays import gather_slices

FloatArray: TypeAlias = npt.NDArray[np.float64]

MEMORY_LIMIT = 256 * 2**20
# A matrix product gains nothing from more rows than this at once.
MOST_ROWS = 1024
# Counting is bound by memory: rows are compared a few at a time, while they are in the cache. With
# smaller blocks threads would wait for each other too often on a busy machine.
CACHED_SCORES = 2**21
# Up to so many answers of a query are compared with its energies one by one; for more, sorting the
# energies once is faster.
FEW_ANSWERS = 16


class IdLists(Protocol):
    """The entities of each query: ``ids[offsets[i]:offsets[i + 1]]``."""

    @property
    def ids(self) -> IntArray: ...

    @property
    def offsets(self) -> IntArray: ...


@dataclass(frozen=True)
class Lists:
    """`IdLists` and nothing more.

    >>> Lists(np.array([5, 6, 7]), np.array([0, 2, 3])).take(np.array([1])).ids.tolist()
    [7]
    """

    ids: IntArray
    offsets: IntArray

    @classmethod
    def of(cls, given: IdLists) -> Lists:
        """The same lists."""
        return cls(given.ids, given.offsets)

    @property
    def counts(self) -> IntArray:
        """How many entities each list has."""
        return np.diff(self.offsets)

    @property
    def rows(self) -> IntArray:
        """The list that each entity is in."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.counts)

    def take(self, lists: IntArray) -> Lists:
        """Some of the lists."""
        starts, stops = self.offsets[lists], self.offsets[lists + 1]
        return Lists(*gather_slices(self.ids, starts, stops))


@dataclass(frozen=True)
class SideRanks:
    """Where each true answer stands among ``candidates``, itself counted; the best rank is 1.

    What has an infinite energy, because its type rules it out, comes behind all others and is no
    candidate, unless the true answer has one too.

    Answers of equal energy may come after it (``optimistic``) or before it (``pessimistic``).

    >>> SideRanks(np.array([2]), np.array([5]), candidates=np.array([9])).realistic.tolist()
    [3.5]
    """

    optimistic: IntArray
    pessimistic: IntArray
    candidates: IntArray

    @property
    def realistic(self) -> FloatArray:
        """The expected rank when ties are broken at random."""
        return (self.optimistic + self.pessimistic) / 2

    def __getitem__(self, chosen: npt.NDArray[np.bool_] | IntArray) -> SideRanks:
        """Return the ranks of some of the answers."""
        parts = (self.optimistic[chosen], self.pessimistic[chosen], self.candidates[chosen])
        return SideRanks(*parts)

    def __len__(self) -> int:
        return len(self.candidates)

    @staticmethod
    def concatenate(parts: Sequence[SideRanks]) -> SideRanks:
        """Return several ranks as one."""
        columns = zip(*((p.optimistic, p.pessimistic, p.candidates) for p in parts), strict=True)
        nothing = [np.zeros(0, np.int64)] * 3
        return SideRanks(*(np.concatenate(each) for each in columns) if parts else nothing)


def rank_among(
    energies: Tensor, ranked: IdLists, filtered: IdLists, overwrite: bool = False
) -> SideRanks:
    """Rank answers of queries by energies (queries, entities), the lowest first.

    An answer competes with all entities but the query's ``filtered`` ones; whether it is one of
    those itself does not matter. With ``overwrite`` the energies need not be kept, which spares a
    copy.

    >>> energies = torch.tensor([[0.0, 1.0, 2.0, 2.0]])
    >>> asked, known = (Lists(np.array(ids), np.array([0, 2])) for ids in ([1, 3], [0, 1]))
    >>> rank_among(energies, asked, known).realistic.tolist()
    [1.0, 1.5]
    """
    asked, known, width = Lists.of(ranked), Lists.of(filtered), energies.shape[1]
    below, up_to_it, candidates = (np.empty(len(asked.ids), np.int64) for _ in range(3))
    # Queries with the most answers come first: see `_compare`.
    order = np.argsort(-asked.counts, kind="stable")
    order = order[asked.counts[order] > 0]
    height = max(1, CACHED_SCORES // max(width, 1))
    places = Lists(np.arange(len(asked.ids)), asked.offsets)
    # Made once: fresh memory costs more than a look at what is in it.
    copy = torch.empty_like(energies[:height])
    scratch = torch.empty_like(copy, dtype=torch.bool)
    for start in range(0, len(order), height):
        rows = order[start : start + height]
        mine, others = asked.take(rows), known.take(rows)
        if overwrite and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) > 0).all():
            block = energies[rows[0] : rows[-1] + 1]
        else:
            block = copy[: len(rows)]
            torch.index_select(energies, 0, to_index(rows, energies), out=block)
        regular = bool(block.sum(1).isfinite().all())  # nothing is ruled out, nothing is no number
        answers = to_index(mine.rows, block), to_index(mine.ids, block)
        true = block[answers].nan_to_num_(torch.inf, torch.inf, -torch.inf)
        block[answers] = true
        # Neither below nor up to anything: a known answer drops out of every count.
        block[to_index(others.rows, block), to_index(others.ids, block)] = torch.nan
        itself = block[answers].isnan().cpu().numpy()
        if regular:
            possible = width - others.counts
        else:
            worst_of_all = block.new_full((len(rows), 1), torch.inf)
            possible = _how_many("less", block, worst_of_all, scratch).cpu().numpy()
        lower, up_to = count_below(block, true, mine.offsets, scratch)
        rivals = width - others.counts[mine.rows]
        # Nothing is worse than infinity. All else that no number is, is worse than a number.
        worst = true.isposinf().cpu().numpy()
        at = places.take(rows).ids
        # What was left out as known answers included the true one itself, where it is known.
        below[at], up_to_it[at] = lower, np.where(worst, rivals, up_to) + itself
        candidates[at] = np.where(worst, rivals, possible[mine.rows]) + itself
    return SideRanks(below + 1, up_to_it, candidates)


def chunks(rows: int, num_entities: int, memory_limit: int) -> Iterator[slice]:
    """Cut queries into slices whose energies, in single precision, fit into the memory limit.

    >>> [part.stop for part in chunks(5, num_entities=100, memory_limit=800)]
    [2, 4, 5]
    """
    size = max(1, min(MOST_ROWS, memory_limit // (4 * max(num_entities, 1))))
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def to_index(ids: IntArray, like: Tensor) -> Tensor:
    """Return ids as an index on the device of a tensor."""
    return torch.from_numpy(ids.astype(np.int64, copy=False)).to(like.device)


def count_below(
    block: Tensor, true: Tensor, starts: IntArray, scratch: Tensor
) -> tuple[IntArray, IntArray]:
    """Count, for each true energy, the energies of its row that are below it, and up to it."""
    many = int(np.count_nonzero(np.diff(starts) > FEW_ANSWERS))
    border = starts[many]
    found = (
        _search(block[:many], true[:border], starts[: many + 1]),
        _compare(block[many:], true[border:], starts[many:] - border, scratch),
    )
    below, up_to = (torch.cat(parts) for parts in zip(*found, strict=True))
    return below.cpu().numpy(), up_to.cpu().numpy()


def _compare(
    block: Tensor, true: Tensor, starts: IntArray, scratch: Tensor
) -> tuple[Tensor, Tensor]:
    """One answer of a row after the other.

    Rows with the most answers come first, so the j-th answers belong to a prefix of them: a view,
    compared in one go.
    """
    counts = np.diff(starts)
    below = torch.empty(len(true), dtype=torch.long, device=true.device)
    up_to = torch.empty_like(below)
    for turn in range(int(counts.max(initial=0))):
        busy = int(np.count_nonzero(counts > turn))
        places = to_index(starts[:busy] + turn, true)
        values = true[places].unsqueeze(1)
        below[places] = _how_many("less", block[:busy], values, scratch)
        up_to[places] = _how_many("less_equal", block[:busy], values, scratch)
    return below, up_to


def _how_many(
    relation: Literal["less", "less_equal"], block: Tensor, values: Tensor, scratch: Tensor
) -> Tensor:
    """How many energies of each row stand so to the row's value; ``scratch`` is overwritten."""
    out = scratch[: len(block)]
    if block.device.type != "cpu":
        compared: Tensor = getattr(torch, relation)(block, values, out=out)
        return compared.sum(1)
    # NumPy compares and counts in six tenths of torch's time.
    getattr(np, relation)(block.numpy(), values.numpy(), out=out.numpy())
    return torch.tensor([np.count_nonzero(row) for row in out.numpy()], dtype=torch.long)


def _search(block: Tensor, true: Tensor, starts: IntArray) -> tuple[Tensor, Tensor]:
    """All answers of a row at once, in the row's energies by size."""
    below = torch.empty(len(true), dtype=torch.long, device=true.device)
    up_to = torch.empty_like(below)
    for row, (start, stop) in zip(block, pairwise(starts.tolist()), strict=True):
        # NumPy sorts single rows an order of magnitude faster than torch, and what is no number
        # comes last.
        numbers = int((~row.isnan()).sum())
        ordered = torch.from_numpy(np.sort(row.cpu().numpy())[:numbers]).to(true.device)
        values = true[start:stop]
        below[start:stop] = torch.searchsorted(ordered, values)
        up_to[start:stop] = torch.searchsorted(ordered, values, right=True)
    return below, up_to

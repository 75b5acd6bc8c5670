"""What was computed from tensors that are met again and again, kept by what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from torch import Tensor

MOST_MET = 100_000
"""How many are known by sight."""


def rows_by_content(rows: Tensor) -> dict[bytes, list[int]]:
    """The places of the rows (n, …) of a tensor that hold the same, by a digest of what they hold.

    >>> import torch
    >>> list(rows_by_content(torch.tensor([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])).values())
    [[0, 2], [1]]
    """
    found: dict[bytes, list[int]] = {}
    for place, row in enumerate(rows.detach().cpu().contiguous().numpy()):
        found.setdefault(blake2b(row, digest_size=16).digest(), []).append(place)
    return found


class Recurring:
    """Up to ``most`` results. What is met once is not worth keeping, and costs a digest.

    Where there is no room all are forgotten, and those that are still asked for come back.

    >>> import torch
    >>> squares = Recurring(most=2)
    >>> squares.meet({b"a": [0], b"b": [1, 2]}), squares.meet({b"a": [0]})
    ({b'b'}, {b'a'})
    >>> squares.keep(b"a", torch.ones(1))
    >>> squares.get(b"a"), squares.get(b"b")
    (tensor([1.]), None)
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._kept: dict[bytes, Tensor] = {}
        self._met: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._kept)

    def meet(self, rows: Mapping[bytes, list[int]]) -> set[bytes]:
        """Those of these that recur: met before, or more than once now."""
        again = {key for key, places in rows.items() if len(places) > 1 or key in self._met}
        if len(self._met) + len(rows) > MOST_MET:
            self._met = set()
        self._met.update(rows)
        return again

    def get(self, key: bytes) -> Tensor | None:
        return self._kept.get(key)

    def keep(self, key: bytes, value: Tensor) -> None:
        if len(self._kept) >= self.most:
            self._kept = {}
        if self.most:
            self._kept[key] = value

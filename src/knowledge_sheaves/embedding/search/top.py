"""The smallest values of long rows."""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 64
"""How many neighbouring values `top` looks at as one."""


def top(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The smallest values of every row and their places, ascending; NaN counts as largest.

    In long rows only some blocks are looked into: the k smallest values lie in the k blocks with
    the smallest minima, and minima are found ten times faster than places.

    >>> top(torch.tensor([[3.0, 1.0, 2.0]]), 2)
    (tensor([[1., 2.]]), tensor([[1, 2]]))
    """
    count, width = min(count, values.shape[-1]), values.shape[-1]
    blocks = width // BLOCK
    if blocks < 4 * count:
        return _smallest(values, count)
    minima = values[..., : blocks * BLOCK].unflatten(-1, (blocks, BLOCK)).amin(-1)
    if minima.isnan().any():  # a minimum is NaN if one value is
        return _smallest(values, count)
    nearest = _smallest(minima, count)[1]
    inside = (nearest.unsqueeze(-1) * BLOCK + torch.arange(BLOCK, device=values.device)).flatten(-2)
    rest = torch.arange(blocks * BLOCK, width, device=values.device).expand(*inside.shape[:-1], -1)
    places = torch.cat([inside, rest], -1)
    best, where = _smallest(values.gather(-1, places), count)
    return best, places.gather(-1, where)


def _smallest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    best = torch.topk(values, count, dim=-1, largest=False, sorted=True)
    return best.values, best.indices

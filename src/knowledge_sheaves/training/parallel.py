"""Data-parallel training over processes started by torchrun, with gradients averaged by gloo.

torch's own wrapper takes sparse gradients from `nn.Embedding` modules only; averaging them here is
a dozen lines, and works for tables that only some processes have touched in a step.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn

ABSENT, SPARSE, DENSE = range(3)


class Processes:
    """This process's place among those that train together; alone, all of it does nothing."""

    def __init__(self) -> None:
        self.count = int(os.environ.get("WORLD_SIZE", 1))
        self.rank = int(os.environ.get("RANK", 0))
        if self.count > 1 and not dist.is_initialized():
            dist.init_process_group("gloo")

    @property
    def first(self) -> bool:
        return self.rank == 0

    def average(self, parameters: Iterable[nn.Parameter]) -> None:
        """Give every process the mean of all processes' gradients."""
        if self.count == 1:
            return
        known = list(parameters)
        kinds = torch.tensor([_kind(p.grad) for p in known])
        dist.all_reduce(kinds, dist.ReduceOp.MAX)
        for parameter, kind in zip(known, kinds.tolist(), strict=True):
            if kind != ABSENT:
                gradient = _as(kind, parameter)
                dist.all_reduce(gradient)
                parameter.grad = gradient / self.count

    def mean(self, value: float) -> float:
        """The mean of a number over all processes."""
        if self.count == 1:
            return value
        total = torch.tensor(value, dtype=torch.float64)
        dist.all_reduce(total)
        return float(total) / self.count

    def close(self) -> None:
        if self.count > 1 and dist.is_initialized():
            dist.barrier()
            dist.destroy_process_group()


def _kind(gradient: Tensor | None) -> int:
    if gradient is None:
        return ABSENT
    return SPARSE if gradient.is_sparse else DENSE


def _as(kind: int, parameter: nn.Parameter) -> Tensor:
    """This process's gradient in the form that all agree on."""
    gradient = parameter.grad
    if kind == DENSE:
        if gradient is None:
            return torch.zeros_like(parameter)
        return gradient.to_dense() if gradient.is_sparse else gradient.contiguous()
    if gradient is not None:
        return gradient.coalesce()
    rows = torch.zeros(1, 0, dtype=torch.long)
    values = parameter.detach().new_zeros(0, *parameter.shape[1:])
    return torch.sparse_coo_tensor(rows, values, parameter.shape).coalesce()

"""Exact maximisation over small domains: tables of log-probabilities, one variable after another.

This is what a query with cycles comes down to once each unknown has its candidates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Table(NamedTuple):
    """A factor: values (batch, *domains) with a domain for each of the variables ``axes``."""

    axes: Sequence[str]
    values: Tensor


def maximise(tables: Sequence[Table], keep: Sequence[str]) -> Tensor:
    """The largest sum of all tables for each assignment of the variables that are kept.

    >>> pair = Table(("x", "y"), torch.tensor([[[1.0, 2.0], [0.0, 5.0]]]))
    >>> maximise([pair, Table(("y",), torch.tensor([[3.0, 0.0]]))], ("x",))
    tensor([[4., 5.]])
    """
    left = list(tables)
    for variable in order([table.axes for table in tables], keep):
        mine = [table for table in left if variable in table.axes]
        left = [table for table in left if variable not in table.axes]
        axes = _union([table.axes for table in mine])
        total = _total(mine, axes)
        rest = tuple(axis for axis in axes if axis != variable)
        left.append(Table(rest, total.amax(1 + axes.index(variable))))
    return _total(left, keep)


def order(scopes: Sequence[Sequence[str]], keep: Sequence[str]) -> list[str]:
    """The variables to eliminate, each time the one that joins the fewest others."""
    return [variable for variable, _ in _steps(scopes, keep)]


def largest(scopes: Sequence[Sequence[str]], keep: Sequence[str], sizes: Mapping[Any, int]) -> int:
    """How many numbers the largest table on the way has."""
    steps = [axes for _, axes in _steps(scopes, keep)] + [keep]
    return max(math.prod(sizes[axis] for axis in axes) for axes in steps)


def _steps(
    scopes: Sequence[Sequence[str]], keep: Sequence[str]
) -> list[tuple[str, tuple[str, ...]]]:
    left = [frozenset(scope) for scope in scopes]
    variables = [v for v in _union(list(scopes)) if v not in keep]
    steps = []
    while variables:

        def joined(variable: str, among: list[frozenset[str]] = left) -> frozenset[str]:
            return frozenset().union(*(scope for scope in among if variable in scope))

        variable = min(variables, key=lambda v: len(joined(v)))
        axes = joined(variable)
        left = [scope for scope in left if variable not in scope] + [axes - {variable}]
        variables.remove(variable)
        steps.append((variable, tuple(sorted(axes))))
    return steps


def _union(scopes: Sequence[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(axis for scope in scopes for axis in scope))


def _total(tables: Sequence[Table], axes: Sequence[str]) -> Tensor:
    """The sum of tables, spread over all the axes in their order."""
    total: Tensor | None = None
    for table in tables:
        mine = [axis for axis in axes if axis in table.axes]
        values = table.values.permute(0, *(1 + table.axes.index(axis) for axis in mine))
        for place, axis in enumerate(axes):
            if axis not in table.axes:
                values = values.unsqueeze(1 + place)
        total = values if total is None else total + values
    assert total is not None, "there is at least one table"
    return torch.as_tensor(total)

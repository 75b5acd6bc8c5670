"""Adagrad and Adam that touch only the rows a step has used.

A batch looks up a few thousand of perhaps millions of entities; gradients of the tables are sparse,
and so are these updates. (torch's own Adagrad does it too, in many more passes over memory.)
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT


class RowOptimiser(torch.optim.Optimizer):
    """Updates whole tensors for dense gradients and single rows for sparse ones."""

    # As torch wraps them, the first call of one imports torch's compiler: seconds for nothing.
    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)

    def __init__(self, parameters: ParamsT, lr: float, **defaults: Any) -> None:
        super().__init__(parameters, {"lr": lr, **defaults})
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter] = self.first_state(parameter)

    def first_state(self, parameter: Tensor) -> dict[str, Tensor]:
        raise NotImplementedError

    def update(self, group: dict[str, Any], state: dict[str, Tensor], gradient: Tensor) -> Tensor:
        """Bring the state of some rows up to date, in place, and return the rows' step."""
        raise NotImplementedError

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not parameter.grad.is_sparse:
                    parameter.sub_(self.update(group, state, parameter.grad))
                    continue
                gradient = parameter.grad.coalesce()
                rows = gradient.indices()[0]
                local = {name: value[rows] for name, value in state.items()}
                step = self.update(group, local, gradient.values())
                for name, value in local.items():
                    state[name].index_copy_(0, rows, value)
                parameter.index_add_(0, rows, step, alpha=-1)
        return loss


class RowAdagrad(RowOptimiser):
    """Adagrad: every coordinate's step shrinks with the sum of its squared gradients."""

    def __init__(self, parameters: ParamsT, lr: float, eps: float = 1e-10) -> None:
        super().__init__(parameters, lr, eps=eps)

    def first_state(self, parameter: Tensor) -> dict[str, Tensor]:
        return {"sum": torch.zeros_like(parameter)}

    def update(self, group: dict[str, Any], state: dict[str, Tensor], gradient: Tensor) -> Tensor:
        state["sum"].addcmul_(gradient, gradient)
        return (gradient / state["sum"].sqrt().add_(group["eps"])).mul_(group["lr"])


class RowwiseAdagrad(RowOptimiser):
    """Adagrad with one number a row, the sum of its mean squared gradients.

    What is kept beside a table is then a hundredth of it, and not as much again.
    """

    def __init__(self, parameters: ParamsT, lr: float, eps: float = 1e-10) -> None:
        super().__init__(parameters, lr, eps=eps)

    def first_state(self, parameter: Tensor) -> dict[str, Tensor]:
        return {"sum": parameter.new_zeros(len(parameter) if parameter.ndim else 1)}

    def update(self, group: dict[str, Any], state: dict[str, Tensor], gradient: Tensor) -> Tensor:
        rows = gradient.reshape(len(state["sum"]), -1)
        state["sum"].add_(rows.square().mean(1))
        spread = state["sum"].sqrt().add_(group["eps"])
        return (rows / spread.unsqueeze(1)).mul_(group["lr"]).view_as(gradient)


class RowAdam(RowOptimiser):
    """Adam; rows that a step does not touch keep their moments (lazy Adam)."""

    def __init__(
        self,
        parameters: ParamsT,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(parameters, lr, betas=betas, eps=eps)

    def first_state(self, parameter: Tensor) -> dict[str, Tensor]:
        rows = len(parameter) if parameter.ndim else 1
        return {
            "mean": torch.zeros_like(parameter),
            "square": torch.zeros_like(parameter),
            "steps": torch.zeros(rows, device=parameter.device),
        }

    def update(self, group: dict[str, Any], state: dict[str, Tensor], gradient: Tensor) -> Tensor:
        first, second = group["betas"]
        state["steps"] += 1
        state["mean"].lerp_(gradient, 1 - first)
        state["square"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        steps = state["steps"].reshape(-1, *[1] * (gradient.ndim - 1))
        # 1 − βⁿ without losing its digits: not every device has double precision.
        grown, widened = (-torch.expm1(steps * math.log(beta)) for beta in (first, second))
        # What corrects the second moment is drawn out of the root: fewer passes over the rows.
        root = widened.sqrt()
        spread = state["square"].sqrt().add_(group["eps"] * root)
        return (state["mean"] / spread).mul_(group["lr"] * root / grown)


OPTIMISERS: dict[str, type[RowOptimiser]] = {
    "adagrad": RowAdagrad,
    "rowwise-adagrad": RowwiseAdagrad,
    "adam": RowAdam,
}

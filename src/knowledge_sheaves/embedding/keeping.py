"""What is computed from parameters once and kept until one of them changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

from torch import nn

T = TypeVar("T")


class Keeping(nn.Module):
    """A module that knows whether its parameters have changed.

    >>> import torch
    >>> module = Keeping()
    >>> module.weight = nn.Parameter(torch.ones(2))
    >>> module.keep("sum", lambda: float(module.weight.sum()))
    2.0
    >>> with torch.no_grad():
    ...     _ = module.weight.mul_(2)
    >>> module.keep("sum", lambda: float(module.weight.sum()))
    4.0
    """

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[object, object] = {}
        self._saved: object = None

    @cached_property
    def _parts(self) -> tuple[nn.Module, ...]:
        """The modules that hold parameters; to find them takes longer than a small answer."""
        return tuple(part for part in self.modules() if part._parameters)

    def _state(self) -> tuple[tuple[int, int], ...]:
        """What changes whenever a parameter does."""
        held = (p for part in self._parts for p in part._parameters.values() if p is not None)
        return tuple((p.data_ptr(), p._version) for p in held)

    def mark_saved(self) -> None:
        """Remember that the folder holds these very parameters."""
        self._saved = self._state()

    @property
    def is_as_saved(self) -> bool:
        """Whether no parameter has changed since the model was saved or loaded."""
        return self._saved == self._state()

    def keep(self, key: object, make: Callable[[], T]) -> T:
        """What a model always gives alike, computed once and kept until a parameter changes."""
        version = self._state()
        if self._kept.get("version") != version:
            self._kept = {"version": version}
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]  # type: ignore[return-value]

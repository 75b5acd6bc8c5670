"""A device of PyTorch that is written in Python, for tests where there is no other.

Its tensors hold ordinary ones on the CPU and refuse to be mixed with them, as those of any other
device do. Only import this in a process of its own: a device cannot be taken back.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_iter, tree_map_only
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "elsewhere"
aten = torch.ops.aten
# What brings numbers from one device to another, as on any device.
BRIDGES = {aten.copy_.default, aten._to_copy.default, aten._copy_from.default}


class Elsewhere(Tensor):
    """A tensor on the device: everything but its numbers, which ``held`` has on the CPU."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> Elsewhere:
        held = held.resolve_conj().resolve_neg()  # a conjugate that is not carried out yet
        strided = held.layout is torch.strided
        places = (
            {"strides": held.stride(), "storage_offset": held.storage_offset()} if strided else {}
        )
        made = Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            dtype=held.dtype,
            layout=held.layout,
            device=torch.device(NAME, 0),
            **places,
        )
        made.held = held
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Elsewhere({self.held!r})"

    def tolist(self) -> Any:
        return self.held.tolist()

    def numpy(self, **_: Any) -> Any:
        raise TypeError(f"A tensor on {NAME} has no array: use cpu() first.")

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatch(op, args, kwargs or {})


def dispatch(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Compute on the CPU with what the tensors hold, if all of them are here."""
    given = [t for t in tree_iter((args, kwargs)) if isinstance(t, Tensor)]
    if op not in BRIDGES and any(isinstance(t, Elsewhere) for t in given):
        strangers = [t for t in given if not isinstance(t, Elsewhere) and t.ndim]
        if strangers:
            raise RuntimeError(f"{op} mixes {NAME} and cpu: {tuple(strangers[0].shape)}")
    wanted = kwargs.get("device")
    here = any(isinstance(t, Elsewhere) for t in given) if wanted is None else is_here(wanted)
    plain_args, plain = tree_map_only(Elsewhere, lambda t: t.held, (args, kwargs))
    if wanted is not None:
        plain["device"] = torch.device("cpu")
    if plain.get("pin_memory"):
        plain["pin_memory"] = False
    found = op(*plain_args, **plain)
    if is_in_place(op):
        return args[0]
    if "out" in kwargs:
        return kwargs["out"]
    return tree_map_only(Tensor, Elsewhere, found) if here else found


def is_here(device: Any) -> bool:
    return torch.device(device).type == NAME


def is_in_place(op: Any) -> bool:
    return op._schema.name.endswith("_") and not op._schema.name.endswith("__")


def register() -> None:
    """Make the device known to PyTorch, with every function that makes tensors out of nothing."""
    _setup_privateuseone_for_python_backend(NAME)
    for name in torch._C._dispatch_get_all_op_names():
        space, _, rest = name.partition("::")
        if space != "aten":
            continue
        plain, _, overload = rest.partition(".")
        op = getattr(getattr(aten, plain, None), overload or "default", None)
        if op is None:
            continue
        kinds = [str(argument.type) for argument in op._schema.arguments]
        names = [argument.name for argument in op._schema.arguments]
        if "device" in names and not any("Tensor" in kind for kind in kinds):
            LIBRARY.impl(rest, lambda *a, _op=op, **k: dispatch(_op, a, k), "PrivateUse1")
    LIBRARY.impl("_copy_from", copy_from, "PrivateUse1")


def copy_from(source: Tensor, goal: Tensor, non_blocking: bool = False) -> Tensor:
    return dispatch(aten.copy_.default, (goal, source), {})


LIBRARY = torch.library.Library("aten", "IMPL")
register()

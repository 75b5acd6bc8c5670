"""Tables of entity vectors in fewer bits: what a folder may hold instead of single precision.

``fp16`` is half precision; ``int8`` is whole numbers up to 127 times a unit for every row. Read
back, vectors are of single precision again, but for what rounding cost.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from knowledge_sheaves.errors import InputError

PLAIN, HALF, BYTES = WIDTHS = ("float32", "fp16", "int8")
TABLES, UNIT = "entities.tables.", ".unit"


def narrowed(weights: Mapping[str, Tensor], width: str) -> dict[str, Tensor]:
    """The weights with tables in so many bits.

    >>> table = {"entities.tables.0": torch.tensor([[1.27, -0.4], [0.0, 0.0]])}
    >>> narrowed(table, "int8")["entities.tables.0"].tolist()
    [[127, -40], [0, 0]]
    """
    if width not in WIDTHS:
        raise InputError(f"Tables are kept as {', '.join(WIDTHS)}, not as {width!r}.")
    out: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if width == PLAIN or not name.startswith(TABLES):
            out[name] = tensor
        elif width == HALF:
            out[name] = tensor.half()
            if not bool(out[name].isfinite().all()):
                raise InputError("Some vectors are too large for fp16: use int8.")
        else:
            least = torch.finfo(torch.float32).tiny
            unit = tensor.abs().amax(1, keepdim=True).float().clamp(min=least) / 127
            out[name], out[name + UNIT] = (tensor / unit).round().to(torch.int8), unit
    return out


def widened(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights with tables in single precision; others stay as they are, mapped or not.

    >>> table = {"entities.tables.0": torch.tensor([[1.27, -0.4]])}
    >>> widened(narrowed(table, "int8"))["entities.tables.0"]
    tensor([[ 1.2700, -0.4000]])
    """
    out: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if name.endswith(UNIT) and name.startswith(TABLES):
            continue
        if name.startswith(TABLES) and tensor.dtype in (torch.float16, torch.int8):
            unit = weights.get(name + UNIT)
            tensor = tensor.float() if unit is None else tensor.float().mul_(unit)
        out[name] = tensor
    return out

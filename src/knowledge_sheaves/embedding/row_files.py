"""Files of safetensors that several processes write and read, each some rows of a table."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.files import said_of

PIECE = 16 * 2**20
"""Bytes that are written at once."""
SINGLE = "F32"


def frame(
    path: Path, shapes: Mapping[str, tuple[int, ...]], metadata: Mapping[str, str]
) -> dict[str, int]:
    """Make a file with room for tensors in single precision; returns where each begins."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + 4 * int(np.prod(shape, dtype=np.int64))
        header[name] = {"dtype": SINGLE, "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # numbers begin where processors like them to
    begin = 8 + len(text)
    with path.open("xb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(begin + end)
    return {name: begin + header[name]["data_offsets"][0] for name in shapes}


def write_at(path: Path, places: Mapping[int, Tensor]) -> None:
    """Write tensors into a file that is there, each where it belongs, and onto the disk."""
    with said_of(path):
        handle = os.open(path, os.O_WRONLY)
        try:
            for place, tensor in places.items():
                _write(handle, place, tensor)
            os.fsync(handle)
        finally:
            os.close(handle)


def _write(handle: int, place: int, tensor: Tensor) -> None:
    rows = tensor.detach() if tensor.ndim > 1 else tensor.detach().reshape(-1, 1)
    if not rows.numel():
        return
    # A part of it at a time: a second copy of all rows may not fit.
    for part in rows.split(max(1, PIECE // (4 * rows[0].numel()))):
        data = memoryview(part.float().contiguous().numpy()).cast("B")
        while data:
            count = os.pwrite(handle, data, place)
            data, place = data[count:], place + count


def scattered(place: int, rows: Tensor, values: Tensor) -> dict[int, Tensor]:
    """Where rows of a tensor that begins at ``place`` belong: neighbours are written in one go."""
    if not len(rows):
        return {}
    order = rows.argsort()
    rows, values = rows[order], values[order]
    cuts = (rows.diff() != 1).nonzero().squeeze(1) + 1
    starts = torch.cat([cuts.new_zeros(1), cuts]).tolist()
    width = 4 * values.shape[1]
    parts = values.tensor_split(cuts)
    return {
        place + width * int(rows[start]): part for start, part in zip(starts, parts, strict=True)
    }


class RowFile:
    """A file of tensors to read rows from; nothing is read but those."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if size > path.stat().st_size:
                raise InputError("it is cut short.")
            self.header: dict[str, Any] = json.loads(file.read(size))
        self.begin = 8 + size
        self.metadata: dict[str, str] = self.header.pop("__metadata__", {})

    @property
    def shapes(self) -> dict[str, list[int]]:
        return {name: list(each["shape"]) for name, each in self.header.items()}

    def tensor(self, name: str) -> npt.NDArray[np.float32]:
        """A tensor as it lies on the disk."""
        said = self.header[name]
        if said["dtype"] != SINGLE:
            raise InputError(f"{name!r} is kept as {said['dtype']}, and spread are {SINGLE} only.")
        shape = tuple(said["shape"])
        if not np.prod(shape, dtype=np.int64):
            return np.zeros(shape, np.float32)
        place = self.begin + said["data_offsets"][0]
        return np.memmap(self.path, np.float32, "r", place, shape)

    def rows(self, name: str, first: int, last: int) -> Tensor:
        """Some rows of a tensor, read into memory."""
        return torch.from_numpy(np.array(self.tensor(name)[first:last]))

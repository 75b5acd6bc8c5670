"""Read the archives that ``torch.save`` writes as plain data: nothing in them is ever called.

PyKEEN saves whole models as pickles of the newest protocol, which torch's own safe loader cannot
read. Here every class and function that such a file names becomes an empty `Record` that only keeps
what was stored in it; tensors are the one thing that is rebuilt, from the bytes beside the pickle.
"""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from knowledge_sheaves.errors import InputError

DTYPES = {
    "torch.DoubleStorage": torch.float64,
    "torch.FloatStorage": torch.float32,
    "torch.HalfStorage": torch.float16,
    "torch.BFloat16Storage": torch.bfloat16,
    "torch.ComplexDoubleStorage": torch.complex128,
    "torch.ComplexFloatStorage": torch.complex64,
    "torch.LongStorage": torch.int64,
    "torch.IntStorage": torch.int32,
    "torch.ShortStorage": torch.int16,
    "torch.CharStorage": torch.int8,
    "torch.ByteStorage": torch.uint8,
    "torch.BoolStorage": torch.bool,
}


class Record:
    """Stands for an object of the class or function named ``path``, with its stored attributes."""

    path = ""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state if isinstance(state, dict) else {"state": state})

    def get(self, name: str) -> Any:
        """A stored attribute, submodule, parameter or buffer; None where there is none."""
        for store in ("_modules", "_parameters", "_buffers"):
            if name in self.__dict__.get(store, {}):
                return self.__dict__[store][name]
        return self.__dict__.get(name)


def read_archive(path: Path) -> Any:
    """The object in an archive, as records and tensors."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            data_name = next(name for name in names if name.endswith("/data.pkl"))
            root = data_name.removesuffix("data.pkl")
            if f"{root}byteorder" in names:
                _check_order(path, archive.read(f"{root}byteorder"))
            with archive.open(data_name) as data:
                return _Reader(data, lambda key: archive.read(f"{root}data/{key}")).load()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None
    except Exception as error:  # a damaged pickle can fail in any way
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path} is not a model saved by PyKEEN, or is damaged ({type(error).__name__})."
        ) from None


def _check_order(path: Path, order: bytes) -> None:
    if order != b"little":
        raise InputError(
            f"{path} was written on a big-endian machine: load it there and save its state."
        )


class _Reader(pickle.Unpickler):
    """An unpickler that knows containers, tensors and records, and nothing else."""

    def __init__(self, data: Any, read: Callable[[str], bytes]) -> None:
        super().__init__(data)
        self._read = read
        self._kinds: dict[str, Any] = {
            "collections.OrderedDict": OrderedDict,
            "torch.Size": tuple,
            "torch._utils._rebuild_tensor_v2": _tensor,
            "torch._utils._rebuild_parameter": _parameter,
        }

    def find_class(self, module: str, name: str) -> Any:
        path = f"{module}.{name}"
        if path not in self._kinds:
            self._kinds[path] = type(name, (Record,), {"path": path})
        return self._kinds[path]

    def persistent_load(self, pid: Any) -> Tensor:
        _, storage, key, _, _ = pid
        data, dtype = bytearray(self._read(key)), DTYPES[storage.path]
        # torch refuses an empty buffer
        return torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)


def _tensor(
    storage: Tensor, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any
) -> Tensor:
    return storage.as_strided(size, stride, offset).clone()


def _parameter(data: Tensor, *_: Any) -> Tensor:
    return data

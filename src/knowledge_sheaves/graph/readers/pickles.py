"""Pickles of plain data: nothing in them can run, because nothing but containers is allowed."""

from __future__ import annotations

import pickle
from collections import defaultdict
from pathlib import Path

from knowledge_sheaves.errors import InputError

ALLOWED: dict[tuple[str, str], type] = {
    **{
        (module, kind.__name__): kind
        for kind in (set, frozenset, dict, list, tuple, str, int)
        for module in ("builtins", "__builtin__")  # the second name is that of Python 2
    },
    ("collections", "defaultdict"): defaultdict,
}


class _Refused(Exception):
    pass


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        if (module, name) not in ALLOWED:
            raise _Refused(f"{module}.{name}")
        return ALLOWED[module, name]


def read_plain_pickle(path: Path) -> object:
    """Read sets, dicts, lists, tuples, strings and integers; anything else is refused by name."""
    try:
        with path.open("rb") as file:
            return _PlainUnpickler(file).load()
    except _Refused as error:
        raise InputError(
            f"{path}: the pickle asks for {error}, which could run code; only sets, dicts, lists, "
            "tuples, strings, integers and defaultdict are read."
        ) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}.") from None
    except Exception as error:  # a damaged pickle can fail in any way at all
        raise InputError(f"{path}: not a readable pickle ({error}); get it again.") from None

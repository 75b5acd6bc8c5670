"""Knowledge graphs as knowledge sheaves: embed them, then ask for what they leave out.

>>> import knowledge_sheaves
>>> model = knowledge_sheaves.load("model/")                             # doctest: +SKIP
>>> model.answer("SELECT ?x { :virus :causes ?x }", top=3).to_polars()   # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Looked up when asked for: whoever wants the version only must not wait for torch.
    if name in ("Asker", "load"):
        return getattr(import_module("knowledge_sheaves.query.asking"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

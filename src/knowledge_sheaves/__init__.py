"""Knowledge graphs as knowledge sheaves: embed them, then ask for what they leave out.

>>> import knowledge_sheaves as ks
>>> model = ks.train("nations", "complex", dim=16, epochs=3)
>>> answers = model.answer("usa embassy ?y . ?y negativecomm ?x", top=3)
>>> len(answers), answers[0].rank
(3, 1)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knowledge_sheaves.embedding import model_config
    from knowledge_sheaves.errors import SheafError
    from knowledge_sheaves.graph import KnowledgeGraph, Schema
    from knowledge_sheaves.graph.dataset import Dataset
    from knowledge_sheaves.graph.readers.load import read
    from knowledge_sheaves.model import Model, load, train
    from knowledge_sheaves.query.options import Options
    from knowledge_sheaves.query.pattern import Query
    from knowledge_sheaves.training.config import TrainingConfig

__version__ = "0.1.0"
__all__ = [
    "Dataset",
    "KnowledgeGraph",
    "Model",
    "Options",
    "Query",
    "Schema",
    "SheafError",
    "TrainingConfig",
    "load",
    "model_config",
    "read",
    "train",
]

_HOMES = {
    "Dataset": "graph.dataset",
    "KnowledgeGraph": "graph",
    "Model": "model",
    "Options": "query.options",
    "Query": "query.pattern",
    "Schema": "graph",
    "SheafError": "errors",
    "TrainingConfig": "training.config",
    "load": "model",
    "model_config": "embedding",
    "read": "graph.readers.load",
    "train": "model",
}


def __getattr__(name: str) -> Any:
    # Looked up when asked for: whoever wants the version only must not wait for torch.
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

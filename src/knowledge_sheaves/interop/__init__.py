"""PyKEEN both ways: its trained models as sheaves, and ours inside its pipelines."""

from __future__ import annotations

from knowledge_sheaves.interop.from_pykeen import from_pykeen
from knowledge_sheaves.interop.wrapper import KnowledgeSheafModel, to_pykeen

__all__ = ["KnowledgeSheafModel", "from_pykeen", "to_pykeen"]

"""Knowledge sheaves and sheaf embeddings, and what kinds of embeddings there are."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knowledge_sheaves.embedding.config import CATALOGUE, SheafConfig, model_config
    from knowledge_sheaves.embedding.kinds import (
        Verdict,
        consistent,
        contrastive,
        corrupted_pairs,
        gapped,
        gapped_pairs,
    )
    from knowledge_sheaves.embedding.knowledge import KnowledgeSheaf
    from knowledge_sheaves.embedding.model import SheafEmbedding
    from knowledge_sheaves.embedding.storage import ModelInfo
    from knowledge_sheaves.embedding.subgraphs import (
        Pairs,
        Scoring,
        Subgraphs,
        negative_pairs,
        one_by_one,
        pairs_with_facts,
        total_energy,
        worst_edge,
    )
    from knowledge_sheaves.embedding.sums import direct_sum

__all__ = [
    "CATALOGUE",
    "KnowledgeSheaf",
    "ModelInfo",
    "Pairs",
    "Scoring",
    "SheafConfig",
    "SheafEmbedding",
    "Subgraphs",
    "Verdict",
    "consistent",
    "contrastive",
    "corrupted_pairs",
    "direct_sum",
    "gapped",
    "gapped_pairs",
    "model_config",
    "negative_pairs",
    "one_by_one",
    "pairs_with_facts",
    "total_energy",
    "worst_edge",
]

_HOMES = {
    "CATALOGUE": "config",
    "KnowledgeSheaf": "knowledge",
    "ModelInfo": "storage",
    "Pairs": "subgraphs",
    "Scoring": "subgraphs",
    "SheafConfig": "config",
    "SheafEmbedding": "model",
    "Subgraphs": "subgraphs",
    "Verdict": "kinds",
    "consistent": "kinds",
    "contrastive": "kinds",
    "corrupted_pairs": "kinds",
    "direct_sum": "sums",
    "gapped": "kinds",
    "gapped_pairs": "kinds",
    "model_config": "config",
    "negative_pairs": "subgraphs",
    "one_by_one": "subgraphs",
    "pairs_with_facts": "subgraphs",
    "total_energy": "subgraphs",
    "worst_edge": "subgraphs",
}


def __getattr__(name: str) -> Any:
    # Looked up when asked for: whoever reads what a folder says of itself needs no torch.
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

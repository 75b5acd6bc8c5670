"""Knowledge sheaves and sheaf embeddings, and what kinds of embeddings there are."""

from __future__ import annotations

from knowledge_sheaves.embedding.config import CATALOGUE, SheafConfig, model_config
from knowledge_sheaves.embedding.direct_sum import direct_sum
from knowledge_sheaves.embedding.kinds import (
    Subgraphs,
    Verdict,
    consistent,
    contrastive,
    corrupted_pairs,
    gapped,
)
from knowledge_sheaves.embedding.knowledge import KnowledgeSheaf
from knowledge_sheaves.embedding.model import SheafEmbedding
from knowledge_sheaves.embedding.storage import ModelInfo

__all__ = [
    "CATALOGUE",
    "KnowledgeSheaf",
    "ModelInfo",
    "SheafConfig",
    "SheafEmbedding",
    "Subgraphs",
    "Verdict",
    "consistent",
    "contrastive",
    "corrupted_pairs",
    "direct_sum",
    "gapped",
    "model_config",
]

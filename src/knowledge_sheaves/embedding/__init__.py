"""Knowledge sheaves and sheaf embeddings, and what kinds of embeddings there are."""

from __future__ import annotations

from knowledge_sheaves.embedding.config import CATALOGUE, SheafConfig, model_config
from knowledge_sheaves.embedding.direct_sum import direct_sum
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

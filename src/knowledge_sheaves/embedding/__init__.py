"""Knowledge sheaves and sheaf embeddings, and what kinds of embeddings there are."""

from __future__ import annotations

from knowledge_sheaves.embedding.kinds import (
    Subgraphs,
    Verdict,
    consistent,
    contrastive,
    corrupted_pairs,
    gapped,
)
from knowledge_sheaves.embedding.knowledge import KnowledgeSheaf, SheafEmbedding

__all__ = [
    "KnowledgeSheaf",
    "SheafEmbedding",
    "Subgraphs",
    "Verdict",
    "consistent",
    "contrastive",
    "corrupted_pairs",
    "gapped",
]

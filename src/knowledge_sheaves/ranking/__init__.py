"""Single facts: where they rank, what sums ranks up, how likely they are, and which come next."""

from __future__ import annotations

from knowledge_sheaves.embedding.probability import probabilities
from knowledge_sheaves.ranking.metrics import RankMetrics
from knowledge_sheaves.ranking.prediction import Prediction, Predictions, Predictor
from knowledge_sheaves.ranking.ranker import SideRanks, rank_among
from knowledge_sheaves.ranking.temperature import (
    UNTEMPERED,
    fact_temperature,
    fit_temperature,
    temperature,
)
from knowledge_sheaves.ranking.triples import Ranks, Scorer, Side, rank_triples, ranked_side

__all__ = [
    "UNTEMPERED",
    "Prediction",
    "Predictions",
    "Predictor",
    "RankMetrics",
    "Ranks",
    "Scorer",
    "Side",
    "SideRanks",
    "fact_temperature",
    "fit_temperature",
    "probabilities",
    "rank_among",
    "rank_triples",
    "ranked_side",
    "temperature",
]

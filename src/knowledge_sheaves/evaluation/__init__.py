"""How good a model is: ranks, metrics, calibration and reports."""

from __future__ import annotations

from knowledge_sheaves.embedding.probability import probabilities
from knowledge_sheaves.evaluation.calibration import fit_temperature
from knowledge_sheaves.evaluation.metrics import RankMetrics
from knowledge_sheaves.evaluation.patterns import RelationPattern, relation_patterns
from knowledge_sheaves.evaluation.prediction import Predictor
from knowledge_sheaves.evaluation.ranking import Ranks, Scorer, Side, SideRanks, rank_triples
from knowledge_sheaves.evaluation.report import LinkPredictionReport, evaluate, ranked_side

__all__ = [
    "LinkPredictionReport",
    "Predictor",
    "RankMetrics",
    "Ranks",
    "RelationPattern",
    "Scorer",
    "Side",
    "SideRanks",
    "evaluate",
    "fit_temperature",
    "probabilities",
    "rank_triples",
    "ranked_side",
    "relation_patterns",
]

"""How good a model is: ranks, metrics, calibration and reports."""

from __future__ import annotations

from knowledge_sheaves.evaluation.metrics import RankMetrics
from knowledge_sheaves.evaluation.ranking import Ranks, Scorer, Side, SideRanks, rank_triples

__all__ = ["RankMetrics", "Ranks", "Scorer", "Side", "SideRanks", "rank_triples"]

"""How good a model is: reports on facts, benchmarks of queries, and what they calibrate."""

from __future__ import annotations

from knowledge_sheaves.evaluation.patterns import RelationPattern, relation_patterns
from knowledge_sheaves.evaluation.report import LinkPredictionReport, evaluate

__all__ = ["LinkPredictionReport", "RelationPattern", "evaluate", "relation_patterns"]

"""Ask: query graphs, their front ends, and what the known facts answer."""

from __future__ import annotations

from knowledge_sheaves.query.pattern import Edge, Pattern, Query, Shape
from knowledge_sheaves.query.symbolic import SymbolicAnswers

__all__ = ["Edge", "Pattern", "Query", "Shape", "SymbolicAnswers"]

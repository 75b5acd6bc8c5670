"""Ask: query graphs, their front ends, and what the known facts answer."""

from __future__ import annotations

from knowledge_sheaves.query.facts.sampler import SampledQueries, sample_queries
from knowledge_sheaves.query.facts.symbolic import SymbolicAnswers
from knowledge_sheaves.query.language.betae import from_betae, smaller_and_larger, template
from knowledge_sheaves.query.pattern import Edge, Pattern, Query, Shape

__all__ = [
    "Edge",
    "Pattern",
    "Query",
    "SampledQueries",
    "Shape",
    "SymbolicAnswers",
    "from_betae",
    "sample_queries",
    "smaller_and_larger",
    "template",
]

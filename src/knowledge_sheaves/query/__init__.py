"""Ask: questions, how they are written, what the known facts answer, and how the rest is found."""

from __future__ import annotations

from knowledge_sheaves.query.answers import Answer, Answers, Wanted
from knowledge_sheaves.query.asking import Asker, Verdict, answer, load, scores
from knowledge_sheaves.query.budget import Budget
from knowledge_sheaves.query.completions import completions
from knowledge_sheaves.query.explanation import Explanation
from knowledge_sheaves.query.facts.sampler import SampledQueries, sample_queries
from knowledge_sheaves.query.facts.symbolic import SymbolicAnswers
from knowledge_sheaves.query.language.betae import from_betae, smaller_and_larger, template
from knowledge_sheaves.query.options import Options
from knowledge_sheaves.query.pattern import Edge, Pattern, Query

__all__ = [
    "Answer",
    "Answers",
    "Asker",
    "Budget",
    "Edge",
    "Explanation",
    "Options",
    "Pattern",
    "Query",
    "SampledQueries",
    "SymbolicAnswers",
    "Verdict",
    "Wanted",
    "answer",
    "completions",
    "from_betae",
    "load",
    "sample_queries",
    "scores",
    "smaller_and_larger",
    "template",
]

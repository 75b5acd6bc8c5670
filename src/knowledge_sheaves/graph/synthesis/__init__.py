"""Graphs of any size that resemble a real one, with a structure that is known by construction."""

from __future__ import annotations

from knowledge_sheaves.graph.synthesis.ceiling import Ceiling, measure_ceiling
from knowledge_sheaves.graph.synthesis.make import Synthesis, synthesise, write
from knowledge_sheaves.graph.synthesis.portrait import Portrait, portray

__all__ = [
    "Ceiling",
    "Portrait",
    "Synthesis",
    "measure_ceiling",
    "portray",
    "synthesise",
    "write",
]

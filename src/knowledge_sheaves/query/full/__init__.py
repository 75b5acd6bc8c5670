"""All of SPARQL: the facts answered by Oxigraph, blocks of predictions by the sheaf."""

from __future__ import annotations

from knowledge_sheaves.query.full.engine import Sparql
from knowledge_sheaves.query.full.results import FORMATS, GRAPH_FORMATS, Result
from knowledge_sheaves.query.full.store import FactStore
from knowledge_sheaves.query.full.text import KS, is_full

__all__ = ["FORMATS", "GRAPH_FORMATS", "KS", "FactStore", "Result", "Sparql", "is_full"]

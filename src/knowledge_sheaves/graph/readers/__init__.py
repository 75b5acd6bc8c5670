"""Readers: from files, folders and named data sets to `Dataset`."""

from __future__ import annotations

from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers.about import types_from_names
from knowledge_sheaves.graph.readers.betae import STRUCTURES, BetaEQueries, read_betae_queries
from knowledge_sheaves.graph.readers.layout import TextFormat
from knowledge_sheaves.graph.readers.load import read as load

__all__ = [
    "STRUCTURES",
    "BetaEQueries",
    "Dataset",
    "TextFormat",
    "load",
    "read_betae_queries",
    "types_from_names",
]

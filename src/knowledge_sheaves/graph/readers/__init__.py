"""Readers: from files, folders and named data sets to `Dataset`."""

from __future__ import annotations

from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers.load import load
from knowledge_sheaves.graph.readers.text import TextFormat

__all__ = ["Dataset", "TextFormat", "load"]

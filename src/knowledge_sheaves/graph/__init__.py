"""What is known: multigraphs and morphisms, schemas, typed triples, negative graphs."""

from __future__ import annotations

from knowledge_sheaves.graph.arrays import BoolArray, IntArray
from knowledge_sheaves.graph.knowledge import KnowledgeGraph
from knowledge_sheaves.graph.lookups import Neighbours
from knowledge_sheaves.graph.multigraph import GraphMorphism, Multigraph
from knowledge_sheaves.graph.negative import (
    ClosedWorld,
    LocalClosedWorld,
    NegativeGraph,
    OpenWorld,
)
from knowledge_sheaves.graph.schema import DEFAULT_TYPE, EntityType, Relation, Schema
from knowledge_sheaves.graph.schema_file import load_type_choices
from knowledge_sheaves.graph.vocabulary import Vocabulary

__all__ = [
    "DEFAULT_TYPE",
    "BoolArray",
    "ClosedWorld",
    "EntityType",
    "GraphMorphism",
    "IntArray",
    "KnowledgeGraph",
    "LocalClosedWorld",
    "Multigraph",
    "NegativeGraph",
    "Neighbours",
    "OpenWorld",
    "Relation",
    "Schema",
    "Vocabulary",
    "load_type_choices",
]

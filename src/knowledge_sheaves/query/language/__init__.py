"""How questions are written: SPARQL, the short form, and the nested tuples of BetaE."""

from __future__ import annotations

from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query.budget import Budget
from knowledge_sheaves.query.language.short import is_sparql, to_sparql
from knowledge_sheaves.query.language.sparql import ParsedQuery, parse_sparql


def read(text: str, graph: KnowledgeGraph, budget: Budget | None = None) -> ParsedQuery:
    """Read a query in SPARQL or in the short form.

    >>> graph = KnowledgeGraph.from_triples([("Ann", "knows", "Bob")])
    >>> read("Ann knows ?x", graph).variables
    ('?x',)
    """
    return parse_sparql(text if is_sparql(text) else to_sparql(text, graph), graph, budget)

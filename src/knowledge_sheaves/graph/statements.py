"""Statements that no sheaf learns from, kept for whoever asks the facts in SPARQL.

Literals, languages, the names of graphs, and types in full: a frame with a row a statement.
``object`` is the name of a node where ``datatype`` is null, else the text of a literal; ``graph``
is null in the default graph.
"""

from __future__ import annotations

import polars as pl

COLUMNS = ("subject", "predicate", "object", "datatype", "language", "graph")
SCHEMA = dict.fromkeys(COLUMNS, pl.String)
TEXT = "http://www.w3.org/2001/XMLSchema#string"
LANGUAGE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"


def of_links(links: pl.DataFrame) -> pl.DataFrame:
    """Links, a frame of head, relation and tail, as statements.

    >>> links = pl.DataFrame({"head": ["a"], "relation": ["r"], "tail": ["b"]})
    >>> of_links(links).row(0)
    ('a', 'r', 'b', None, None, None)
    """
    named = links.select(subject="head", predicate="relation", object="tail")
    empty = [pl.lit(None, pl.String).alias(name) for name in COLUMNS[3:]]
    return named.with_columns(empty)

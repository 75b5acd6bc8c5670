"""Statements that no sheaf learns from, kept for whoever asks the facts in SPARQL.

Literals, languages, the names of graphs, and types in full: a frame with a row a statement.
``object`` is the name of a node where ``datatype`` is null, else the text of a literal; ``graph``
is null in the default graph.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

COLUMNS = ("subject", "predicate", "object", "datatype", "language", "graph")
SCHEMA = dict.fromkeys(COLUMNS, pl.String)
FREE_ROWS = 1 << 20
MOST_ROWS = 16
"""Rows in a byte of a file: more are no statements."""
TEXT = "http://www.w3.org/2001/XMLSchema#string"
LANGUAGE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"


def read(path: Path) -> pl.DataFrame:
    """Read a file of statements; what is none is a ValueError."""
    try:
        return _read(path)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ValueError(f"it is no readable Parquet file: {error}") from None


def _read(path: Path) -> pl.DataFrame:
    if pl.Schema(pl.read_parquet_schema(path)) != pl.Schema(SCHEMA):
        raise ValueError(f"its columns are not {', '.join(COLUMNS)}, all of them text")
    rows = int(pl.scan_parquet(path).select(pl.len()).collect().item())
    if rows > FREE_ROWS + MOST_ROWS * path.stat().st_size:
        raise ValueError(f"{rows:,} rows in so small a file are one row again and again")
    found = pl.read_parquet(path)
    if any(found[name].has_nulls() for name in COLUMNS[:3]):
        raise ValueError("a statement lacks its subject, predicate or object")
    return found


def of_links(links: pl.DataFrame) -> pl.DataFrame:
    """Links, a frame of head, relation and tail, as statements.

    >>> links = pl.DataFrame({"head": ["a"], "relation": ["r"], "tail": ["b"]})
    >>> of_links(links).row(0)
    ('a', 'r', 'b', None, None, None)
    """
    named = links.select(subject="head", predicate="relation", object="tail")
    empty = [pl.lit(None, pl.String).alias(name) for name in COLUMNS[3:]]
    return named.with_columns(empty)

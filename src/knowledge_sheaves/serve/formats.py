"""Results in the formats of the W3C, and as a table for people."""

from __future__ import annotations

import json
from html import escape
from typing import Any

import pyoxigraph

from knowledge_sheaves.serve.negotiation import HTML, Format

_WRITERS = {
    "xml": pyoxigraph.QueryResultsFormat.XML,
    "csv": pyoxigraph.QueryResultsFormat.CSV,
    "tsv": pyoxigraph.QueryResultsFormat.TSV,
}


def serialised(results: bytes, chosen: Format) -> bytes:
    r"""Results in the JSON format, in another.

    >>> from knowledge_sheaves.serve.negotiation import RESULTS, choose
    >>> serialised(b'{"head": {}, "boolean": true}', choose("text/csv", RESULTS))
    b'true'
    """
    if chosen.name == "json":
        return results
    if chosen is HTML:
        return page(json.loads(results)).encode()
    read = pyoxigraph.parse_query_results(results, pyoxigraph.QueryResultsFormat.JSON)
    return read.serialize(format=_WRITERS[chosen.name]) or b""


def page(results: dict[str, Any]) -> str:
    """A table.

    >>> "<td>&lt;b&gt;</td>" in page({"head": {"vars": ["x"]}, "results": {"bindings": [
    ...     {"x": {"type": "literal", "value": "<b>"}}]}})
    True
    """
    if "boolean" in results:
        return _html(f"<p>{'yes' if results['boolean'] else 'no'}</p>")
    names = results["head"]["vars"]
    heads = "".join(f"<th>{escape(name)}</th>" for name in names)
    rows = "".join(
        "<tr>"
        + "".join(f"<td>{escape(row.get(n, {}).get('value', ''))}</td>" for n in names)
        + "</tr>"
        for row in results["results"]["bindings"]
    )
    return _html(f"<table><tr>{heads}</tr>{rows}</table>")


def _html(body: str) -> str:
    title = "<meta charset='utf-8'><title>Knowledge Sheaves</title>"
    return f"<!DOCTYPE html><html lang='en'><head>{title}</head><body>{body}</body></html>"

"""Results in the formats of the W3C, and as a page for people."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from knowledge_sheaves.query.full import Result
from knowledge_sheaves.serve.negotiation import HTML, Format


def written(found: Result, chosen: Format) -> bytes:
    """A result in the format that was chosen.

    >>> from knowledge_sheaves.serve.negotiation import RESULTS, choose
    >>> yes = Result("ask", b'{"head": {}, "boolean": true}', "json")
    >>> written(yes, choose("text/csv", RESULTS))
    b'true'
    """
    if chosen is not HTML:
        return found.serialize(chosen.name)
    if found.kind == "graph":
        return _html(f"<pre>{escape(found.serialize('ttl').decode())}</pre>").encode()
    return page(json.loads(found.serialize("json"))).encode()


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
        "<tr>" + "".join(f"<td>{_cell(row.get(name))}</td>" for name in names) + "</tr>"
        for row in results["results"]["bindings"]
    )
    return _html(f"<table><tr>{heads}</tr>{rows}</table>")


def _cell(term: dict[str, Any] | None) -> str:
    return "" if term is None else escape(str(term["value"]))


def _html(body: str) -> str:
    title = "<meta charset='utf-8'><title>Knowledge Sheaves</title>"
    return f"<!DOCTYPE html><html lang='en'><head>{title}</head><body>{body}</body></html>"

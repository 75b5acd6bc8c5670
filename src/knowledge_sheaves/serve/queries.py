"""Jobs of the SPARQL endpoint: answers in the format that the client likes, and what there is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.asking import Asker, count
from knowledge_sheaves.query.jsonl import select_document
from knowledge_sheaves.query.language.names import NAMESPACE
from knowledge_sheaves.serve.description import service_description
from knowledge_sheaves.serve.formats import serialised
from knowledge_sheaves.serve.negotiation import RESULTS, choose
from knowledge_sheaves.serve.settings import MOST_ANSWERS, Settings

if TYPE_CHECKING:
    from knowledge_sheaves.serve.work import Reply


def predicted(asker: Asker, settings: Settings, job: Mapping[str, Any]) -> Reply:
    """A pattern answered by what is known and what is likely; LIMIT says how many answers."""
    if job["default_graphs"] or job["named_graphs"]:
        raise InputError("Predictions come from all facts: leave out default-graph-uri.")
    chosen = choose(job["accept"], RESULTS, job["output"])
    budget = asker.options.budget()
    asked = asker.read(job["body"].decode(), budget)
    if asked.form == "ask":
        document = asker.decide(asked, budget=budget).to_dict()
    elif asked.query is None:
        document = select_document(asked, None)
    else:
        shown = count(None, settings.top if asked.limit is None else asked.limit)
        if shown > MOST_ANSWERS:
            raise InputError(f"LIMIT {shown:,} is more than {MOST_ANSWERS:,} answers.")
        (found,) = asker.solve([asked.query], asker.wanted(shown), budget=budget)
        document = select_document(asked, found)
    _declare_only(document)
    head = {"status": 200, "media": chosen.content_type}
    return head, serialised(json.dumps(document).encode(), chosen)


def _declare_only(document: dict[str, Any]) -> None:
    """Leave out what the head does not declare, and write names as IRIs: stores are strict."""
    for row in document.get("results", {}).get("bindings", ()):
        for name in row.keys() - set(document["head"]["vars"]):
            del row[name]
        for value in row.values():
            if value["type"] == "literal":
                value |= {"type": "uri", "value": NAMESPACE + quote(value["value"], safe="")}


def describe(asker: Asker, settings: Settings, job: Mapping[str, Any]) -> Reply:
    """What the endpoint is and holds, for clients that ask without a query."""
    text = service_description(asker, job["address"])
    return {"status": 200, "media": "text/turtle; charset=utf-8"}, text.encode()

"""Jobs of the SPARQL endpoint: answers in the format that the client likes, and what there is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyoxigraph import BlankNode

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.answers import Answers
from knowledge_sheaves.query.asking import Asker
from knowledge_sheaves.query.full import Result, Sparql
from knowledge_sheaves.query.full.store import term_of
from knowledge_sheaves.query.full.text import asks_predictions, read_text
from knowledge_sheaves.query.language.iris import is_iri
from knowledge_sheaves.query.language.short import is_sparql
from knowledge_sheaves.query.pattern import Variable
from knowledge_sheaves.serve.description import service_description
from knowledge_sheaves.serve.formats import written
from knowledge_sheaves.serve.negotiation import GRAPHS, RESULTS, choose
from knowledge_sheaves.serve.predicting import has_values, with_block
from knowledge_sheaves.serve.settings import MOST_ANSWERS, Settings

if TYPE_CHECKING:
    from knowledge_sheaves.serve.work import Reply


def sparql(asker: Asker, settings: Settings, job: Mapping[str, Any]) -> Reply:
    """All of SPARQL over the facts, with blocks of predictions."""
    engine = Sparql(asker)
    for iri in (*job["default_graphs"], *job["named_graphs"]):
        if not is_iri(iri) or not engine.facts.has_graph(iri):
            raise InputError(f"The model has no graph {iri!r}: leave out the parameter.")
    found = engine.run(
        job["body"].decode(),
        default_graphs=job["default_graphs"],
        named_graphs=job["named_graphs"],
    )
    return _reply(found, job)


def predicted(asker: Asker, settings: Settings, job: Mapping[str, Any]) -> Reply:
    """A pattern answered by what is known and what is likely; LIMIT says how many answers.

    What is more than a plain pattern is answered as SPARQL with that pattern in a block.
    """
    if job["default_graphs"] or job["named_graphs"]:
        raise InputError("Predictions come from all facts: leave out default-graph-uri.")
    text = job["body"].decode()
    plain = _plain(asker, settings, text)
    if plain is not None:
        return _reply(plain, job)
    engine = Sparql(asker)
    return _reply(engine.run(with_block(text, engine.facts, settings.top)), job)


def _plain(asker: Asker, settings: Settings, text: str) -> Result | None:
    """The answers to a plain pattern, the best first; None where the query is more than that.

    Rows that are handed in want answers each, which a plain pattern does not give.
    """
    budget = asker.options.budget()
    try:
        asked = asker.read(text, budget)
    except InputError:
        if is_sparql(text) and _is_more(text, asker):
            return None
        raise
    if is_sparql(text) and _has_values(text, asker):
        return None
    if asked.form == "ask":
        holds = asker.decide(asked, budget=budget).holds
        return Result("ask", json.dumps({"head": {}, "boolean": holds}).encode(), "json")
    shown = settings.top if asked.limit is None else asked.limit
    if shown > MOST_ANSWERS:
        raise InputError(f"LIMIT {shown:,} is more than {MOST_ANSWERS:,} answers.")
    rows: list[dict[str, Any]] = []
    notes: tuple[str, ...] = ()
    if asked.query is not None:
        (found,) = asker.solve([asked.query], asker.wanted(shown), budget=budget)
        rows, notes = [_row(asked.variables, found, each.names) for each in found], found.notes
    names = [name.removeprefix("?") for name in asked.variables]
    document = {"head": {"vars": names}, "results": {"bindings": rows}}
    return Result("select", json.dumps(document).encode(), "json", notes)


def _row(variables: Sequence[str], found: Answers, names: Sequence[str]) -> dict[str, Any]:
    terms = dict(zip(found.query.targets, map(term_of, names), strict=True))
    cells = {name.removeprefix("?"): terms[Variable(name)] for name in variables}
    return {
        name: {"type": "bnode" if isinstance(term, BlankNode) else "uri", "value": term.value}
        for name, term in cells.items()
    }


def _is_more(text: str, asker: Asker) -> bool:
    """Whether a query that is no plain pattern is one for the whole engine."""
    engine = Sparql(asker)
    changed = with_block(text, engine.facts, 1)
    return changed != text or asks_predictions(text)


def _has_values(text: str, asker: Asker) -> bool:
    return has_values(read_text(text, Sparql(asker).facts))


def _reply(found: Result, job: Mapping[str, Any]) -> Reply:
    chosen = choose(job["accept"], GRAPHS if found.kind == "graph" else RESULTS, job["output"])
    head = {"status": 200, "media": chosen.content_type, "notes": " ".join(found.notes)}
    return head, written(found, chosen)


def describe(asker: Asker, settings: Settings, job: Mapping[str, Any]) -> Reply:
    """What the endpoint is and holds, for clients that ask without a query."""
    text = service_description(asker, job["address"])
    return {"status": 200, "media": "text/turtle; charset=utf-8"}, text.encode()

"""Jobs of the JSON interface: what programs and pages ask of a model."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from knowledge_sheaves.embedding.about import describe
from knowledge_sheaves.embedding.known import ALL, given_graph, known_graph
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import IntArray, KnowledgeGraph, Relation
from knowledge_sheaves.graph.names import find_entity
from knowledge_sheaves.graph.search import NameSearch
from knowledge_sheaves.query.answers import Answers, Wanted
from knowledge_sheaves.query.asking import Asker, count
from knowledge_sheaves.query.budget import Budget
from knowledge_sheaves.query.explanation import Explanation
from knowledge_sheaves.query.language.iris import name_of
from knowledge_sheaves.query.language.sparql import ParsedQuery
from knowledge_sheaves.query.options import Options
from knowledge_sheaves.query.pattern import Query
from knowledge_sheaves.query.solvers.base import NO_REASONS
from knowledge_sheaves.ranking.missing import missing
from knowledge_sheaves.ranking.prediction import Predictor
from knowledge_sheaves.serve.settings import MOST_ANSWERS, Settings

if TYPE_CHECKING:
    from knowledge_sheaves.serve.work import Reply

MOST_FACTS = 200
"""How many facts of an entity are shown on each side."""


def card(asker: Asker, settings: Settings, job: Mapping[str, Any]) -> Reply:
    """What the model is, what it was trained on and how, and how good it is."""
    return reply(describe(asker.model))


def schema(asker: Asker, settings: Settings, job: Mapping[str, Any]) -> Reply:
    """The types and relations, with how many entities and facts each has."""
    graph = given_graph(asker.model, ALL)
    types = [
        {
            "name": str(name),
            "label": graph.type_label(name),
            "entities": int(graph.is_of_type(name).sum()),
        }
        for name in graph.type_names
    ]
    order, starts = graph.by_relation
    relations = [
        _relation(graph, each, graph.triples[order[first:last]])
        for each, (first, last) in zip(graph.schema.relations, pairwise(starts), strict=True)
    ]
    return reply({"types": types, "relations": relations})


def _relation(graph: KnowledgeGraph, relation: Relation, facts: IntArray) -> dict[str, Any]:
    return {
        "name": str(relation.name),
        "label": relation.label,
        "heads": graph.types_at(facts[:, 0]),
        "tails": graph.types_at(facts[:, 2]),
        "facts": len(facts),
    }


def search(asker: Asker, settings: Settings, job: Mapping[str, Any]) -> Reply:
    """Names and labels that have a text in them."""
    names = names_of(asker)
    found = names.find(job["text"], job["limit"], job["kind"])
    return reply({"found": [each._asdict() for each in found]})


def names_of(asker: Asker) -> NameSearch:
    """The names of a model, made ready to be searched once."""
    return asker.model.keep("names to search", lambda: NameSearch(asker.graph))


def entity(asker: Asker, settings: Settings, job: Mapping[str, Any]) -> Reply:
    """An entity with what is known of it and what is most likely missing."""
    graph = known_graph(asker.model, ALL)
    place = find_entity(graph, name_of(job["name"]))
    facts = [
        {"head": str(head), "relation": str(relation), "tail": str(tail)}
        for head, relation, tail in graph.decode(_facts_of(graph, place))
    ]
    likely = missing(Predictor(asker.model), graph.entities[place], job["top"])
    return reply(
        {
            **_thing(graph, place),
            "types": graph.types_of(place),
            "facts": facts,
            "likely": [each._asdict() for each in likely],
            "labels": _labels(graph, [*facts, *(each._asdict() for each in likely)]),
        }
    )


def _facts_of(graph: KnowledgeGraph, entity: int) -> IntArray:
    """The facts that an entity stands in, so many at most from each end."""
    near = graph.neighbours(entity)
    here = np.full_like(near.others, entity)
    rows = np.stack((here, near.relations, near.others), axis=1)
    rows[~near.outgoing] = rows[~near.outgoing][:, ::-1]
    return np.concatenate((rows[near.outgoing][:MOST_FACTS], rows[~near.outgoing][:MOST_FACTS]))


def _asked(asker: Asker, job: Mapping[str, Any]) -> tuple[ParsedQuery, Options, Budget]:
    """The query of a job, read, with the options and the budget that it has."""
    solver = job["solver"]
    options = asker.options if solver is None else asker.options.but(solver=solver)
    budget = options.budget()
    return asker.read(job["query"], budget), options, budget


def answers(asker: Asker, settings: Settings, job: Mapping[str, Any]) -> Reply:
    """The best answers to a plain pattern, or whether it holds."""
    asked, options, budget = _asked(asker, job)
    if asked.form == "ask":
        verdict = asker.decide(asked, solver=job["solver"], budget=budget)
        said = {"holds": verdict.holds, "known": verdict.known, "probability": verdict.probability}
        return reply({"form": "ask", "verdict": said})
    shown = min(count(job["top"], asked.limit), MOST_ANSWERS)
    wanted = asker.wanted(shown, new=job["new"], type=job["type"])
    variables = [name.removeprefix("?") for name in asked.variables]
    document: dict[str, Any] = {"form": "select", "variables": variables, "answers": []}
    if asked.query is not None:
        explained = shown if job["explain"] else 0
        (found,) = asker.solve([asked.query], wanted, options, explain=explained, budget=budget)
        document["answers"] = [_answer(asker.graph, found, place) for place in range(len(found))]
        document |= {"solver": found.solver, "notes": list(found.notes), "trust": found.trust}
        if job["explain"]:
            document["explanations"] = [each.to_dict() for each in found.explanation or ()]
    return reply(document)


@torch.no_grad()
def explanation(asker: Asker, settings: Settings, job: Mapping[str, Any]) -> Reply:
    """The reasons for one answer to a query, given by name."""
    asked, options, budget = _asked(asker, job)
    if asked.query is None or asked.form == "ask":
        raise InputError("Only answers to a SELECT can be explained.")
    if len(job["answer"]) != len(asked.query.targets):
        raise InputError(f"An answer has {len(asked.query.targets)} names, one for each variable.")
    ids = [find_entity(asker.graph, name_of(name)) for name in job["answer"]]
    reasons = reasons_for(asker, asked.query, ids, options, budget)
    return reply({"text": str(reasons), "explanation": reasons.to_dict()})


def reasons_for(
    asker: Asker, query: Query, ids: Sequence[int], options: Options, budget: Budget
) -> Explanation:
    """The reasons for one answer, with the numbers that it is shown with."""
    if len(ids) > 1:
        solver = options.start(asker.model, budget)
        solver.check([query])
        return solver.explain(query, ids)
    wanted = Wanted(top=1, allow=frozenset(ids))
    (found,) = asker.solve([query], wanted, options, explain=1, budget=budget)
    if not found.explanation:
        raise InputError(NO_REASONS)
    return found.explanation[0]


def _answer(graph: KnowledgeGraph, found: Answers, place: int) -> dict[str, Any]:
    answer = found[place]
    ids = found.ids[place].tolist()
    return {
        "rank": answer.rank,
        "values": {
            target.removeprefix("?"): _thing(graph, each)
            for target, each in zip(found.query.targets, ids, strict=True)
        },
        "energy": answer.energy,
        "probability": answer.probability,
        "known": answer.known,
    }


def _labels(graph: KnowledgeGraph, facts: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What people call the entities of some facts, where they call them something else."""
    names = {fact[end] for fact in facts for end in ("head", "tail")}
    found = ((name, graph.name(graph.entities.id(name)).label) for name in sorted(names))
    return {name: label for name, label in found if label is not None}


def _thing(graph: KnowledgeGraph, place: int) -> dict[str, Any]:
    return {"name": graph.entities[place], "label": (graph.labels or {}).get(place)}


def reply(document: Any) -> Reply:
    """A document as JSON."""
    try:
        text = json.dumps(document, allow_nan=False)
    except ValueError:  # rare, and looking for them takes longer than writing
        text = json.dumps(_finite(document))
    return {"status": 200, "media": "application/json"}, text.encode()


def _finite(value: Any) -> Any:
    """The document without numbers that JSON does not have."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {str(name): _finite(each) for name, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
    return value

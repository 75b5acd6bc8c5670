"""Jobs of the page: what speaks for a single fact, and a question as a drawing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from knowledge_sheaves.embedding.known import ALL, given_graph
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import IntArray, KnowledgeGraph
from knowledge_sheaves.graph.names import Place, find_entity, find_relation
from knowledge_sheaves.graph.paths import Evidence, PathGroup, Step, evidence, paths_between
from knowledge_sheaves.query.asking import Asker
from knowledge_sheaves.query.language.iris import name_of
from knowledge_sheaves.query.pattern import Edge, Pattern, Query, Term, Variable
from knowledge_sheaves.serve.interface import reasons_for, reply
from knowledge_sheaves.serve.settings import Settings

if TYPE_CHECKING:
    from knowledge_sheaves.serve.work import Reply

MOST_GROUPS = 8
MOST_PATHS = 5
MOST_WEIGHED = 500
"""How many paths of a group are compared to find the best."""


@torch.no_grad()
def fact(asker: Asker, settings: Settings, job: Mapping[str, Any]) -> Reply:
    """How likely a fact is, and the known paths between its ends, the most telling first."""
    graph = given_graph(asker.model, ALL)
    relation = find_relation(graph, name_of(job["relation"]))
    head = find_entity(graph, name_of(job["head"]), [Place(relation, "head")])
    tail = find_entity(graph, name_of(job["tail"]), [Place(relation, "tail")])
    said = asker.model.keep(("evidence", relation), lambda: evidence(graph, relation))
    itself = (Step(graph.schema.relation_names.index(relation), True),)
    groups = [each for each in paths_between(graph, head, tail) if each.steps != itself]
    groups.sort(key=lambda group: (-_telling(said, group), -len(group.triples)))
    return reply(
        {
            "fact": _claim(asker, head, relation, tail, job["asked"]),
            "facts": said.facts,
            "others": said.others,
            "groups": [_group(asker, graph, said, each) for each in groups[:MOST_GROUPS]],
        }
    )


def _claim(asker: Asker, head: int, relation: str, tail: int, asked: str) -> dict[str, object]:
    """The fact as an answer to the question for one of its ends."""
    graph = asker.graph
    place = graph.schema.relation_names.index(relation)
    ends = ("?x", tail) if asked == "head" else (head, "?x")
    query = Query((Variable("?x"),), (Pattern((Edge(ends[0], place, ends[1]),)),))  # type: ignore[arg-type]
    answer, options = head if asked == "head" else tail, asker.options
    found = reasons_for(asker, query, [answer], options, options.budget())
    return found.reasons[0].to_dict()


def _telling(said: Evidence, group: PathGroup) -> float:
    """How much more often a path joins facts than other pairs."""
    with_facts = said.with_facts.get(group.steps, 0) / max(1, said.facts)
    return with_facts - said.with_others.get(group.steps, 0) / max(1, said.others)


def _group(
    asker: Asker, graph: KnowledgeGraph, said: Evidence, group: PathGroup
) -> dict[str, object]:
    names = graph.schema.labelled_names
    paths = group.triples[:MOST_WEIGHED]
    costs = asker.model.scores(paths.reshape(-1, 3)).reshape(paths.shape[:2])
    best = costs.sum(1).argsort(stable=True)[:MOST_PATHS].tolist()
    return {
        "steps": [
            {"relation": names[r], "label": names[r].label, "forwards": f} for r, f in group.steps
        ],
        "count": len(group.triples),
        "facts_with": said.with_facts.get(group.steps, 0),
        "others_with": said.with_others.get(group.steps, 0),
        "paths": [
            [_edge(graph, row, cost) for row, cost in zip(paths[n], costs[n].tolist(), strict=True)]
            for n in best
        ],
    }


def _edge(graph: KnowledgeGraph, row: IntArray, cost: float) -> dict[str, object]:
    relation = graph.schema.relations[row[1]]
    head, tail = graph.name(row[0]), graph.name(row[2])
    return {
        **{
            "head": str(head),
            "head_label": head.label,
            "tail": str(tail),
            "tail_label": tail.label,
        },
        **{"relation": str(relation.name), "relation_label": relation.label},
        **{"energy": cost, "probability": None, "known": True},
    }


def drawing(asker: Asker, settings: Settings, job: Mapping[str, Any]) -> Reply:
    """A question as nodes and edges between them."""
    budget = asker.options.budget()
    asked = asker.read(job["query"], budget)
    if asked.query is None or asked.form == "ask":
        raise InputError("Only a question with a variable after SELECT can be drawn.")
    if len(asked.query.patterns) != 1:
        raise InputError("A union cannot be drawn: draw its branches one by one.")
    (pattern,) = asked.query.patterns
    edges = list(_drawn(pattern))
    terms = list(dict.fromkeys(term for edge, _ in edges for term in edge.terms))
    names = dict(_writable(terms))
    types = dict(asked.query.types)
    return reply(
        {
            "targets": list(asked.query.targets),
            "limit": asked.limit,
            "nodes": [_node(asker.graph, term, names, types) for term in terms],
            "edges": [
                {
                    "head": terms.index(edge.head),
                    "relation": asker.graph.schema.relation_names[edge.relation],
                    "tail": terms.index(edge.tail),
                    "negated": negated,
                }
                for edge, negated in edges
            ],
        }
    )


def _drawn(pattern: Pattern) -> Iterator[tuple[Edge, bool]]:
    """The edges of a pattern, and whether each must not hold; what has no picture is refused."""
    if pattern.different or pattern.bindings:
        raise InputError("VALUES and FILTER of terms cannot be drawn: ask it in SPARQL.")
    yield from ((edge, False) for edge in pattern.edges)
    for inner in pattern.without:
        if len(inner.edges) != 1 or inner.without or inner.different or inner.bindings:
            raise InputError("Only single edges can be drawn as negated: ask it in SPARQL.")
        yield inner.edges[0], True


def _writable(terms: list[Term]) -> Iterator[tuple[Variable, Variable]]:
    """Each variable with a name that can be written: the middle of a path has none."""
    given = {term for term in terms if isinstance(term, Variable)}
    fresh = (Variable(f"?step{n}") for n in range(1, len(terms) + len(given) + 2))
    for variable in (term for term in terms if isinstance(term, Variable)):
        named = variable.is_named
        yield variable, variable if named else next(name for name in fresh if name not in given)


def _node(
    graph: KnowledgeGraph,
    term: Term,
    names: Mapping[Variable, Variable],
    types: Mapping[Variable, str],
) -> dict[str, Any]:
    if isinstance(term, Variable):
        kinds = [types[term]] if term in types else []
        return {"variable": names[term], "name": None, "label": None, "types": kinds}
    name = graph.name(int(term))
    return {
        **{"variable": None, "name": str(name), "label": name.label},
        "types": [str(kind) for kind in graph.types_of(int(term))],
    }

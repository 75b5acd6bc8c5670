"""Answers in the SPARQL 1.1 Query Results JSON Format of the W3C, with what a model adds.

A binding has rank, energy and probability beside its variables, as typed literals, and the labels
of what it binds, as "x label": readers of the standard can parse them, and those that go by
``head.vars`` never meet them. A variable of the query keeps its name; ours then has a low line
before it, such as ``_energy``.
"""

from __future__ import annotations

from typing import Any

from knowledge_sheaves.graph.labels import label_of
from knowledge_sheaves.query.answers import Answer, Answers, free
from knowledge_sheaves.query.language.iris import is_iri
from knowledge_sheaves.query.pattern import Variable

XSD = "http://www.w3.org/2001/XMLSchema#"


def select_json(
    variables: tuple[str, ...], answers: Answers | None, limit: int | None = None
) -> dict[str, Any]:
    """The answers of a SELECT; None stands for a query that can have none.

    >>> select_json(("?x",), None)
    {'head': {'vars': ['x']}, 'results': {'bindings': []}}
    """
    found = [] if answers is None else [_binding(variables, each, answers) for each in answers]
    return {
        "head": {"vars": [variable.removeprefix("?") for variable in variables]},
        "results": {"bindings": found[:limit]},
    }


def term(name: str) -> dict[str, str]:
    """A name as an RDF term: an IRI where it is one, else a literal, which a query may use too.

    >>> term("http://example.org/Fargo"), term("Fargo")
    ({'type': 'uri', 'value': 'http://example.org/Fargo'}, {'type': 'literal', 'value': 'Fargo'})
    """
    if name.startswith("_:"):
        return {"type": "bnode", "value": name.removeprefix("_:")}
    return {"type": "uri" if is_iri(name) else "literal", "value": name}


def _binding(variables: tuple[str, ...], answer: Answer, answers: Answers) -> dict[str, Any]:
    taken = {variable.removeprefix("?") for variable in variables}
    added = {"rank": _literal(str(answer.rank), "integer")}
    added["energy"] = _literal(repr(answer.energy), "double")
    if answer.probability is not None:
        added["probability"] = _literal(repr(answer.probability), "double")
    if answer.known is not None:
        added["known"] = _literal(str(answer.known).lower(), "boolean")
    names = dict(zip(answers.query.targets, answer.names, strict=True))
    bound = {free(name, taken): value for name, value in added.items()}
    for variable in variables:
        name, label = names[Variable(variable)], label_of(names[Variable(variable)])
        bound[variable.removeprefix("?")] = term(name)
        if label is not None:  # no variable has a blank in its name
            bound[f"{variable.removeprefix('?')} label"] = {"type": "literal", "value": label}
    return bound


def _literal(value: str, datatype: str) -> dict[str, str]:
    return {"type": "literal", "datatype": XSD + datatype, "value": value}

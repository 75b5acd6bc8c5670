"""Answers in the SPARQL 1.1 Query Results JSON Format of the W3C, with what a model adds.

A binding has rank, energy and probability beside its variables, as typed literals: readers of the
standard can parse them, and those that go by ``head.vars`` never meet them. A variable of the query
with such a name keeps it for itself.
"""

from __future__ import annotations

from typing import Any

from knowledge_sheaves.query.answers import Answer, Answers
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
    names = dict(zip(answers.query.targets, answer.names, strict=True))
    added = {"rank": _literal(str(answer.rank), "integer")}
    added["energy"] = _literal(repr(answer.energy), "double")
    if answer.probability is not None:
        added["probability"] = _literal(repr(answer.probability), "double")
    if answer.known is not None:
        added["known"] = _literal(str(answer.known).lower(), "boolean")
    return added | {v.removeprefix("?"): term(names[Variable(v)]) for v in variables}


def _literal(value: str, datatype: str) -> dict[str, str]:
    return {"type": "literal", "datatype": XSD + datatype, "value": value}

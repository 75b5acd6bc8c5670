"""A model for agents: five tools over the Model Context Protocol.

Outputs are short plain text, names first and ids beside, for what reads them pays by the word.
Errors come back as results: the protocol does not carry the text of an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Annotated, ParamSpec

import numpy as np
from mcp.server.mcpserver import MCPServer
from pydantic import Field

from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.graph.labels import label_of
from knowledge_sheaves.graph.names import find_entity, find_relation
from knowledge_sheaves.model import Model
from knowledge_sheaves.query.answers import Answer, Answers, Wanted
from knowledge_sheaves.query.drawing import draw
from knowledge_sheaves.serve.interface import names_of

MOST_CHARACTERS = 2_000
MOST_ROWS = 50
P = ParamSpec("P")

ABOUT = """A knowledge graph, and a model that was trained on it and predicts what is missing.
First find_entity for the names of what you want to know of, and schema for the relations. Then ask
a question in SPARQL, or predict a single fact. Every answer says whether it is known from the
facts or predicted, and with which probability: a prediction is a guess, say so."""

Top = Annotated[int, Field(ge=1, le=MOST_ROWS, description="How many at most.")]


def agent_server(model: Model) -> MCPServer:
    """The tools over one model, ready to run over stdio or HTTP."""
    server = MCPServer("knowledge-sheaves", instructions=ABOUT)
    for tool in tools(model):
        server.tool()(tool)
    return server


def tools(model: Model) -> tuple[Callable[..., str], ...]:
    """What an agent may call: functions with names, descriptions and texts as results."""
    search = names_of(model)

    @told
    def find_entity(
        text: Annotated[str, Field(description="A name or a part of one; it may be misspelt.")],
        top: Top = 8,
    ) -> str:
        """Find things in the graph by name or label. Use the names it gives in ask and predict."""
        found = search.find(text, top, "entity")
        if not found:
            return f"Nothing is called {text!r} or nearly so. Try a single word of it."
        return lines(_entity(model, model.graph.entities.id(one.name)) for one in found)

    @told
    def schema(
        relation: Annotated[
            str, Field(description="One relation, to see examples of its facts; all if empty.")
        ] = "",
    ) -> str:
        """List the relations of the graph: their names, what they join, and how many facts."""
        return _facts_of(model, relation) if relation else lines(_relations(model))

    @told
    def ask(
        query: Annotated[
            str,
            Field(
                description="A SPARQL pattern, for instance SELECT ?drug { ?drug :treats ?d . "
                '?d :resembles "asthma" FILTER NOT EXISTS { ?drug :causes "nausea" } }. Names '
                "that are plain words stand behind a colon, others in angle brackets, labels in "
                "quotes. Or ASK { :a :treats :b }."
            ),
        ],
        top: Top = 5,
        new: Annotated[bool, Field(description="Leave out what the facts answer already.")] = False,
    ) -> str:
        """Ask a question over known and missing facts, of one or several steps; with reasons."""
        if model.read(query).form == "ask":
            return str(model.decide(query))
        return _answers(model.answer(query, top=top, new=new, explain=True))

    @told
    def predict(
        head: Annotated[str, Field(description="The entity that the fact is about.")] = "",
        relation: Annotated[str, Field(description="The relation.")] = "",
        tail: Annotated[str, Field(description="The entity at the other end.")] = "",
        top: Top = 8,
        new: Annotated[bool, Field(description="Leave out known facts.")] = False,
    ) -> str:
        """Give two of head, relation and tail; get the likeliest for the third."""
        given = head or None, relation or None, tail or None
        found = model.predict(*given, top=top, new=new)
        return lines(
            f"{_called(p.name, p.label)}: "
            + ("known" if p.known else f"predicted, probability {p.probability:.2f}")
            for p in found
        )

    @told
    def explain(
        query: Annotated[str, Field(description="A query as for ask.")],
        answer: Annotated[str, Field(description="The answer to explain, by name or label.")],
    ) -> str:
        """Say in full why something is an answer to a question, step by step."""
        return _explanation(model, query, answer)

    return find_entity, schema, ask, predict, explain


def told(tool: Callable[P, str]) -> Callable[P, str]:
    """Return the tool, which now says what was wrong with a call and keeps its results short."""

    @wraps(tool)
    def careful(*arguments: P.args, **named: P.kwargs) -> str:
        try:
            text = tool(*arguments, **named)
        except SheafError as error:
            return f"Error: {error}"
        if len(text) <= MOST_CHARACTERS:
            return text
        return text[: MOST_CHARACTERS - 60].rsplit("\n", 1)[0] + "\n… (more was cut: ask for fewer)"

    return careful


def lines(rows: Iterable[str]) -> str:
    """One row a line, or a word where there are none."""
    return "\n".join(rows) or "None."


def _called(name: str, label: str | None) -> str:
    return str(name) if label in (None, name) else f"{label} ({name})"


def _entity(model: Model, entity: int) -> str:
    graph = model.graph
    name = graph.name(entity)
    kinds = ", ".join(graph.types_said(entity))
    kind = f", {kinds}" if kinds and kinds != "entity" else ""
    return f"{_called(name, label_of(name))}{kind}, {len(graph.neighbours(entity).others)} facts"


def _relations(model: Model) -> list[str]:
    graph = model.graph.by_name
    counts = np.bincount(graph.triples[:, 1], minlength=graph.num_relations)
    names = model.graph.schema.relation_names
    return [
        f"{_called(names[place], label_of(names[place]))}: {counts[place]} facts"
        for place in np.argsort(-counts, kind="stable").tolist()
    ]


def _facts_of(model: Model, relation: str, most: int = 5) -> str:
    graph = model.graph
    edges = graph.schema.edges(find_relation(graph, relation))
    rows = graph.triples[np.isin(graph.triples[:, 1], edges)]
    examples = (
        " ".join((_short(model, h), relation, _short(model, t)))
        for h, _, t in rows[:: max(1, len(rows) // most)][:most].tolist()
    )
    return f"{len(rows)} facts, for instance\n" + lines(examples)


def _short(model: Model, entity: int) -> str:
    name = model.graph.name(entity)
    return _called(name, label_of(name))


def _answers(answers: Answers) -> str:
    said = [_answer(place, answer, answers) for place, answer in enumerate(answers)]
    return lines([*said, *answers.notes])


def _answer(place: int, answer: Answer, answers: Answers) -> str:
    names = ", ".join(map(_called, answer.names, answer.labels))
    if answer.known:
        how = "known"
    elif answer.probability is None:
        how = "predicted"
    else:
        how = f"predicted, probability {answer.probability:.2f}"
    reasons = str(answers.explanation[place]) if answers.explanation else ""
    return f"{place + 1}. {names}: {how}" + (f", since {reasons}" if reasons else "")


def _explanation(model: Model, query: str, answer: str) -> str:
    entity = find_entity(model.graph, answer)
    asked = model.read(query).query
    if asked is None or len(asked.targets) != 1:
        raise InputError("Explanations are of queries with one variable after SELECT.")
    wanted = Wanted(top=1, allow=frozenset([entity]))
    (found,) = model.solve([asked], wanted, explain=1)
    if not found.explanation:
        return f"{answer!r} is no answer to this: the types or the query rule it out."
    return draw(found.explanation[0])

"""What the kinds that ask questions share: small models, and what must hold of every answer."""

from __future__ import annotations

import functools

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.plain import printable
from knowledge_sheaves.query import Asker, Options
from knowledge_sheaves.query.drawing import draw
from knowledge_sheaves.query.jsonl import select_document
from knowledge_sheaves.query.language.sparql import ParsedQuery
from sparql_cases import random_graph

# A question is read twice, each time within its limit: half of the second that it may take.
LIMITS = Options(tau=1.0, time_limit=0.25, memory_limit=64 << 20)
PEOPLE = (
    *("Ann", "Bob Ross", "not", "?x", 'say "hi"', "\x1b[31mred", "$\\badmacro{$", "名"),
    "Ann the first",  # a label
)
FILMS = (
    *("Star Wars", "where", ".", "a . b", "Ann knows", "}", "\u202eback"),
    *("Episode IV", "Brace"),  # labels
)
MODELS = ("complex", "transe", "rotate", "mure")


@functools.cache
def facts(typed: bool) -> KnowledgeGraph:
    """People and things: what is asked of it can be compared with rdflib."""
    return random_graph(5, typed)


@functools.cache
def odd_facts() -> KnowledgeGraph:
    """Names of several words, with signs in them, that act on terminals, and labels."""
    people, films = PEOPLE[:-1], FILMS[:-2]
    rows = [(one, "knows", other) for one, other in zip(people, people[3:] + people, strict=False)]
    rows += [(one, "favorite movie", film) for one, film in zip(people, films, strict=False)]
    rows += [(one, "not likes", film) for one, film in zip(people[1:], films, strict=False)]
    types = {**dict.fromkeys(people, "Person"), **dict.fromkeys(films, "Film")}
    labels = {"Ann": PEOPLE[-1], "Star Wars": FILMS[-2], "}": FILMS[-1]}
    return KnowledgeGraph.from_triples(rows, types=types, labels=labels)


@functools.cache
def asker(model: str, graph: KnowledgeGraph) -> Asker:
    made = Asker(SheafEmbedding(model_config(model, dim=4), graph, seed=3), LIMITS)
    for solver in ("chaining", "harmonic"):  # no question pays for imports
        asked = Asker(made.model, Options(tau=1.0)).answer("?x knows ?y", 1, solver=solver)
        draw(made.explain(asked)[0])
    return made


def ask(
    asker: Asker, text: str, solver: str, top: int | None, new: bool, explain: bool
) -> ParsedQuery:
    """Ask, show, explain; what comes back must be in order."""
    parsed = asker.read(text, asker.options.budget())
    if parsed.form == "ask":
        str(asker.decide(text, solver=solver))
        return parsed
    found = asker.answer(text, top, solver=solver, new=new, explain=explain)
    rows = list(map(tuple, found.ids.tolist()))
    assert len(rows) == len(set(rows)), f"an answer comes twice: {rows}"
    energies = found.energies.tolist()
    assert energies == sorted(energies), f"the best do not come first: {energies}"
    assert not (new and found.known is not None and found.known.any()), "known ones among new ones"
    select_document(parsed, found, explain)
    for reason in found.explanation or ():
        for line in draw(reason).split("\n"):
            assert printable(line) == line, f"acts on a terminal: {line!r}"
    return parsed

"""A block of predictions: ``SERVICE ks:predict { … }``.

Its triples are a question as the query language reads it. Triples with a word of ours say what is
wanted (``ks:answers ks:top 50``) or bind what the model says of an answer
(``?drug ks:probability ?p``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query.budget import Budget
from knowledge_sheaves.query.full.groups import Element
from knowledge_sheaves.query.full.text import KS, Text, Token
from knowledge_sheaves.query.language.iris import name_of
from knowledge_sheaves.query.language.sparql import ParsedQuery, parse_sparql
from knowledge_sheaves.query.pattern import Variable

PREDICT, ANSWERS = f"{KS}predict", f"{KS}answers"
OUTPUTS = ("probability", "energy", "rank", "known", "reason")
"""What a block may bind beside its answers."""
_START = "SELECT * {"


@dataclass(frozen=True)
class Wish:
    """What ``ks:answers`` says: how many, only new ones, found how, of which type."""

    top: int | None = None
    new: bool = False
    solver: str | None = None
    type: str | None = None


@dataclass(frozen=True)
class Block:
    """A block as it was read.

    ``asked`` has the variables that the rest of the query sees as its targets; ``outputs`` are
    variables and what they stand for.
    """

    place: str
    asked: ParsedQuery
    outputs: tuple[tuple[Variable, str], ...]
    wish: Wish


@dataclass
class _Said:
    """What the triples with words of ours say, and which tokens they are."""

    outputs: list[tuple[Variable, str]] = field(default_factory=list)
    wish: dict[str, object] = field(default_factory=dict)
    subjects: set[str] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)


def check_service(element: Element, text: Text) -> None:
    """Refuse a SERVICE that is not ours: nothing in a query opens a connection."""
    tokens = text.tokens
    at = element.first + 1
    at += at < len(tokens) and tokens[at].word == "SILENT"
    if at >= element.last or tokens[at].iri != PREDICT:
        raise InputError(
            f"SERVICE at {text.place(element.first)} asks another address, and no query opens a "
            f"connection: write SERVICE ks:predict, with ks: for {KS}."
        )
    if at + 1 >= element.last or tokens[at + 1].word != "{":
        raise InputError(
            f"SERVICE at {text.place(element.first)} needs what it asks in braces: "
            "SERVICE ks:predict { … }."
        )


def read_block(
    element: Element,
    text: Text,
    graph: KnowledgeGraph,
    visible: Collection[str] | None,
    budget: Budget | None = None,
) -> Block:
    """Read a block; ``visible`` are the variables that stand elsewhere too, None means all."""
    opening = next(n for n in range(element.first, element.last) if text.tokens[n].word == "{")
    said = _said(text, opening + 1, element.last - 1)
    named = {name for name, _ in said.outputs}
    inside = text.variables(opening, element.last)
    seen = {*(inside if visible is None else visible), *said.subjects} - named
    layout = _layout(element, text, opening, said.gone)
    asked = parse_sparql(layout, graph, budget, visible=seen)
    if asked.query is not None:
        for name in named & {v for p in asked.query.patterns for v in p.all_variables}:
            raise InputError(
                f"{name} in the block at {text.place(element.first)} is both an entity and what "
                "the model says of one; use two names."
            )
    wish = Wish(**said.wish)  # type: ignore[arg-type]
    return Block(text.place(element.first), asked, tuple(said.outputs), wish)


def _layout(element: Element, text: Text, opening: int, gone: Collection[int]) -> str:
    """The block as a query by itself, every token where it was, and so are places in errors."""
    source, tokens = text.source, text.tokens
    start, end = tokens[element.first].start, tokens[opening].end
    last = tokens[element.last - 1].end
    before = source[: text.prologue] + _blank(source[text.prologue : start])
    head = _START + _blank(source[start:end])[len(_START) :]
    body = list(source[end:last])
    for number in gone:
        token = tokens[number]
        body[token.start - end : token.end - end] = " " * len(token.text)
    return before + head + "".join(body)


def _blank(text: str) -> str:
    return re.sub(r"[^\r\n]", " ", text)


def _said(text: Text, first: int, last: int) -> _Said:
    """Find the triples with words of ours, and take them out."""
    said, tokens, depth = _Said(), text.tokens, 0
    for number in range(first, last):
        token = tokens[number]
        depth += (token.word in ("{", "(", "[")) - (token.word in ("}", ")", "]"))
        if token.word == "SERVICE":
            raise InputError(f"A SERVICE ({text.place(number)}) within a block is not supported.")
        if not token.iri.startswith(KS) or token.iri == ANSWERS:
            continue
        if depth:
            raise InputError(
                f"{token.text} ({text.place(number)}) may not stand in inner braces: write it "
                "directly into the block."
            )
        _take(said, text, number, first, last)
    return said


def _take(said: _Said, text: Text, verb: int, first: int, last: int) -> None:
    """Read one ``verb object`` behind a subject, or behind another one and a semicolon."""
    tokens = text.tokens
    word = tokens[verb].iri.removeprefix(KS)
    subject = _subject(tokens, verb, first)
    value = tokens[verb + 1] if verb + 1 < last else Token("", "", 0)
    after = tokens[verb + 2].word if verb + 2 < last else "."
    if subject is None or after == "," or verb + 1 >= last:
        raise InputError(
            f"{tokens[verb].text} ({text.place(verb)}) needs a subject before it and one value "
            "behind it."
        )
    if word in OUTPUTS:
        if value.kind != "variable":
            raise InputError(f"Behind {tokens[verb].text} ({text.place(verb)}) stands a variable.")
        said.outputs.append((Variable(f"?{value.text[1:]}"), word))
        if subject.kind == "variable":
            said.subjects.add(f"?{subject.text[1:]}")
    elif word in _WISHES and subject.iri == ANSWERS:
        said.wish[word] = _WISHES[word](value, f"{tokens[verb].text} ({text.place(verb)})")
    else:
        known = ", ".join(f"ks:{each}" for each in OUTPUTS)
        wishes = ", ".join(f"ks:{each}" for each in _WISHES)
        raise InputError(
            f"{tokens[verb].text} ({text.place(verb)}) says nothing here: an answer has {known}, "
            f"and ks:answers takes {wishes}."
        )
    said.gone |= {verb, verb + 1}
    if tokens[verb - 1].word == ";":
        said.gone.add(verb - 1)
    elif after == ";":
        said.gone.add(verb + 2)
    _drop_lonely_subject(said, tokens, verb, first, last)


def _drop_lonely_subject(
    said: _Said, tokens: Sequence[Token], verb: int, first: int, last: int
) -> None:
    """Take out a subject of which nothing else is said, with the dot behind it."""
    before = verb - 1
    while before in said.gone:
        before -= 1
    after = verb + 2
    while after in said.gone:
        after += 1
    starts = (
        before == first or tokens[before - 1].word in (".", "}", ")") or before - 1 in said.gone
    )
    ends = after >= last or tokens[after].word in (".", "{") or tokens[after].kind == "word"
    if starts and ends:
        said.gone.add(before)
        if after < last and tokens[after].word == ".":
            said.gone.add(after)


def _subject(tokens: Sequence[Token], verb: int, first: int) -> Token | None:
    """The subject of a verb: before it, or before the verbs that a semicolon divides from it."""
    place = verb - 1
    if tokens[place].word == ";":
        while place >= first and tokens[place].word not in (".", "{", "}"):
            place -= 1
        place += 1
    found = tokens[place] if place >= first else None
    return found if found is not None and (found.kind == "variable" or found.iri) else None


def _top(value: Token, where: str) -> int:
    if value.kind != "number" or not value.text.isdigit() or not 0 < int(value.text) <= MOST_TOP:
        raise InputError(f"{where} is a whole number from 1 to {MOST_TOP:,}, not {value.text}.")
    return int(value.text)


def _new(value: Token, where: str) -> bool:
    if value.word not in ("TRUE", "FALSE"):
        raise InputError(f"{where} is true or false, not {value.text}.")
    return value.word == "TRUE"


def _solver(value: Token, where: str) -> str:
    if value.kind != "string":
        raise InputError(f"{where} is the name of a solver in quotes, not {value.text}.")
    return value.text.strip("\"'")


def _type(value: Token, where: str) -> str:
    if not value.iri:
        raise InputError(f"{where} is the name of a type, not {value.text}.")
    return name_of(value.iri)


MOST_TOP = 10_000
_WISHES = {"top": _top, "new": _new, "solver": _solver, "type": _type}

"""Where the names of a query stand, found in its tokens: as a relation, as an entity, as a type.

A reader walks over the tokens with the brackets that are open, and knows of each group which part
of a triple comes next. That is all of SPARQL's grammar that is needed to tell what a name can mean;
blocks of predictions are left to their own reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from knowledge_sheaves.graph.names import End, Place
from knowledge_sheaves.query.full.text import KS, Token, closing
from knowledge_sheaves.query.language.iris import name_of
from knowledge_sheaves.query.language.names import TYPE

PROBABILITY = f"{KS}probability"
_GOES_ON = frozenset("/|*+?")
_WANTS_MORE = frozenset("/|^!")
_NEXT = {".": "subject", ";": "verb", ",": "object"}

Kind = Literal["relation", "entity", "type", "graph", "term"]
Where = Literal["facts", "template", "prediction"]


@dataclass(frozen=True)
class Role:
    """What a name stands for: ``term`` is a value in VALUES or a condition, which may be anything.

    A name of what is predicted must exist, one in a template need not.
    """

    kind: Kind
    places: tuple[Place, ...] = ()
    where: Where = "facts"


@dataclass
class _Found:
    kind: Kind
    where: Where = "facts"
    verb: list[Token] = field(default_factory=list)
    end: End = "head"

    def role(self) -> Role:
        if self.kind == "entity" and self.end == "tail" and _is_type(self.verb):
            return Role("type", (), self.where)
        return Role(self.kind, tuple(_places(self.verb, self.end)), self.where)


@dataclass
class _Frame:
    """An open bracket: what stands in it, and for triples which part comes next."""

    kind: Literal["outside", "triples", "path", "list", "terms", "probability"]
    where: Where = "facts"
    part: str = "subject"
    verb: list[Token] = field(default_factory=list)
    arguments: int = 0


def roles(tokens: Sequence[Token]) -> dict[int, Role]:
    """The role of each name that has one, by the place of its token."""
    return _Walk(tokens).roles()


class _Walk:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.frames = [_Frame("outside")]
        self.found: dict[int, _Found] = {}
        self.values = False

    def roles(self) -> dict[int, Role]:
        place = 0
        while place < len(self.tokens):
            if self._word(place) == "SERVICE":
                place = self._behind_block(place)
                self.frames[-1].part = "subject"
            else:
                self._step(place)
                place += 1
        return {place: found.role() for place, found in self.found.items()}

    def _word(self, place: int) -> str:
        return self.tokens[place].word if 0 <= place < len(self.tokens) else ""

    def _behind_block(self, place: int) -> int:
        while place < len(self.tokens) and self._word(place) != "{":
            place += 1
        return closing(self.tokens, place) + 1

    def _step(self, place: int) -> None:
        frame, word = self.frames[-1], self._word(place)
        self.values |= word == "VALUES"
        if frame.kind == "triples" and frame.part == "verb" and self._in_verb(frame, place):
            return
        if frame.kind == "path":
            frame.verb.append(self.tokens[place])
        if word in ("{", "(", "["):
            self.frames.append(self._opened(frame, place))
        elif word in ("}", ")", "]"):
            self._close(word)
        elif frame.kind == "triples":
            self._in_triples(frame, place)
        elif word == ",":
            frame.arguments += 1
        elif self.tokens[place].kind == "iri":
            self._in_terms(frame, place)

    def _in_verb(self, frame: _Frame, place: int) -> bool:
        """Take a token into the path between subject and object, if it belongs there."""
        token, last = self.tokens[place], frame.verb[-1].word if frame.verb else "/"
        if token.word in ("{", "}", "]", ".", ";") or (token.kind == "word" and token.word != "A"):
            return False  # a semicolon may stand behind the last verb
        if last not in _WANTS_MORE and token.word not in _GOES_ON:
            frame.part = "object"
            return False
        frame.verb.append(token)
        if token.word == "(":
            self.frames.append(_Frame("path", frame.where, verb=frame.verb))
        elif token.kind == "iri":
            self.found[place] = _Found("relation", frame.where)
        return True

    def _opened(self, frame: _Frame, place: int) -> _Frame:
        word, before = self._word(place), self.tokens[place - 1] if place else Token("", "", 0)
        if frame.kind == "path":
            return _Frame("path", frame.where, verb=frame.verb)
        if word == "{":
            values, self.values = self.values, False
            if values:
                return _Frame("terms")
            inner = self._word(place + 1) == "SELECT"
            where = "template" if before.word == "CONSTRUCT" else frame.where
            return _Frame("outside" if inner else "triples", where)
        if word == "[":
            return _Frame("triples", frame.where, "verb")
        if frame.kind == "list" or (
            frame.kind == "triples" and frame.part in ("subject", "object")
        ):
            return _Frame("list", frame.where)
        return _Frame("probability" if before.iri == PROBABILITY else "terms")

    def _close(self, word: str) -> None:
        if len(self.frames) > 1:
            self.frames.pop()
        frame = self.frames[-1]
        if frame.kind == "triples" and (word == "}" or frame.part == "keyword"):
            frame.part = "subject"
        elif frame.kind == "triples" and frame.part == "subject":
            frame.part, frame.verb = "verb", []

    def _in_triples(self, frame: _Frame, place: int) -> None:
        token = self.tokens[place]
        if token.word in _NEXT:
            frame.part = _NEXT[token.word]
            frame.verb = [] if frame.part == "verb" else frame.verb
        elif token.kind == "word":
            frame.part = "keyword"
        elif frame.part == "keyword":
            if token.iri and self._word(place - 1) == "GRAPH":
                self.found[place] = _Found("graph", frame.where)
        elif frame.part == "subject":
            frame.part, frame.verb = "verb", []
            if token.iri:
                self.found[place] = _Found("entity", frame.where, frame.verb)
        elif token.iri and self._word(place - 1) != "^^":
            self.found[place] = _Found("entity", frame.where, frame.verb, "tail")

    def _in_terms(self, frame: _Frame, place: int) -> None:
        """A name where no triple is: in a path's brackets, a list, a condition, or outside."""
        before = self._word(place - 1)
        if before in ("^^", "FROM", "NAMED"):
            return
        if frame.kind == "path":
            self.found[place] = _Found("relation", frame.where)
        elif frame.kind == "list" or self._is_described(place):
            self.found[place] = _Found("entity", frame.where)
        elif frame.kind == "probability" and before in ("(", ","):
            self.found[place] = self._argument(frame.arguments, place)
        elif self._word(place + 1) != "(":
            self.found[place] = _Found("term")

    def _is_described(self, place: int) -> bool:
        while place > 0 and self.tokens[place].kind in ("iri", "variable"):
            place -= 1
        return self._word(place) == "DESCRIBE"

    def _argument(self, number: int, place: int) -> _Found:
        if number == 1:
            return _Found("relation", "prediction")
        at = place + 2 if number == 0 else place - 2
        verb = [self.tokens[at]] if 0 <= at < len(self.tokens) else []
        return _Found("entity", "prediction", verb, "head" if number == 0 else "tail")


def _is_type(verb: Sequence[Token]) -> bool:
    return len(verb) == 1 and (verb[0].word == "A" or verb[0].iri == TYPE)


def _places(verb: Sequence[Token], end: End) -> list[Place]:
    """Where the head or the tail of a path stands; of alternatives any may be meant."""
    if len(_parts(verb, "|")) > 1:
        return []
    step = _parts(verb, "/")[0 if end == "head" else -1]
    first = step[0].word if step else ""
    if first == "^":
        return _places(step[1:], "tail" if end == "head" else "head")
    if first == "(" and closing(step, 0) == len(step) - 1:
        return _places(step[1:-1], end)
    return [Place(name_of(step[0].iri), end)] if len(step) == 1 and step[0].iri else []


def _parts(verb: Sequence[Token], sign: str) -> list[list[Token]]:
    """A path divided at a sign, but not within brackets."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in verb:
        depth += (token.word == "(") - (token.word == ")")
        parts.append([]) if token.word == sign and not depth else parts[-1].append(token)
    return parts

"""The text of a full SPARQL query: its tokens, and the same text as Oxigraph may have it.

What Oxigraph gets is put together from tokens that mean one thing only: names are written out as
IRIs, comments are gone, and ``SERVICE`` stands nowhere, not even glued to another word. Oxigraph
would open connections for it, and nothing else in a query can make it do so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol
from urllib.parse import urljoin

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.language.iris import iri_of, is_valid, unquoted
from knowledge_sheaves.query.language.names import NAMESPACE, PREFIXES
from knowledge_sheaves.query.language.short import is_sparql
from knowledge_sheaves.query.language.sparql_text import UPDATES, check_length, place

KS = "urn:knowledge-sheaves:"
"""What ``ks:`` stands for: the names of our own."""
MOST_WORDS = 2_000
MOST_NESTED = 100
MOST_JOINED = 100
"""Oxigraph plans joins in a time that grows with a high power of their number."""

_UCHAR = r"\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}"
_TOKEN = re.compile(
    rf'''
      (?P<comment>\#[^\r\n]*)
    | (?P<string>"""(?:[^\\]|\\.)*?""" | \'\'\'(?:[^\\]|\\.)*?\'\'\'
               | "(?:[^"\\\r\n]|\\.)*" | '(?:[^'\\\r\n]|\\.)*')
    | (?P<iri><(?:[^<>"{{}}|^`\\\x00-\x20]|{_UCHAR})*>)
    | (?P<loose><(?![\s=])[^<>\r\n]*>)
    | (?P<variable>[?$]\w+)
    | (?P<blank>_:\w(?:[\w.-]*[\w-])?)
    | (?P<name>(?:[^\W\d_][\w.-]{{0,99}})?:
               (?:[\w:-]|\.+(?=[\w:%\\-])|%[0-9A-Fa-f]{{2}}|\\[^\w\r\n]|\\_)*)
    | (?P<number>\d+\.\d*[eE][+-]?\d+|(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<language>@[A-Za-z]+(?:-[A-Za-z0-9]+)*)
    | (?P<word>[^\W\d]\w*)
    | (?P<operator>&&|\|\||!=|<=|>=|\^\^|\S)
    ''',
    re.VERBOSE | re.DOTALL,
)
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ESCAPED = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))")
_CLOSING = {"{": "}", "(": ")", "[": "]"}
_JOINING = frozenset(".;,/{")
_IRIS = ("iri", "loose", "name")
_VALUES = (*_IRIS, "variable", "string", "language", "number")
_ENDS = (")", "TRUE", "FALSE")


class Names(Protocol):
    """What things of a graph are called."""

    def is_name(self, name: str) -> bool:
        """Whether something has this name."""

    def is_label(self, name: str) -> bool:
        """Whether something has this label."""


@dataclass(frozen=True)
class Token:
    """A piece of the text, and where it starts; names and IRIs have the IRI that they mean."""

    kind: str
    text: str
    start: int
    iri: str = ""

    @property
    def word(self) -> str:
        """The keyword or operator, in capitals; empty for what has other letters."""
        return self.text.upper() if self.kind in ("word", "operator") else ""

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def written(self) -> str:
        """The token as Oxigraph gets it."""
        return f"<{self.iri}>" if self.kind == "iri" else self.text


@dataclass(frozen=True)
class Text:
    """A query as tokens, without its prologue: ``source`` is what the user wrote."""

    source: str
    tokens: tuple[Token, ...]
    prologue: int
    """Where the prologue ends in the source."""

    def place(self, token: int) -> str:
        """Where a token stands, for people."""
        return place(self.source, self.tokens[token].start)

    def written(self, first: int, last: int) -> str:
        """Some of the tokens as Oxigraph gets them, the gaps between them as they were."""
        return "".join(self._pieces(first, last))

    def _pieces(self, first: int, last: int) -> Iterator[str]:
        for number in range(first, last):
            token = self.tokens[number]
            yield token.written
            if number + 1 < last:
                gap = self.source[token.end : self.tokens[number + 1].start]
                yield gap if not gap.strip() else re.sub(r"\S", " ", gap)  # a comment

    def variables(self, first: int, last: int) -> list[str]:
        """The variables among some tokens, each once, with question marks."""
        found = (t.text for t in self.tokens[first:last] if t.kind == "variable")
        return list(dict.fromkeys(f"?{text[1:]}" for text in found))


def is_full(text: str, facts_only: bool = False) -> bool:
    """Whether a text is answered as full SPARQL; a plain pattern means predictions.

    Full is a query with a ``SERVICE`` block or a word of ours, and any if the user wants the facts
    only.

    >>> is_full("SELECT ?x { SERVICE ks:predict { :Ann :knows ?x } }")
    True
    >>> is_full("SELECT ?x { :Ann :knows ?x }"), is_full("Ann knows ?x", facts_only=True)
    (False, True)
    """
    if facts_only or not is_sparql(text):
        return facts_only
    return asks_predictions(text)


def asks_predictions(text: str) -> bool:
    """Whether a query has a ``SERVICE`` block, or a word of ours such as ``ks:probability``."""
    tokens = list(_scan(text))
    declared = {b.text for a, b in pairwise(tokens) if a.word == "PREFIX"}
    return any(
        token.word == "SERVICE"
        or (token.kind == "iri" and token.text.startswith(f"<{KS}"))
        or (token.kind == "name" and token.text.startswith("ks:") and "ks:" not in declared)
        for token in tokens
    )


def read_text(text: str, names: Names) -> Text:
    """Take a query apart; ``names`` are those of the graph."""
    check_length(text)
    found = [token for token in _scan(text) if token.kind != "comment"]
    _check(text, found)
    return _Reader(text, found, names).read()


def _scan(text: str) -> Iterator[Token]:
    start, where = 0, _Where()
    while match := _TOKEN.search(text, start):
        kind, piece = str(match.lastgroup), match[0]
        # Between < and > of two comparisons may stand what looks like an IRI or a name of ours.
        if kind in ("iri", "loose") and where.compares:
            kind, piece = "operator", "<=" if piece.startswith("<=") else "<"
        token = Token(kind, piece, match.start())
        if kind != "comment":
            where.step(token)
        start = token.end
        yield token


class _Where:
    """Where a reader of tokens stands: behind a value in brackets that hold an expression or not.

    Expressions stand in round brackets, and so do paths, lists and rows of VALUES.
    """

    def __init__(self) -> None:
        self.open, self.values = [""], False
        self.last, self.before = Token("", "", 0), Token("", "", 0)

    @property
    def compares(self) -> bool:
        """Whether an operator comes next."""
        last = self.last
        return self.open[-1] == "expression" and (last.kind in _VALUES or last.word in _ENDS)

    def step(self, token: Token) -> None:
        """Go over a token."""
        self.values |= token.word == "VALUES"
        if token.word in _CLOSING:
            self.open.append(self._opened(token.word))
        elif token.word in _CLOSING.values() and len(self.open) > 1:
            self.open.pop()
        elif token.word == "SELECT" and self.last.word == "{":
            self.open[-1] = ""  # what follows is a query by itself
        self.last, self.before = token, self.last

    def _opened(self, bracket: str) -> str:
        around = self.open[-1]
        if bracket == "{":
            values, self.values = self.values, False
            return "VALUES" if values else "group"
        quoted = self.last.text == self.before.text == "<"  # <<( … )>>
        if bracket == "[" or around in ("VALUES", "terms") or quoted:
            return "terms"
        if around in ("", "expression") or (self.last.kind == "word" and self.last.word != "A"):
            return "expression"
        # In a group: the arguments of FILTER ks:f(…), or else a path or a list.
        return "expression" if self.before.word == "FILTER" and self.last.kind in _IRIS else "terms"


def _check(text: str, tokens: Sequence[Token]) -> None:
    """Refuse what is no query, or so large that Oxigraph could not bear it."""
    words = [token for token in tokens if token.kind == "word"]
    first = next((token for token in words if token.word not in ("PREFIX", "BASE")), None)
    if first is not None and first.word in UPDATES:
        raise InputError(
            f"{first.word} ({place(text, first.start)}) would change something, and queries "
            "change nothing: write SELECT, ASK, CONSTRUCT or DESCRIBE."
        )
    data = _data(tokens)
    _check_nesting(text, [token for n, token in enumerate(tokens) if n not in data])
    for token in tokens:
        if token.kind == "word" and token.word != "SERVICE" and "SERVICE" in token.word:
            raise InputError(f"{token.text!r} ({place(text, token.start)}) is no word of SPARQL.")
        if token.word == "\\":
            raise InputError(
                f"A backslash ({place(text, token.start)}) may stand in strings and names only."
            )


def _check_nesting(text: str, tokens: Sequence[Token]) -> None:
    """Bound what is joined and what is nested; rows of VALUES are neither."""
    open_brackets: list[str] = []
    joined, in_a_row = 0, 0
    for token in tokens:
        if token.word in _CLOSING:
            open_brackets.append(token.word)
        elif token.word in _CLOSING.values() and open_brackets:
            open_brackets.pop()
        joined += token.word in _JOINING and "(" not in open_brackets
        in_a_row = in_a_row + 1 if token.word in ("!", "+", "-", "^") else 0
        if len(open_brackets) + in_a_row > MOST_NESTED:
            raise InputError(
                f"The query nests more than {MOST_NESTED} brackets or signs "
                f"({place(text, token.start)}); ask several smaller ones."
            )
    for what, found, most in (
        ("words and signs beside the rows of VALUES", len(tokens), MOST_WORDS),
        ("triples, groups and steps of paths", joined, MOST_JOINED),
    ):
        if found > most:
            raise InputError(
                f"The query has {found:,} {what}, more than {most:,}; ask several smaller ones."
            )


def _data(tokens: Sequence[Token]) -> set[int]:
    """The places of the tokens that are rows of VALUES."""
    found: set[int] = set()
    for number, token in enumerate(tokens):
        if token.word == "VALUES" and number not in found:
            start = next((n for n in range(number, len(tokens)) if tokens[n].word == "{"), None)
            if start is not None:
                found.update(range(start, closing(tokens, start)))
    return found


def closing(tokens: Sequence[Token], start: int) -> int:
    """The place of the bracket that closes the one at a place, or behind the last token."""
    depth = 0
    for number in range(start, len(tokens)):
        word = tokens[number].word
        depth += (word in _CLOSING) - (word in _CLOSING.values())
        if depth == 0:
            return number
    return len(tokens)


class _Reader:
    """Takes the prologue off, and gives every name its IRI."""

    def __init__(self, text: str, tokens: list[Token], names: Names) -> None:
        self.text, self.tokens, self.names = text, tokens, names
        self.prefixes, self.base = {**PREFIXES, "ks": KS}, ""

    def read(self) -> Text:
        first = self._prologue()
        start = self.tokens[first].start if first < len(self.tokens) else len(self.text)
        return Text(self.text, tuple(map(self._token, self.tokens[first:])), start)

    def _prologue(self) -> int:
        """Read the declarations; return where the query begins."""
        number = 0
        while number < len(self.tokens):
            one, two, three = [*self.tokens[number : number + 3], *[Token("", "", 0)] * 2][:3]
            if one.word == "BASE" and two.kind == "iri":
                self.base = self._absolute(_unescape(two.text[1:-1]))
                number += 2
            elif one.word == "PREFIX" and two.text.endswith(":") and three.kind == "iri":
                self.prefixes[two.text[:-1]] = self._absolute(_unescape(three.text[1:-1]))
                number += 3
            else:
                break
        return number

    def _token(self, token: Token) -> Token:
        if token.kind not in ("iri", "loose", "name"):
            return token
        iri = self._name(token) if token.kind == "name" else self._iri(token)
        # An escape may stand for a sign that ends an IRI: what follows it would be read as SPARQL.
        if not is_valid(iri):
            where = place(self.text, token.start)
            raise InputError(
                f"{token.text} ({where}) is no IRI: it holds a sign that none may have."
            )
        return Token("iri", token.text, token.start, iri)

    def _name(self, token: Token) -> str:
        prefix, _, local = token.text.partition(":")
        if prefix not in self.prefixes:
            raise InputError(
                f"The prefix {prefix!r} ({place(self.text, token.start)}) is not declared; "
                f"write PREFIX {prefix}: <…> before the query."
            )
        whole = self.prefixes[prefix] + re.sub(r"\\(.)", r"\1", local)
        return self._known(whole)

    def _iri(self, token: Token) -> str:
        text = _unescape(token.text[1:-1])
        # With a base an IRI without a scheme means what the base makes of it, and no label.
        relative = bool(self.base) and token.kind == "iri"
        if self.names.is_name(text) or (not relative and self.names.is_label(text)):
            return iri_of(text)
        # What has signs that no IRI has, such as blanks, is a name of ours.
        return self._known(NAMESPACE + text if token.kind == "loose" else self._absolute(text))

    def _absolute(self, text: str) -> str:
        """An IRI with its scheme; without a base, what has none is a name of ours."""
        if _ABSOLUTE.match(text):
            return text
        if not self.base:
            return NAMESPACE + text
        found = urljoin(self.base, text)
        # Of some schemes Python does not know that anything can be relative to them.
        return found if _ABSOLUTE.match(found) else f"{self.base.partition(':')[0]}:{found}"

    def _known(self, iri: str) -> str:
        """One IRI for a name, however it was written."""
        if not iri.startswith(NAMESPACE):
            return iri
        name = iri.removeprefix(NAMESPACE)
        known = self.names.is_name(name) or self.names.is_label(name)
        return iri_of(name if known else unquoted(name))


def _unescape(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        try:
            return chr(int(match[1] or match[2], 16))
        except (ValueError, OverflowError):
            raise InputError(f"The escape {match[0]} stands for no character.") from None

    return _ESCAPED.sub(character, text) if "\\" in text else text

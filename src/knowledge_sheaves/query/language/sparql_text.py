"""The text of a SPARQL query: its tokens, what of them is supported, and how rdflib reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyparsing import ParseException, ParseResults
from rdflib.plugins.sparql.algebra import translateQuery
from rdflib.plugins.sparql.parser import parseQuery

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.budget import Budget
from knowledge_sheaves.query.language.names import NAMESPACE, PREFIXES, hide, hide_escaped

MOST_CHARACTERS = 100_000
MOST_TOKENS = 2_000
MOST_TRIPLES = 200
MOST_DIGITS = 18

SUPPORTED = (
    "supported are SELECT and ASK with triples, paths by / ^ |, UNION, FILTER NOT EXISTS, MINUS, "
    "VALUES, FILTER(?x != ?y) and LIMIT; the facts (--facts-only, model.sparql) take all of SPARQL"
)
_FORMS = {"SELECT", "ASK", "WHERE", "DISTINCT", "REDUCED", "LIMIT", "PREFIX", "BASE"}
_PARTS = {"UNION", "FILTER", "NOT", "EXISTS", "MINUS", "VALUES", "UNDEF", "A"}
_OPERATORS = frozenset(["{", "}", "(", ")", "[", "]", ".", ";", ",", "/", "|", "^", "!=", "&&"])
UPDATES = {"INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY", "WITH"}
_HINTS = {
    "ORDER": "answers come ranked, the best first",
    "EXISTS": "write its triples into the pattern instead",
    "SERVICE": "a query with a block of predictions goes to model.sparql",
    "IN": "write VALUES, or one != for each name",
    "=": "use one name for both, or VALUES",
}
_LONGER = {"GROUP": "GROUP BY", "ORDER": "ORDER BY", "AS": "AS (a computed column)"}

_TOKEN = re.compile(
    r'''
      (?P<comment>\#[^\r\n]*)
    | (?P<string>"""(?:[^\\]|\\.)*?""" | \'\'\'(?:[^\\]|\\.)*?\'\'\'
               | "(?:[^"\\\r\n]|\\.)*" | '(?:[^'\\\r\n]|\\.)*')
    | (?P<iri><(?![\s=])[^<>\r\n]*>)
    | (?P<variable>[?$]\w+)
    | (?P<name>(?:[^\W\d][\w.-]{0,99})?:(?:[\w:.-]|%[0-9A-Fa-f]{2}|\\.)*)
    | (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<language>@[A-Za-z-]+)
    | (?P<word>[^\W\d]\w*)
    | (?P<operator>&&|\|\||!=|<=|>=|\^\^|\S)
    ''',
    re.VERBOSE,
)
_ODD_IN_IRI = re.compile(r'\\(?!u[0-9a-fA-F]{4})|[\x00-\x20"{}|^`]')
_ESCAPE = re.compile(r"\\(?!u[0-9a-fA-F]{4})(.)")


@dataclass(frozen=True)
class Token:
    """A piece of the text, what kind of piece it is, and where it starts."""

    kind: str
    text: str
    start: int

    @property
    def word(self) -> str:
        """The keyword or operator, in capitals; empty for what has other letters."""
        return self.text.upper() if self.kind in ("word", "operator") else ""


@dataclass(frozen=True)
class ReadQuery:
    """rdflib's algebra of a query, with what only the text knows."""

    algebra: Any
    takes_all: bool
    variables: tuple[str, ...]
    """All variables in order of appearance, each with its question mark."""


def read(text: str, budget: Budget | None = None) -> ReadQuery:
    """Parse a query; what is not SPARQL, or not supported, is an error that says where.

    >>> read("SELECT ?x { ?y :likes ?x }").variables
    ('?x', '?y')
    """
    check_length(text)
    tokens = [token for token in _tokens(text) if token.kind != "comment"]
    _refuse_more("words and signs", len(tokens), MOST_TOKENS)
    for token in tokens:
        if token.kind == "number" and len(token.text) > MOST_DIGITS:
            where = place(text, token.start)
            raise InputError(f"The number at {where} has more than {MOST_DIGITS} digits.")
    tree = _parse(text, tokens)
    _check_supported(text, tokens)
    _refuse_more("triples", _count_triples(tree), MOST_TRIPLES)
    if budget is not None:
        budget.check_time()
    takes_all = tree[1].name == "SelectQuery" and not tree[1].projection
    variables = dict.fromkeys(f"?{t.text[1:]}" for t in tokens if t.kind == "variable")
    single = _single_prefixes(text, tokens)
    if single != text:
        tree = _parse(single, tokens)
    algebra = translateQuery(tree, initNs=PREFIXES).algebra
    return ReadQuery(algebra, takes_all, tuple(variables))


def check_syntax(text: str) -> None:
    """Refuse what is not SPARQL 1.1, with its place."""
    _parse(text, [token for token in _tokens(text) if token.kind != "comment"])


def _parse(text: str, tokens: Sequence[Token]) -> Any:
    try:
        return parseQuery(_readable(text))
    except ParseException as error:
        raise InputError(_syntax_error(text, tokens, error.loc)) from None
    except RecursionError:
        # rdflib's grammar calls itself for every brace, and for every triple after the first.
        raise InputError(
            "The query is too large: too many triples in one group, or braces within braces; "
            "ask several smaller ones."
        ) from None
    except ValueError as error:
        raise InputError(f"The query has an escape that is no character: {error}.") from None


def _single_prefixes(text: str, tokens: Sequence[Token]) -> str:
    """The text with one prefix for each namespace: rdflib forgets the first of two.

    >>> text = "PREFIX a: <urn:x:> PREFIX b: <urn:x:> ASK { a:c b:d ?e }"
    >>> " ".join(_single_prefixes(text, list(_tokens(text))).split())
    'PREFIX a: <urn:x:> ASK { a:c a:d ?e }'
    """
    declared = [
        (tokens[place - 1].text, place)
        for place in range(2, len(tokens))
        if tokens[place - 2].word == "PREFIX"
    ]
    names = {"": f"<{NAMESPACE}>"} | {
        name.partition(":")[0]: tokens[place].text for name, place in declared
    }
    first: dict[str, str] = {}
    same = {prefix: first.setdefault(space, prefix) for prefix, space in names.items()}
    pieces, end = [], 0
    for number, token in enumerate(tokens):
        prefix, colon, rest = token.text.partition(":")
        piece = token.text
        if token.kind == "name" and same.get(prefix, prefix) != prefix:
            piece = "" if tokens[number - 1].word == "PREFIX" else f"{same[prefix]}{colon}{rest}"
        elif _declares(tokens[number + 1 : number + 2], same) and token.word == "PREFIX":
            piece = ""
        elif number > 1 and tokens[number - 2].word == "PREFIX":
            piece = "" if _declares(tokens[number - 1 : number], same) else piece
        pieces += [text[end : token.start], piece]
        end = token.start + len(token.text)
    return "".join([*pieces, text[end:]])


def _declares(tokens: Sequence[Token], same: Mapping[str, str]) -> bool:
    """Whether a prefix is declared here that another one stands for too."""
    prefixes = (token.text.partition(":")[0] for token in tokens if token.kind == "name")
    return any(same.get(prefix, prefix) != prefix for prefix in prefixes)


def check_length(text: str) -> None:
    """Refuse a text that is longer than any question needs to be."""
    _refuse_more("characters", len(text), MOST_CHARACTERS)


def _refuse_more(what: str, found: int, most: int) -> None:
    if found > most:
        raise InputError(
            f"The query has {found:,} {what}, more than {most:,}; ask several smaller ones."
        )


def _count_triples(tree: Any) -> int:
    """How many triples there are in a tree: turning them into algebra takes their square."""
    count, waiting = 0, [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            # A CompValue answers lookups by evaluating itself: what it holds is a dict's.
            for part in dict.get(node, "triples") or ():
                count += len(part) // 3
            waiting.extend(dict.values(node))
        elif isinstance(node, list | tuple | ParseResults):
            waiting.extend(node)
    return count


def unsupported(construct: str, text: str = "", start: int | None = None, hint: str = "") -> str:
    """Return the sentence about a construct that SPARQL has and we have not."""
    where = "" if start is None else f" ({place(text, start)})"
    return f"{construct} is not supported{where}; {hint or SUPPORTED}."


def place(text: str, start: int) -> str:
    """Return the line and the column of a place in a text, counted from one.

    >>> place("ASK {\\n  ?x }", 8)
    'line 2, column 3'
    """
    line = text.count("\n", 0, start) + 1
    return f"line {line}, column {start - text.rfind(chr(10), 0, start)}"


def _tokens(text: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(text):
        yield Token(str(match.lastgroup), match[0], match.start())


def _readable(text: str) -> str:
    """Hide what rdflib's grammar does not read in names, and tabs, which its parser widens."""
    pieces, end = [], 0
    for token in _tokens(text):
        piece = token.text
        if token.kind == "iri":
            piece = "<" + _ODD_IN_IRI.sub(lambda odd: hide(odd[0]), piece[1:-1]) + ">"
        elif token.kind == "name":
            piece = _ESCAPE.sub(lambda escape: hide_escaped(escape[1]), piece)
        elif token.kind == "string":
            piece = piece.replace("\t", hide("\t"))
        pieces += [text[end : token.start].replace("\t", " "), piece]
        end = token.start + len(token.text)
    return "".join([*pieces, text[end:].replace("\t", " ")])


def _syntax_error(text: str, tokens: Sequence[Token], start: int) -> str:
    """Say where reading stopped; an open string is the culprit wherever the parser gave up."""
    for token in tokens:
        if token.word in ('"', "'"):
            return f"The string that starts at {place(text, token.start)} does not end."
    first = _first_keyword(tokens)
    if first is not None and first.word in UPDATES:
        return unsupported(first.word, text, first.start)
    rest = " ".join(text[start:].split())
    if not rest:
        where = place(text, len(text.rstrip()))
        return f"The query ends too early ({where}); is something missing, say a '}}'?"
    shown = rest if len(rest) <= 30 else rest[:30] + " …"
    return f"This is not SPARQL from {place(text, start)} on: {shown!r}."


def _first_keyword(tokens: Sequence[Token]) -> Token | None:
    words = (token for token in tokens if token.kind == "word")
    return next((token for token in words if token.word not in ("PREFIX", "BASE")), None)


def _check_supported(text: str, tokens: Sequence[Token]) -> None:
    """Refuse what a well-formed query uses beyond our part of SPARQL, at its first place."""
    declared, previous, selects = {*PREFIXES, "_"}, Token("word", "", 0), 0
    for token in tokens:
        before, previous = previous.word, token
        selects += token.word == "SELECT"
        construct = _beyond(token, before, selects)
        if construct:
            hint = _HINTS.get(token.word, "")
            raise InputError(unsupported(construct, text, token.start, hint))
        if token.kind == "name":
            prefix = token.text.partition(":")[0]
            if before == "PREFIX":
                declared.add(prefix)
            elif prefix not in declared:
                raise InputError(
                    f"The prefix {prefix!r} ({place(text, token.start)}) is not declared; "
                    f"write PREFIX {prefix}: <…> before the query."
                )


def _beyond(token: Token, before: str, selects: int) -> str:
    """Name what a token stands for where we do not support it."""
    match token.kind:
        case "number" if before != "LIMIT":
            return f"The number {token.text}"
        case "language":
            return f"The language tag {token.text}"
        case "operator" if token.word == "*" and before in ("SELECT", "DISTINCT", "REDUCED"):
            return ""
        case "operator" if token.word == "^^":
            return "A datatype (^^)"
        case "operator" if token.word not in _OPERATORS:
            return f"The operator or path {token.word!r}"
        case "word" if token.word not in _FORMS | _PARTS:
            return _LONGER.get(token.word, token.word)
        case "word" if token.word == "EXISTS" and before != "NOT":
            return "FILTER EXISTS"
        case "word" if token.word == "SELECT" and selects > 1:
            return "A SELECT within a query"
    return ""

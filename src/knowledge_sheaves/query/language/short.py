"""The short form of a query: ``Ann knows ?y . ?y likes ?x``, which is SPARQL without its frame.

Statements are head, relation and tail, with a dot between blanks or a line break between them; one
that begins with ``not`` must not hold. Names are written as they are; quotes are needed only where
words could be taken apart in two ways. Asked for is the variable that is mentioned last, unless the
query says ``?y where …``; without variables, whether it holds.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.labels import label_of
from knowledge_sheaves.graph.names import End, Place, find_entity, read_relation
from knowledge_sheaves.query.language.names import sparql_name
from knowledge_sheaves.query.language.sparql_text import check_length

MOST_WORDS = 50
"""A longer statement is not searched for what may be misspelt in it."""
_FORMS = r"SELECT|ASK|PREFIX|BASE|CONSTRUCT|DESCRIBE|INSERT|DELETE|LOAD(?=\s+(?:SILENT\s+)?<)"
_SPARQL = re.compile(rf"(?:\#[^\n]*\n\s*+)*+(?:{_FORMS})\b", re.IGNORECASE)
_WHERE = re.compile(r"(\?\w+)\s+where\s+", re.IGNORECASE)
_STOP = re.compile(r"(?:^|\s)\.(?=\s|$)|\n")
# An apostrophe may stand within quotes like itself, unless a blank follows: 'Alzheimer's disease'.
_WORD = re.compile(r""""[^"]*"|'(?:[^']|'(?=\S))*'(?=\s|$)|\S+""")


def is_sparql(text: str) -> bool:
    """Whether a text is SPARQL rather than the short form.

    >>> is_sparql("select ?x { :Ann :knows ?x }"), is_sparql("Ann knows ?x")
    (True, False)
    """
    return "{" in text or "}" in text or bool(_SPARQL.match(text.strip()))


def to_sparql(text: str, graph: KnowledgeGraph) -> str:
    """Write a query in the short form as SPARQL.

    >>> graph = KnowledgeGraph.from_triples(
    ...     [("Ann", "knows", "Bob"), ("Bob", "favorite movie", "Star Wars")])
    >>> print(to_sparql("Ann knows ?y . ?y favorite movie ?x . not Ann knows ?x", graph))
    SELECT ?x { :Ann :knows ?y . ?y <favorite movie> ?x . FILTER NOT EXISTS { :Ann :knows ?x } }
    >>> to_sparql("Bob favorite movie Star Wars", graph)
    'ASK { :Bob <favorite movie> <Star Wars> }'
    """
    check_length(text)
    text = text.strip()
    select = _WHERE.match(text)
    body = text[select.end() :] if select else text
    statements = [part.strip() for part in _STOP.split(body) if part.strip()]
    if not statements:
        raise InputError("The query is empty: write SPARQL, or say 'Ann knows ?x'.")
    written, variables = [], []
    for statement in statements:
        words = _WORD.findall(statement)
        negated = words[0].lower() == "not" and len(words) > 3
        row = _split(words[1:] if negated else words, statement, graph)
        triple = _write(row, graph)
        written.append(f"FILTER NOT EXISTS {{ {triple} }}" if negated else triple)
        if not negated:
            variables += [word for word in row if word.startswith("?")]
    frame = "ASK"
    if select or variables:
        frame = f"SELECT {select[1] if select else list(dict.fromkeys(variables))[-1]}"
    return f"{frame} {{ {' . '.join(written)} }}"


def _split(words: Sequence[str], statement: str, graph: KnowledgeGraph) -> tuple[str, str, str]:
    """Tell where the relation starts and ends: where all three parts have a meaning."""
    if len(words) < 3:
        raise InputError(
            f"A statement has a head, a relation and a tail, unlike {_cut(statement)!r}."
        )
    if len(words) == 3:
        return _join(words, 1, 2)
    labels = graph.by_label
    names = (*graph.schema.labelled_names, *graph.schema.backwards)
    relations = frozenset(names) | frozenset(filter(None, map(label_of, names)))

    def is_entity(text: str) -> bool:
        variable = text.startswith("?") and " " not in text
        return variable or text in graph.entities or text in labels

    ways = [_join(words, *way) for way in _ways(words, relations)]
    fitting = [way for way in ways if is_entity(way[0]) and is_entity(way[2])]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        # One of the three is misspelt: whoever looks it up says what may be meant.
        half = [way for way in ways if is_entity(way[0]) or is_entity(way[2])]
        half = half or [way for way in _all_ways(words) if is_entity(way[0]) and is_entity(way[2])]
        if half:
            return max(half, key=lambda way: len(way[1]))
    why = "can be read in several ways" if fitting else "has no names of the graph in three places"
    raise InputError(f'{_cut(statement)!r} {why}: put names of several words in "quotes".')


def _all_ways(words: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """All ways to divide a statement whose first or last word is a variable."""
    last = len(words) - 1
    if last > MOST_WORDS:
        return
    if words[last].startswith("?"):
        yield from (_join(words, start, last) for start in range(1, last))
    if words[0].startswith("?"):
        yield from (_join(words, 1, end) for end in range(2, len(words)))


def _ways(words: Sequence[str], relations: Collection[str]) -> Iterator[tuple[int, int]]:
    """Where a relation starts and ends; no further from each other than relations have words."""
    most = max((name.count(" ") + 1 for name in relations), default=1)
    for start in range(1, len(words) - 1):
        for end in range(start + 1, min(len(words), start + most + 1)):
            if _text(words[start:end]) in relations:
                yield start, end


def _join(words: Sequence[str], start: int, end: int) -> tuple[str, str, str]:
    return _text(words[:start]), _text(words[start:end]), _text(words[end:])


def _text(words: Sequence[str]) -> str:
    return " ".join(map(_bare, words))


def _bare(word: str) -> str:
    quoted = len(word) > 1 and word[0] == word[-1] == "'"
    return word[1:-1] if quoted else word.strip('"')


def _cut(statement: str) -> str:
    return statement if len(statement) <= 100 else statement[:100] + " …"


def _write(row: Sequence[str], graph: KnowledgeGraph) -> str:
    head, relation, tail = row

    def term(text: str, end: End) -> str:
        if text.startswith("?"):
            return text
        return sparql_name(graph.entities[find_entity(graph, text, [Place(relation, end)])])

    name, backwards = read_relation(graph, relation)
    ends = term(head, "head"), term(tail, "tail")
    first, last = reversed(ends) if backwards else ends
    return f"{first} {sparql_name(name)} {last}"

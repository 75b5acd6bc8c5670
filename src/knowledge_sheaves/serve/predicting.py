"""A query whose patterns mean predictions, written as one with a block of predictions.

Other stores send what they want to know as they would to any endpoint: triples, VALUES with what
they have found so far, at times in columns of their own. The triples become a block; VALUES stand
before it, so that the block is asked once for each of their rows; all else stays what it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from knowledge_sheaves.query.full.groups import FILTER, GROUP, SERVICE, TRIPLES, Element, Groups
from knowledge_sheaves.query.full.store import FactStore
from knowledge_sheaves.query.full.text import KS, Text, read_text

_SIMPLE = frozenset(["FILTER", "(", ")", "!=", "&&", ""])


def has_values(text: Text) -> bool:
    """Whether rows are handed in."""
    return any(token.word == "VALUES" for token in text.tokens)


def with_block(source: str, facts: FactStore, top: int) -> str:
    """The query with its triples in a block that gives so many answers, unless it says how many.

    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> facts = FactStore.of(KnowledgeGraph.from_triples([("Ann", "knows", "Bob")]))
    >>> print(with_block("SELECT * { ?x :knows ?y FILTER(?x > 1) } VALUES ?x { :Ann }", facts, 5))
    SELECT * { VALUES ?x { <urn:name:Ann> } SERVICE <urn:knowledge-sheaves:predict>
    { ?x <urn:name:knows> ?y . <urn:knowledge-sheaves:answers> <urn:knowledge-sheaves:top> 5 }
    FILTER(?x > 1) }
    """
    text = read_text(source, facts)
    groups = Groups(text)
    if groups.blocks or not groups.outermost:
        return source
    where = groups.outermost[-1]
    inside = [each for each in where.elements if _belongs(each, text, facts)]
    if not any(each.kind != FILTER for each in inside):
        return source
    rows = [each for each in where.elements if each.kind == "VALUES"]
    rest = [each for each in where.elements if each not in inside and each not in rows]
    tokens = text.tokens
    values = _last_values(text, where.last)
    wish = "" if any(t.iri == f"{KS}top" for t in tokens) else f"<{KS}answers> <{KS}top> {top} "
    return " ".join(
        [
            source[: tokens[where.first].end],
            text.written(values, len(tokens)),
            *(_written(text, rows)),
            f"SERVICE <{KS}predict> {{ {' . '.join(_written(text, inside))} . {wish}}}",
            *(_written(text, rest)),
            "}",
            text.written(where.last, values),
        ]
    ).rstrip()


def _belongs(element: Element, text: Text, facts: FactStore) -> bool:
    """Whether the sheaf can be asked about an element: not about labels and other values."""
    tokens = text.tokens[element.first : element.last]
    if element.kind == TRIPLES and len(tokens) == 3 and facts.is_told(tokens[1].iri):
        return False
    words = {token.word for token in tokens}
    if words & {"SELECT", "SERVICE", "OPTIONAL", "BIND", "GRAPH", "VALUES"}:
        return False
    if element.kind == FILTER:
        return tokens[1].word == "NOT" or (words <= _SIMPLE and "!=" in words)
    return element.kind in (TRIPLES, GROUP, "MINUS") and element.kind != SERVICE


def _last_values(text: Text, first: int) -> int:
    """Where the VALUES behind a query start, or its end."""
    places = range(first, len(text.tokens))
    return next((n for n in places if text.tokens[n].word == "VALUES"), len(text.tokens))


def _written(text: Text, elements: Sequence[Element]) -> list[str]:
    return [text.written(each.first, each.last) for each in elements]

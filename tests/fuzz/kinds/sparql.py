"""SPARQL by a grammar of our part of it: solved within limits, and compared with rdflib."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import rdflib

from fuzz.asking import MODELS, ask, asker, facts
from fuzz.mutation import Dice, spoiled, word
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query.language.names import NAMESPACE
from knowledge_sheaves.query.types import TypeClash
from sparql_cases import Writer, as_rdf, by_rdflib, by_us

TOKENS = tuple(
    b"SELECT|ASK|WHERE|DISTINCT|LIMIT 3|LIMIT 0|PREFIX : <http://x/>|PREFIX p: <urn:name:>|BASE <x>"
    b"|UNION|FILTER|NOT EXISTS|MINUS|VALUES|UNDEF|OPTIONAL|GRAPH|SERVICE|BIND|EXISTS|a|*|+|?|!|^|/"
    b"||{|}|(|)|[|]|.|;|,|!=|=|&&|<|>|?x|$x|?|:p0|<p0>|'p0'|\"p0\"@en|'''|\\u0041|\\uD800|_:b|#|\n"
    b"|1e9|INSERT DATA|FROM <file:///etc/passwd>|ORDER BY|:knows*|[]".split(b"|")
)
W = Writer
POSITIVE = (
    *(W.triples, W.paths, W.union, W.values, W.values_rows, W.different, W.different_twice),
    W.blanks,
)
LARGE = 12


class Rogue(Writer):
    """Writes names that are none, too."""

    def __init__(self, random: Dice, graph: KnowledgeGraph) -> None:
        super().__init__(0, graph)
        self.draw = self.dice = random

    def entity(self) -> str:
        if self.dice.random() > self.dice.nastiness:
            return super().entity()
        frame = self.dice.choice(("<{}>", '"{}"', "'''{}'''", ":{}", "p:{}", "{}", "<urn:name:{}>"))
        return frame.format(word(self.dice))


@cache
def rdf(graph: KnowledgeGraph) -> rdflib.Graph:
    return as_rdf(graph)


def attack(seed: int, folder: Path) -> Callable[[], object]:
    random = Dice(f"sparql {seed}")
    # Types that clash refuse many questions that chance makes up.
    graph, compared = facts(random.random() < 0.3), random.random() < 0.4
    text = positive(random, graph) if compared else anything(random, graph)
    if not compared and random.random() < 0.6:
        content = spoiled(text.encode("utf-8", "surrogatepass"), random, TOKENS)
        text = content.decode("utf-8", "replace")
    (folder / "x.rq").write_bytes(text.encode("utf-8", "surrogatepass"))
    solver = random.choice(("auto", "chaining", "harmonic", "naive"))
    top = random.choice((None, None, 1, 3, 1000))
    new, explain = random.random() < 0.2, random.random() < 0.3
    asked = asker(random.choice(MODELS), graph)
    if compared:
        return lambda: compare(text, graph)
    return lambda: ask(asked, text, solver, top, new, explain)


def positive(random: Dice, graph: KnowledgeGraph) -> str:
    writer, scope = Writer(random.randrange(1 << 30), graph), ["?x"]
    body = [writer.tree(scope, random.randint(1, 2))]
    body += [random.choice(POSITIVE)(writer, scope) for _ in range(random.randint(0, 2))]
    return writer.framed(" ".join(body), scope)


def anything(random: Dice, graph: KnowledgeGraph) -> str:
    """Also what nobody would ask: many parts, groups within groups."""
    writer, scope = Rogue(random, graph), ["?x"]
    body = writer.tree(scope, random.randint(1, 3))
    for _ in range(random.choice((0, 1, 1, 2, 3, LARGE))):
        body += " " + random.choice(W.CONSTRUCTS)(writer, scope)
        if random.random() < 0.1:
            body = f"{random.choice(('', '', '{} UNION'))} {{ {body} }}"
    limit = f" LIMIT {random.choice(('0', '1', '5', word(random)))}" * (random.random() < 0.2)
    return writer.framed(body, scope) + limit


def compare(text: str, graph: KnowledgeGraph) -> None:
    """The answers that are said to be known are those that rdflib finds in the same facts."""
    us = asker("complex", graph)
    try:
        parsed = us.read(text)
    except TypeClash:
        found = rdf(graph).query(text, initNs={"": NAMESPACE})
        assert "UNION" in text or not found, text
        raise
    expected = by_rdflib(text, parsed.variables, rdf(graph))
    assert by_us(parsed, graph) == expected, text
    if isinstance(expected, bool):
        verdict = us.decide(text)
        assert verdict.known == expected or parsed.query is None, text
    elif parsed.query is not None:
        found = us.answer(text, len(expected) + 5)
        said = [each.known for each in found]
        assert None in said or {each.names for each in found if each.known} == expected, text

"""Blocks of predictions give what joining their answers by hand gives."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import torch

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query import Asker, Options, Query
from knowledge_sheaves.query.full import Sparql
from knowledge_sheaves.query.language.sparql import parse_sparql
from knowledge_sheaves.query.types import TypeClash
from sparql_cases import RELATIONS, random_graph

Row = dict[str, Any]
Triple = tuple[str, str, str]
CASES = 100


def asker_of(seed: int) -> Asker:
    torch.manual_seed(seed)
    model = SheafEmbedding(model_config("complex", dim=8), random_graph(seed, typed=False))
    # Known facts would all be equally certain, and which of them come first is nobody's promise.
    return Asker(model, Options("chaining", tau=1.0, facts="ignored"))


ASKERS = [asker_of(seed) for seed in range(2)]


def written(triples: list[Triple]) -> str:
    return " . ".join(
        " ".join(word if word.startswith("?") else f":{word}" for word in triple)
        for triple in triples
    )


def facts(asker: Asker, triples: list[Triple], start: Row | None = None) -> Iterator[Row]:
    """All solutions of triples over the facts, one after another."""
    if not triples:
        yield start or {}
        return
    for fact in asker.graph.decode(asker.graph.triples):
        row = dict(start or {})
        for word, name in zip(triples[0], fact, strict=True):
            if (row.setdefault(word, name) if word.startswith("?") else word) != name:
                break
        else:
            yield from facts(asker, triples[1:], row)


class Case:
    """A random query with blocks, and its solutions by hand."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.asker = ASKERS[seed % len(ASKERS)]
        self.top = self.draw.randrange(1, 4)
        self.new = self.draw.random() < 0.3
        self.least = self.draw.choice([0.0, 0.1, 0.3])
        self.kinds: list[Callable[[], tuple[str, list[Row]]]] = [
            *(self.join, self.join, self.alone, self.optional, self.exists, self.minus),
            *(self.union, self.two, self.bound, self.subquery, self.grouped, self.nested),
        ]

    def make(self) -> tuple[str, list[Row]]:
        return self.kinds[self.draw.randrange(len(self.kinds))]()

    def relation(self) -> str:
        return self.draw.choice(RELATIONS)

    def outer(self) -> list[Triple]:
        """Triples that bind ?y, and perhaps ?w."""
        person = f"p{self.draw.randrange(6)}"
        return self.draw.choice(
            [
                [(person, self.relation(), "?y")],
                [("?y", self.relation(), person)],
                [(person, "knows", "?w"), ("?w", self.relation(), "?y")],
            ]
        )

    def inner(self, given: str = "?y", asked: str = "?x") -> list[Triple]:
        """Triples of a block between two variables, perhaps with an unknown."""
        unknown = f"?u{self.draw.randrange(10**6)}"
        return self.draw.choice(
            [
                [(given, self.relation(), asked)],
                [(asked, self.relation(), given)],
                [(given, self.relation(), unknown), (unknown, self.relation(), asked)],
                [(given, self.relation(), asked), (asked, self.relation(), "t1")],
            ]
        )

    def block(self, triples: list[Triple], asked: str = "?x", chance: str = "?p") -> str:
        new = " ; ks:new true" if self.new else ""
        said = f"{asked} ks:probability {chance} . ks:answers ks:top {self.top}{new}"
        parts = [written(triples), said]
        self.draw.shuffle(parts)
        return f"SERVICE ks:predict {{ {' . '.join(parts)} }}"

    def answers(
        self, triples: list[Triple], given: Row, asked: str = "?x", chance: str = "?p"
    ) -> list[Row]:
        """The answers of one block for one row of what is around it, with that row."""
        rows = [tuple(given.get(word, word) for word in triple) for triple in triples]
        if asked in given:
            parsed = parse_sparql(f"ASK {{ {written(rows)} }}", self.asker.graph)
            verdict = self.asker.decide(parsed)
            (best,) = self.asker.solve([parsed.query], self.asker.wanted(1))  # type: ignore[list-item]
            if self.new and best.has_known:
                return []
            assert best.probabilities is not None
            assert verdict.known or verdict.probability == float(best.probabilities[0])
            return [given | {chance: float(best.probabilities[0])}]
        query = Query.from_triples(rows, asked, self.asker.graph)
        found = self.asker.answer(query, self.top, new=self.new)
        return [given | {asked: each.names[0], chance: each.probability} for each in found]

    def placed(self, *parts: str) -> str:
        """Parts that may stand in any order."""
        shuffled = list(parts)
        self.draw.shuffle(shuffled)
        return " . ".join(shuffled)

    def likely(self, rows: list[Row]) -> list[Row]:
        return [row for row in rows if row["?p"] > self.least]

    def join(self) -> tuple[str, list[Row]]:
        outer, inner = self.outer(), self.inner()
        body = self.placed(written(outer), self.block(inner))
        rows = [row for given in facts(self.asker, outer) for row in self.answers(inner, given)]
        text = f"SELECT ?y ?x ?p {{ {body} FILTER(?p > {self.least}) }}"
        return text, self.likely(rows)

    def alone(self) -> tuple[str, list[Row]]:
        inner = self.inner(given=f"p{self.draw.randrange(6)}")
        return f"SELECT ?x ?p {{ {self.block(inner)} }}", self.answers(inner, {})

    def optional(self) -> tuple[str, list[Row]]:
        outer, inner = self.outer(), self.inner()
        rows = []
        for given in facts(self.asker, outer):
            rows += self.likely(self.answers(inner, given)) or [given]
        part = f"OPTIONAL {{ {self.block(inner)} FILTER(?p > {self.least}) }}"
        return f"SELECT ?y ?x ?p {{ {written(outer)} {part} }}", rows

    def exists(self) -> tuple[str, list[Row]]:
        outer, inner, negated = self.outer(), self.inner(), self.draw.random() < 0.5
        rows = [
            given
            for given in facts(self.asker, outer)
            if bool(self.likely(self.answers(inner, given))) != negated
        ]
        word = "NOT EXISTS" if negated else "EXISTS"
        part = f"FILTER {word} {{ {self.block(inner)} FILTER(?p > {self.least}) }}"
        return f"SELECT ?y {{ {written(outer)} {part} }}", rows

    def minus(self) -> tuple[str, list[Row]]:
        outer, inner = self.outer(), self.inner()
        rows = [
            given
            for given in facts(self.asker, outer)
            if not self.likely(self.answers(inner, given))
        ]
        part = f"MINUS {{ {self.block(inner)} FILTER(?p > {self.least}) }}"
        return f"SELECT ?y {{ {written(outer)} {part} }}", rows

    def union(self) -> tuple[str, list[Row]]:
        outer, one, two = self.outer(), self.inner(), self.inner()
        rows = [
            row
            for given in facts(self.asker, outer)
            for inner in (one, two)
            for row in self.answers(inner, given)
        ]
        either = f"{{ {self.block(one)} }} UNION {{ {self.block(two)} }}"
        return f"SELECT ?y ?x ?p {{ {self.placed(written(outer), either)} }}", rows

    def two(self) -> tuple[str, list[Row]]:
        outer, one, two = self.outer(), self.inner(), self.inner("?x", "?z")
        rows = [
            row
            for given in facts(self.asker, outer)
            for first in self.answers(one, given)
            for row in self.answers(two, first, "?z", "?q")
        ]
        blocks = f"{self.block(one)} {self.block(two, '?z', '?q')}"
        return f"SELECT ?y ?x ?p ?z ?q {{ {written(outer)} {blocks} }}", rows

    def bound(self) -> tuple[str, list[Row]]:
        outer = [("?y", self.relation(), "?x")]
        inner = self.inner()
        rows = [row for given in facts(self.asker, outer) for row in self.answers(inner, given)]
        return f"SELECT ?y ?x ?p {{ {self.placed(written(outer), self.block(inner))} }}", rows

    def subquery(self) -> tuple[str, list[Row]]:
        """What is bound around a subquery is not bound in it."""
        inner, outer = self.inner(given=f"p{self.draw.randrange(6)}"), [("?x", "likes", "?y")]
        found = self.answers(inner, {})
        rows = [row for given in found for row in facts(self.asker, outer, given)]
        part = f"{{ SELECT ?x ?p {{ {self.block(inner)} }} }}"
        return f"SELECT ?y ?x ?p {{ {written(outer)} . {part} }}", rows

    def grouped(self) -> tuple[str, list[Row]]:
        outer, inner = self.outer(), self.inner()
        rows = [row for given in facts(self.asker, outer) for row in self.answers(inner, given)]
        best: dict[str, float] = {}
        for row in rows:
            best[row["?y"]] = max(best.get(row["?y"], 0.0), row["?p"])
        body = self.placed(written(outer), self.block(inner))
        text = f"SELECT ?y (MAX(?p) AS ?m) {{ {body} }} GROUP BY ?y"
        return text, [{"?y": name, "?m": chance} for name, chance in best.items()]

    def nested(self) -> tuple[str, list[Row]]:
        outer, inner = self.outer(), self.inner()
        more = [("?y", self.relation(), "?v")]
        rows = [
            row for given in facts(self.asker, outer + more) for row in self.answers(inner, given)
        ]
        part = f"{{ {self.placed(written(more), self.block(inner))} }}"
        return f"SELECT ?y ?v ?x ?p {{ {self.placed(written(outer), part)} }}", rows


def multiset(rows: list[Row], names: tuple[str, ...]) -> Counter[tuple[object, ...]]:
    def cell(value: object) -> object:
        return round(value, 4) if isinstance(value, float) else value

    return Counter(tuple(cell(row.get(name)) for name in names) for row in rows)


@cache
def made(seed: int) -> tuple[str, list[Row], Asker]:
    case = Case(seed)
    return *case.make(), case.asker


@pytest.mark.parametrize("seed", range(CASES))
def test_blocks_give_what_joining_by_hand_gives(seed: int) -> None:
    text, by_hand, asker = made(seed)
    found = Sparql(asker).run(text)
    assert multiset(list(found.rows()), found.variables) == multiset(by_hand, found.variables), text


def test_some_of_the_cases_have_answers() -> None:
    full = [bool(made(seed)[1]) for seed in range(CASES)]
    assert sum(full) > CASES / 2


def test_types_that_rule_a_row_out_rule_out_no_other() -> None:
    torch.manual_seed(0)
    model = SheafEmbedding(model_config("complex", dim=8), random_graph(0, typed=True))
    sparql = Sparql(Asker(model, Options(tau=1.0)))
    text = "SELECT DISTINCT ?y { ?s :likes ?y SERVICE ks:predict { ?y :knows ?x } ?x a :Person }"
    liked = {row["?y"] for row in sparql.run("SELECT ?y { ?s :likes ?y }").rows()}
    found = {row["?y"] for row in sparql.run(text).rows()}
    assert found == {name for name in liked if name.startswith("p")} < liked
    with pytest.raises(TypeClash):
        sparql.run("SELECT ?x { SERVICE ks:predict { :t1 :knows ?x } }")


def test_answers_of_one_type_only() -> None:
    torch.manual_seed(0)
    model = SheafEmbedding(model_config("complex", dim=8), random_graph(0, typed=True))
    sparql = Sparql(Asker(model, Options(tau=1.0)))
    wish = "ks:answers ks:top 3 ; ks:type :Thing"
    text = f"SELECT ?x {{ SERVICE ks:predict {{ :p1 :likes ?x . {wish} }} }}"
    found = sparql.asker.answer("SELECT ?x { :p1 :likes ?x }", 3, type="Thing")
    expected = {answer.names[0] for answer in found}
    assert {row["?x"] for row in sparql.run(text).rows()} == expected
    assert all(name.startswith("t") for name in expected)
    with pytest.raises(InputError, match="Thin"):
        sparql.run(text.replace(":Thing", ":Thin"))
    with pytest.raises(InputError, match="have a value already"):
        sparql.run(text.replace("{ SERVICE", "{ VALUES ?x { :t1 } SERVICE"))


def test_a_block_that_would_be_asked_too_often_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knowledge_sheaves.query.full.predictions.MOST_BINDINGS", 3)
    text = "SELECT ?x {\n ?s ?r ?y SERVICE ks:predict { ?y :likes ?x } }"
    with pytest.raises(InputError, match=r"line 2, column 11 .* more than 3: bind fewer"):
        Sparql(ASKERS[0]).run(text)


@pytest.mark.parametrize("counted", ["*", "DISTINCT *"])
def test_all_answers_of_a_block_are_counted(counted: str) -> None:
    sparql, block = Sparql(ASKERS[0]), "{ SERVICE ks:predict { :p0 :knows ?x } }"
    found = list(sparql.run(f"SELECT ?x {block}").rows())
    (row,) = sparql.run(f"SELECT (COUNT({counted}) AS ?n) {block}").rows()
    assert row == {"?n": len(found)}
    assert len(found) > 1


@pytest.mark.parametrize("verb", ["a", "rdf:type"])
def test_a_block_may_ask_for_a_type(verb: str) -> None:
    graph = random_graph(0, typed=True)
    sparql = Sparql(Asker(SheafEmbedding(model_config("complex", dim=8), graph), Options(tau=1.0)))
    found = sparql.run(
        f"SELECT ?x {{ SERVICE ks:predict {{ :p0 :knows ?x . ?x {verb} :Person }} }}"
    )
    assert {row["?x"][0] for row in found.rows()} == {"p"}

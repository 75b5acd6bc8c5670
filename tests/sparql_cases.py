"""Random graphs and random SPARQL about them, and what rdflib answers."""

from __future__ import annotations

import random
from collections.abc import Callable

import rdflib

from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query.facts.symbolic import answers
from knowledge_sheaves.query.language.names import NAMESPACE
from knowledge_sheaves.query.language.sparql import ParsedQuery

RELATIONS = ("knows", "likes", "near", "made")


def random_graph(seed: int, typed: bool) -> KnowledgeGraph:
    draw = random.Random(seed)
    people, things = [f"p{i}" for i in range(6)], [f"t{i}" for i in range(5)]
    rows = {
        *(("knows", draw.choice(people), draw.choice(people)) for _ in range(22)),
        *(("likes", draw.choice(people), draw.choice(people + things)) for _ in range(26)),
        *(("near", draw.choice(things), draw.choice(things)) for _ in range(14)),
        *(("made", draw.choice(people), draw.choice(things)) for _ in range(16)),
    }
    types = {**dict.fromkeys(people, "Person"), **dict.fromkeys(things, "Thing")}
    triples = sorted((head, name, tail) for name, head, tail in rows)
    return KnowledgeGraph.from_triples(triples, types=types if typed else None)


def as_rdf(graph: KnowledgeGraph) -> rdflib.Graph:
    rdf = rdflib.Graph()
    for triple in graph.decode(graph.triples):
        rdf.add(tuple(rdflib.URIRef(NAMESPACE + name) for name in triple))
    return rdf


def by_rdflib(text: str, names: tuple[str, ...], rdf: rdflib.Graph) -> set[tuple[str, ...]] | bool:
    """Columns are taken by name: rdflib's SELECT * has no order, and too many of them."""
    result = rdf.query(text, initNs={"": NAMESPACE})
    if result.type == "ASK":
        return bool(result.askAnswer)
    return {tuple(str(row[n[1:]]).removeprefix(NAMESPACE) for n in names) for row in result}


def by_us(parsed: ParsedQuery, graph: KnowledgeGraph) -> set[tuple[str, ...]] | bool:
    rows = []
    if parsed.query is not None:
        found = answers(graph, [parsed.query])[0]
        rows = found.reshape(len(found), len(parsed.query.targets)).tolist()
    if parsed.form == "ask":
        return bool(rows)
    return {tuple(graph.entities.names(row)) for row in rows}


class Writer:
    """Writes random queries; every construct is a method that adds it to a group of triples."""

    def __init__(self, seed: int, graph: KnowledgeGraph) -> None:
        self.draw = random.Random(seed)
        self.graph = graph
        self.made = 0

    def entity(self) -> str:
        return ":" + self.graph.entities[self.draw.randrange(self.graph.num_entities)]

    def relation(self) -> str:
        return ":" + self.draw.choice(RELATIONS)

    def variable(self) -> str:
        self.made += 1
        return f"?v{self.made}"

    def path(self, depth: int = 2) -> str:
        kind = self.draw.choice(("plain", "plain", "inverse", "either", "then")) if depth else ""
        match kind:
            case "inverse":
                return f"^({self.path(depth - 1)})"
            case "either":
                return f"({self.path(depth - 1)}|{self.path(depth - 1)})"
            case "then":
                return f"({self.path(depth - 1)}/{self.path(depth - 1)})"
        return self.relation()

    def triple(self, at: str, other: str, path: str | None = None) -> str:
        ends = [at, other] if self.draw.random() < 0.5 else [other, at]
        return f"{ends[0]} {path or self.relation()} {ends[1]} ."

    def tree(self, variables: list[str], size: int) -> str:
        """Triples that hang together; new variables are added to the list."""
        lines = []
        for _ in range(size):
            at, roll = self.draw.choice(variables), self.draw.random()
            if roll < 0.55:
                other = self.variable()
            else:
                other = self.entity() if roll < 0.8 else self.draw.choice(variables)
            lines.append(self.triple(at, other))
            if roll < 0.55:
                variables.append(other)
        return " ".join(lines)

    # Constructs: each takes the variables in scope (?x among them) and returns text to add.
    def triples(self, scope: list[str]) -> str:
        return self.tree(scope, self.draw.randint(1, 2))

    def paths(self, scope: list[str]) -> str:
        other = self.entity() if self.draw.random() < 0.4 else self.draw.choice(scope)
        return self.triple(self.draw.choice(scope), other, self.path())

    def union(self, scope: list[str]) -> str:
        at, new = self.draw.choice(scope), self.variable()
        arms = [
            f"{{ {self.triple(at, new, self.path(1))} {self.tree([new], 1)} }}",
            f"{{ {self.triple(at, new)} }}",
            f"{{ {self.triple(at, self.entity())} {self.triple(at, new)} }}",
        ]
        scope.append(new)
        return " UNION ".join(arms[: self.draw.randint(2, 3)])

    def not_exists(self, scope: list[str]) -> str:
        inner = [self.draw.choice(scope)]
        return f"FILTER NOT EXISTS {{ {self.tree(inner, self.draw.randint(1, 2))} }}"

    def not_exists_seen_from_inside(self, scope: list[str]) -> str:
        at, new = self.draw.choice(scope), self.variable()
        other = self.draw.choice(scope)
        return f"FILTER NOT EXISTS {{ {self.triple(at, new)} FILTER({new} != {other}) }}"

    def not_exists_nested(self, scope: list[str]) -> str:
        at, new = self.draw.choice(scope), self.variable()
        inner = f"FILTER NOT EXISTS {{ {self.triple(new, self.draw.choice(scope))} }}"
        return f"FILTER NOT EXISTS {{ {self.triple(at, new)} {inner} }}"

    def not_exists_union(self, scope: list[str]) -> str:
        at = self.draw.choice(scope)
        arms = f"{{ {self.tree([at], 1)} }} UNION {{ {self.triple(at, self.entity())} }}"
        return f"FILTER NOT EXISTS {{ {arms} }}"

    def not_exists_values(self, scope: list[str]) -> str:
        at, new = self.draw.choice(scope), self.variable()
        bound = self.draw.choice([at, new])
        given = f"VALUES {bound} {{ {self.entity()} {self.entity()} }}"
        return f"FILTER NOT EXISTS {{ {given} {self.triple(at, new)} }}"

    def minus(self, scope: list[str]) -> str:
        return f"MINUS {{ {self.tree([self.draw.choice(scope)], self.draw.randint(1, 2))} }}"

    def minus_union(self, scope: list[str]) -> str:
        at, new = self.draw.choice(scope), self.variable()
        return (
            f"MINUS {{ {{ {self.triple(at, new)} }} UNION "
            f"{{ {self.triple(new, self.variable())} }} }}"
        )

    def minus_values(self, scope: list[str]) -> str:
        given = f"VALUES {self.draw.choice(scope)} {{ {self.entity()} {self.entity()} }}"
        return f"MINUS {{ {given} }}"

    def minus_unrelated(self, scope: list[str]) -> str:
        return f"MINUS {{ {self.triple(self.variable(), self.variable())} }}"

    def values(self, scope: list[str]) -> str:
        given = " ".join(self.entity() for _ in range(4))
        return f"VALUES {self.draw.choice(scope)} {{ {given} }}"

    def values_rows(self, scope: list[str]) -> str:
        new = self.variable()
        link = self.triple("?x", new)
        scope.append(new)
        given = [f"({self.entity()} {self.entity()})" for _ in range(5)]
        return f"{link} VALUES (?x {new}) {{ {' '.join(given)} (UNDEF {self.entity()}) }}"

    def different(self, scope: list[str]) -> str:
        one, other = self.draw.choice(scope), self.draw.choice(scope)
        return f"FILTER({one} != {other})" if one != other else f"FILTER({one} != {self.entity()})"

    def different_twice(self, scope: list[str]) -> str:
        one, other = self.draw.choice(scope), self.entity()
        return f"FILTER({one} != {other} && {self.entity()} != {one})"

    def blanks(self, scope: list[str]) -> str:
        at = self.draw.choice(scope)
        return f"{at} {self.relation()} [ {self.relation()} {self.entity()} ] ; {self.path(1)} [] ."

    def group(self, scope: list[str]) -> str:
        at, new = self.draw.choice(scope), self.variable()
        inner = f"{self.triple(at, new)} FILTER({new} != {self.entity()})"
        scope.append(new)
        return f"{{ {inner} MINUS {{ {self.triple(new, self.entity())} }} }}"

    CONSTRUCTS: tuple[Callable[[Writer, list[str]], str], ...] = (
        triples,
        paths,
        union,
        not_exists,
        not_exists_seen_from_inside,
        not_exists_nested,
        not_exists_union,
        not_exists_values,
        minus,
        minus_union,
        minus_values,
        minus_unrelated,
        values,
        values_rows,
        different,
        different_twice,
        blanks,
        group,
    )

    def query(self, construct: Callable[[Writer, list[str]], str]) -> str:
        self.made = 0
        scope = ["?x"]
        body = [self.tree(scope, self.draw.randint(1, 3)), construct(self, scope)]
        if self.draw.random() < 0.4:
            body.append(self.draw.choice(self.CONSTRUCTS)(self, scope))
        return self.framed(" ".join(body), scope)

    def framed(self, text: str, scope: list[str]) -> str:
        """A query for some of the variables in scope, or whether there is an answer."""
        match self.draw.choice(("one", "one", "two", "distinct", "star", "ask")):
            case "ask":
                return f"ASK {{ {text} }}"
            case "star":
                return f"SELECT * {{ {text} }}"
            case "two" if len(scope) > 1:
                return f"SELECT {' '.join(self.draw.sample(scope, 2))} WHERE {{ {text} }}"
            case "distinct":
                return f"SELECT DISTINCT {self.draw.choice(scope)} {{ {text} }}"
        return f"SELECT {self.draw.choice(scope)} WHERE {{ {text} }}"

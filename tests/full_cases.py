"""Random RDF with literals, random SPARQL 1.1 about it, and what rdflib answers."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pyoxigraph as ox
import rdflib
from rdflib.namespace import RDF, RDFS, XSD

EX = rdflib.Namespace("http://example.org/")
PREFIXES = "PREFIX ex: <http://example.org/>\n"
RELATIONS = ("knows", "likes", "made", "near")
PEOPLE, THINGS = [f"p{i}" for i in range(7)], [f"t{i}" for i in range(6)]


def random_rdf(seed: int) -> rdflib.Graph:
    draw, graph = random.Random(seed), rdflib.Graph()
    for relation, heads, tails, number in (
        ("knows", PEOPLE, PEOPLE, 16),
        ("likes", PEOPLE, PEOPLE + THINGS, 18),
        ("made", PEOPLE, THINGS, 9),
        ("near", THINGS, THINGS, 9),
    ):
        for _ in range(number):
            graph.add((EX[draw.choice(heads)], EX[relation], EX[draw.choice(tails)]))
    for name in (*PEOPLE, *THINGS):
        kind = "Person" if name in PEOPLE else draw.choice(["Film", "Book"])
        graph.add((EX[name], RDF.type, EX[kind]))
        if draw.random() < 0.8:
            year = rdflib.Literal(draw.randrange(1990, 2020), datatype=XSD.integer)
            graph.add((EX[name], EX.year, year))
        if draw.random() < 0.6:
            price = rdflib.Literal(f"{draw.randrange(100) / 4}", datatype=XSD.decimal)
            graph.add((EX[name], EX.price, price))
        for language in draw.sample(["en", "de", None], draw.randrange(3)):
            text = f"{name.upper()} {language or 'plain'}"
            graph.add((EX[name], RDFS.label, rdflib.Literal(text, lang=language)))
    for kind in ("Film", "Book"):
        graph.add((EX[kind], RDFS.subClassOf, EX.Thing))
    return graph


def cell(term: Any) -> object:
    """A term as both engines give it: numbers by value, other literals by text and language."""
    if term is None:
        return None
    if isinstance(term, rdflib.URIRef | ox.NamedNode):
        return str(getattr(term, "value", term))
    if isinstance(term, rdflib.BNode | ox.BlankNode):
        return "_:"
    text = str(getattr(term, "value", term)) if isinstance(term, ox.Literal) else str(term)
    kind = str(term.datatype).strip("<>").rpartition("#")[2] if term.datatype else ""
    if kind in ("integer", "decimal", "double", "float"):
        return round(float(text), 8)
    return (text, (term.language or "").lower(), kind == "boolean")


def by_rdflib(text: str, graph: rdflib.Graph, variables: Sequence[str] = ()) -> object:
    """Rows are taken by ``variables``: SELECT * has more of them in rdflib, all unbound."""
    found = graph.query(text)
    if found.type == "ASK":
        return bool(found.askAnswer)
    if found.type in ("CONSTRUCT", "DESCRIBE"):
        return Counter(tuple(map(cell, triple)) for triple in set(found.graph or ()))
    names = sorted(name.removeprefix("?") for name in variables)
    return Counter(tuple(cell(row.get(n)) for n in names) for row in found.bindings)


def for_rdflib(text: str) -> str:
    """The same query where rdflib does otherwise than the specification, so that it does not.

    It puts values from outside into a subquery, whose groups then are others; behind a subquery it
    has none to put there.
    """
    return re.sub(r"WHERE \{ ([^{}]*) (\{ SELECT .*\}) \}", r"WHERE { \2 \1 }", text)


def by_sets(text: str) -> bool:
    """Whether two engines need to give the same rows, but not equally often.

    A path by ``*`` has every end once, and rdflib gives the start of a cycle twice. A path by ``|``
    is a union, and Oxigraph gives each of its pairs once.
    """
    return bool(re.search(r"ex:\w+\*|\)\*|Of\*|\|ex:", text))


def by_us(result: Any) -> object:
    if result.kind == "ask":
        return bool(result)
    if result.kind == "graph":
        return Counter(tuple(map(cell, triple)) for triple in set(result))
    order = sorted(range(len(result.variables)), key=lambda n: result.variables[n])
    return Counter(tuple(cell(row[n]) for n in order) for row in result)


class Writer:
    """Writes random queries; every construct of SPARQL 1.1 has its method."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.makers: list[Callable[[], str]] = [
            *(self.select, self.select, self.star, self.ask, self.aggregate, self.having),
            *(self.sorted_rows, self.subquery, self.construct, self.values, self.path),
            *(self.any_relation, self.union, self.languages, self.types),
        ]

    def text(self) -> str:
        return PREFIXES + self.draw.choice(self.makers)()

    def person(self) -> str:
        return f"ex:{self.draw.choice(PEOPLE)}"

    def edge(self, head: str, tail: str) -> str:
        relation = self.draw.choice(RELATIONS[:3])
        return f"{head} ex:{relation} {tail} ."

    def core(self) -> str:
        """Triples about ?a, and about ?b that hangs together with it."""
        shapes = [
            self.edge("?a", "?b"),
            f"{self.edge('?a', '?b')} {self.edge('?b', '?c')}",
            f"{self.edge('?a', '?b')} {self.edge('?a', '?c')}",
            f"{self.edge(self.person(), '?a')} {self.edge('?a', '?b')}",
            "?a ex:year ?y ; ex:knows ?b .",
            f"{self.edge('?a', '?b')} ?a a ?k .",
        ]
        return self.draw.choice(shapes)

    def part(self) -> str:
        """An element that may follow the triples of a group."""
        year, price = self.draw.randrange(1992, 2018), self.draw.randrange(2, 20)
        other = self.edge("?b", "?d")
        return self.draw.choice(
            [
                "OPTIONAL { ?a ex:year ?y }",
                f"OPTIONAL {{ ?a ex:year ?y FILTER(?y > {year}) }}",
                "OPTIONAL { ?b rdfs:label ?l }",
                f"OPTIONAL {{ {other} OPTIONAL {{ ?d ex:price ?z }} }}",
                f"?a ex:year ?y FILTER(?y > {year} && ?y != 2000)",
                f"?b ex:price ?z FILTER(?z * 2 + 1 >= {price})",
                f"FILTER NOT EXISTS {{ {other} }}",
                f"FILTER EXISTS {{ {other} FILTER(?d != ?a) }}",
                f"MINUS {{ {other} }}",
                f"MINUS {{ ?a ex:year ?y FILTER(?y < {year}) }}",
                f"FILTER(?a != ?b || ?a = {self.person()})",
                f"FILTER(?a IN ({self.person()}, {self.person()}, ?b))",
                f"FILTER(?b NOT IN ({self.person()}, ex:t1))",
                "?a ex:year ?y BIND(?y - 1990 AS ?n)",
                "BIND(CONCAT(STRAFTER(STR(?a), 'org/'), '-x') AS ?s)",
                "BIND(IF(?a = ?b, 1, 2) AS ?n)",
                "OPTIONAL { ?b ex:price ?z } BIND(COALESCE(?z, -1) AS ?n)",
                "OPTIONAL { ?b ex:price ?z } FILTER(!BOUND(?z))",
                "?a rdfs:label ?l FILTER(STRLEN(?l) > 5 && REGEX(?l, '^p', 'i'))",
                "?b rdfs:label ?l BIND(UCASE(SUBSTR(STR(?l), 1, 2)) AS ?s)",
                "FILTER(STRENDS(STR(?b), '1') || STRSTARTS(STR(?b), 'http://example.org/t'))",
                "?b ?q ?v FILTER(isLiteral(?v) && datatype(?v) = xsd:integer)",
                f"VALUES ?a {{ {self.person()} {self.person()} {self.person()} }}",
                f"VALUES (?a ?b) {{ ({self.person()} UNDEF) (UNDEF {self.person()}) }}",
                f"{{ {self.edge('?a', '?e')} }} UNION {{ {self.edge('?e', '?a')} }}",
            ]
        )

    def group(self) -> str:
        parts = [self.part() for _ in range(self.draw.randrange(3))]
        if len(parts) == 2 and " AS " in parts[0] and " AS " in parts[1]:
            parts.pop()  # a variable is bound once
        return "{ " + " ".join([self.core(), *parts]) + " }"

    def select(self) -> str:
        distinct = self.draw.choice(["", "DISTINCT ", ""])
        return f"SELECT {distinct}?a ?b ?y ?z ?n ?s ?d WHERE {self.group()}"

    def star(self) -> str:
        return f"SELECT * WHERE {self.group()}"

    def ask(self) -> str:
        return f"ASK {{ {self.edge(self.person(), '?a')} {self.edge('?a', '?b')} {self.part()} }}"

    def aggregate(self) -> str:
        how = self.draw.choice(
            [
                "(COUNT(*) AS ?n)",
                "(COUNT(DISTINCT ?b) AS ?n) (COUNT(?y) AS ?m)",
                "(SUM(?y) AS ?n) (AVG(?y) AS ?m)",
                "(MIN(?y) AS ?n) (MAX(?y) AS ?m)",
            ]
        )
        where = f"{{ {self.edge('?a', '?b')} ?b ex:year ?y }}"
        return f"SELECT ?a {how} WHERE {where} GROUP BY ?a"

    def having(self) -> str:
        least = self.draw.randrange(1, 4)
        return (
            f"SELECT ?k (COUNT(*) AS ?n) WHERE {{ {self.edge('?a', '?b')} ?b a ?k }} "
            f"GROUP BY ?k HAVING (COUNT(*) > {least})"
        )

    def sorted_rows(self) -> str:
        order = self.draw.choice(["?y ?a ?b", "DESC(?y) ?b ?a", "DESC(?a) ?b ?y"])
        cut = f"LIMIT {self.draw.randrange(1, 6)} OFFSET {self.draw.randrange(3)}"
        where = f"{{ {self.edge('?a', '?b')} ?a ex:year ?y }}"
        return f"SELECT DISTINCT ?a ?b ?y WHERE {where} ORDER BY {order} {cut}"

    def subquery(self) -> str:
        inner = f"SELECT ?a (MAX(?y) AS ?m) {{ {self.edge('?a', '?e')} ?e ex:year ?y }} GROUP BY ?a"
        return f"SELECT ?a ?b ?m WHERE {{ {self.edge('?a', '?b')} {{ {inner} }} }}"

    def construct(self) -> str:
        return f"CONSTRUCT {{ ?b ex:of ?a . ?a a ex:Node }} WHERE {self.group()}"

    def values(self) -> str:
        rows = " ".join(f"({self.person()} {self.draw.randrange(9)})" for _ in range(3))
        where = f"{{ {self.edge('?a', '?b')} FILTER(?v > 3) VALUES (?a ?v) {{ {rows} }} }}"
        return f"SELECT ?a ?b ?v WHERE {where}"

    def path(self) -> str:
        path = self.draw.choice(
            [
                *("ex:knows+", "ex:knows*", "ex:knows?", "ex:knows/ex:likes", "^ex:made"),
                *("ex:knows|ex:likes", "(ex:knows/ex:knows)+", "!ex:knows", "ex:near+/^ex:likes"),
                *("ex:likes/ex:year", "a/rdfs:subClassOf*", "(^ex:knows|ex:made)*"),
            ]
        )
        head = self.draw.choice([self.person(), "?a"]) if "*" not in path else self.person()
        return f"SELECT ?a ?b WHERE {{ {head} {path} ?b }}"

    def any_relation(self) -> str:
        head = self.draw.choice([self.person(), "?a"])
        return f"SELECT ?a ?r ?b WHERE {{ {head} ?r ?b FILTER(isIRI(?b)) }}"

    def union(self) -> str:
        return f"SELECT * WHERE {{ {self.group()} UNION {self.group()} }}"

    def languages(self) -> str:
        wanted = self.draw.choice(
            ["LANG(?l) = 'de'", "LANGMATCHES(LANG(?l), '*')", "LANG(?l) = ''", "?l = 'P1 de'@de"]
        )
        return f"SELECT ?a ?l (LANG(?l) AS ?g) WHERE {{ ?a rdfs:label ?l FILTER({wanted}) }}"

    def types(self) -> str:
        kind = self.draw.choice(["?k", "ex:Person", "ex:Film"])
        return f"SELECT ?a ?k WHERE {{ ?a a {kind} . ?a ex:year ?b . {self.part()} }}"

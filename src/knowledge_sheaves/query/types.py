"""Types of a pattern: what the relations around its variables leave possible.

A relation may join several pairs of types; each is an edge of the schema. `possible_types` narrows
the types of variables, `readings` lists all ways to choose an edge of the schema for every edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.labels import quoted
from knowledge_sheaves.query.pattern import Edge, Pattern, SchemaEdge, Term, Variable

Kinds = frozenset[int]
MOST_READINGS = 10_000


class TypeClash(InputError):
    """A relation is asked of something whose type it does not know."""


def fitting(
    patterns: Sequence[Pattern], graph: KnowledgeGraph
) -> tuple[list[Pattern], TypeClash | None]:
    """The patterns that types allow, and the first clash of one that they do not.

    What is impossible for its types has no answers: such an alternative of a union is left out,
    and so is such a part among those that must not hold.

    >>> graph = KnowledgeGraph.from_triples(
    ...     [("Julia", "likes", "Fargo")], types={"Julia": "Person", "Fargo": "Film"})
    >>> print(fitting([Pattern((Edge(graph.entities.id("Fargo"), 0, "?x"),))], graph)[1])
    'likes' goes from Person to Film, but 'Fargo' at its head is of type Film.
    """
    if len(graph.schema.types) == 1:
        return list(patterns), None
    kept: list[Pattern] = []
    first: TypeClash | None = None
    for pattern in patterns:
        try:
            kept.append(_prune(pattern, possible_types(pattern, graph), graph))
        except TypeClash as clash:
            first = first or clash
    return kept, first


def possible_types(
    pattern: Pattern, graph: KnowledgeGraph, known: Mapping[Variable, Kinds] | None = None
) -> dict[Variable, Kinds]:
    """Return the types that each variable may have; none left for one is a `TypeClash`.

    >>> graph = KnowledgeGraph.from_triples(
    ...     [("Julia", "likes", "Fargo")], types={"Julia": "Person", "Fargo": "Film"})
    >>> possible_types(Pattern((Edge("?y", 0, "?x"),)), graph)
    {'?y': frozenset({0}), '?x': frozenset({1})}
    """
    anything = frozenset(range(len(graph.schema.types)))
    found = {**dict.fromkeys(pattern.variables, anything), **(known or {})}
    for variable, entity in pattern.bound.items():
        found[variable] = found.get(variable, anything) & _own(entity, graph)
        if not found[variable]:
            name = quoted(graph.name(entity))
            raise TypeClash(f"{variable} is said to be {name}, whose type it cannot have.")
    before: dict[Variable, Kinds] = {}
    while found != before:
        before = dict(found)
        for edge in pattern.edges:
            _narrow(edge, found, graph)
    return found


def _narrow(edge: Edge, found: dict[Variable, Kinds], graph: KnowledgeGraph) -> None:
    ends = [found[t] if isinstance(t, Variable) else _own(t, graph) for t in edge.terms]
    pairs = _pairs(edge, graph)
    fit = [(h, t) for h, t in pairs if h in ends[0] and t in ends[1]]
    if edge.head == edge.tail:
        fit = [(h, t) for h, t in fit if h == t]
    if not fit:
        raise TypeClash(_sentence(edge, ends, pairs, graph))
    for place, term in enumerate(edge.terms):
        if isinstance(term, Variable):
            found[term] = frozenset(pair[place] for pair in fit)


def _prune(pattern: Pattern, types: Mapping[Variable, Kinds], graph: KnowledgeGraph) -> Pattern:
    kept: list[Pattern] = []
    for inner in pattern.without:
        try:
            kept.append(_prune(inner, possible_types(inner, graph, types), graph))
        except TypeClash:  # it never holds, so nothing need be kept from it
            continue
    return replace(pattern, without=tuple(kept))


def readings(pattern: Pattern, graph: KnowledgeGraph) -> list[tuple[SchemaEdge, ...]]:
    """All ways to read a pattern in the schema: an edge of the schema for each of its edges.

    With one type there is one. A pattern with none is a `TypeClash`.

    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b")])
    >>> readings(Pattern((Edge(0, 0, "?x"),)), graph)
    [(0,)]
    """
    if len(graph.schema.types) == 1:
        return [tuple(SchemaEdge(edge.relation) for edge in pattern.edges)]
    possible = possible_types(pattern, graph)
    found: list[tuple[dict[Variable, int], tuple[SchemaEdge, ...]]] = [({}, ())]
    for edge in pattern.edges:
        found = [
            (types | new, (*parts, part))
            for types, parts in found
            for part, new in _fitting_parts(edge, types, possible, graph)
        ]
        if len(found) > MOST_READINGS:
            raise InputError(
                f"The relations of the query join so many types that it can be read in more than "
                f"{MOST_READINGS:,} ways: use the solver chaining, which need not tell them apart."
            )
    if not found:
        raise TypeClash("No choice of types fits all relations of the query at once.")
    return [parts for _, parts in found]


def _fitting_parts(
    edge: Edge,
    types: dict[Variable, int],
    possible: Mapping[Variable, Kinds],
    graph: KnowledgeGraph,
) -> Iterator[tuple[SchemaEdge, dict[Variable, int]]]:
    """The edges of the schema that an edge can stand for, with the types that follow."""
    ends = graph.schema.graph
    for part in graph.schema.edges(graph.schema.relation_names[edge.relation]).tolist():
        new: dict[Variable, int] = {}
        for term, kind in zip(
            edge.terms, (int(ends.heads[part]), int(ends.tails[part])), strict=True
        ):
            if isinstance(term, Variable):
                if kind not in possible[term] or (types | new).get(term, kind) != kind:
                    break
                new[term] = kind
            elif kind != int(graph.entity_types[term]):
                break
        else:
            yield SchemaEdge(part), new


def _own(entity: int, graph: KnowledgeGraph) -> Kinds:
    return frozenset([int(graph.entity_types[entity])])


def _pairs(edge: Edge, graph: KnowledgeGraph) -> list[tuple[int, int]]:
    schema = graph.schema
    parts = schema.edges(schema.relation_names[edge.relation])
    ends = schema.graph
    return [(int(ends.heads[part]), int(ends.tails[part])) for part in parts]


def _sentence(
    edge: Edge, ends: Sequence[Kinds], pairs: Sequence[tuple[int, int]], graph: KnowledgeGraph
) -> str:
    def types(kinds: Iterable[int]) -> str:
        return " or ".join(sorted(graph.schema.types[kind].said for kind in kinds))

    def said(place: int) -> str:
        term: Term = edge.terms[place]
        if isinstance(term, Variable):
            return f"{term} at its {_ENDS[place]} must be of type {types(ends[place])} elsewhere"
        name = quoted(graph.name(term))
        return f"{name} at its {_ENDS[place]} is of type {types(ends[place])}"

    wrong = [place for place in (0, 1) if not any(pair[place] in ends[place] for pair in pairs)]
    goes = sorted({f"from {types([head])} to {types([tail])}" for head, tail in pairs})
    shown = " or ".join(goes) if len(goes) <= _MOST_PAIRS else f"between {len(goes)} other pairs"
    name = quoted(graph.schema.labelled_names[edge.relation])
    if edge.head == edge.tail and not wrong:
        return f"{name} goes {shown}, never back to the same type, so {edge.head} cannot be both."
    return f"{name} goes {shown}, but {' and '.join(map(said, wrong or (0, 1)))}."


_ENDS = ("head", "tail")
_MOST_PAIRS = 4

"""Types of a pattern: what the relations around its variables leave possible.

A relation may join several pairs of types; each is an edge of the schema. `possible_types` narrows
the types of variables, `readings` lists all ways to choose an edge of the schema for every edge.

Where all entities share one stalk, types are those of `graph.classes`: then a *kind* is a group of
entities with the same types, and an end of a relation takes those that `graph.possible` leaves
open. Elsewhere a kind is a type of the schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.ends import ENDS, MOST, either, goes, of_type, type_words
from knowledge_sheaves.graph.labels import quoted
from knowledge_sheaves.query.pattern import Edge, Pattern, SchemaEdge, Term, Variable

Kinds = int
"""A set of kinds: bit k is set where kind k is in it. There may be thousands of them."""
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
    if len(graph.schema.types) == 1 and graph.classes is None:
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
    """Return the kinds that each variable may have; none left for one is a `TypeClash`.

    >>> graph = KnowledgeGraph.from_triples(
    ...     [("Julia", "likes", "Fargo")], types={"Julia": "Person", "Fargo": "Film"})
    >>> possible_types(Pattern((Edge("?y", 0, "?x"),)), graph)
    {'?y': 1, '?x': 2}
    """
    anything = _kinds(graph)
    found = {**dict.fromkeys(pattern.variables, anything), **(known or {})}
    for variable, entity in pattern.bound.items():
        found[variable] = found.get(variable, anything) & _own(entity, graph)
        if not found[variable]:
            name = quoted(graph.name(entity))
            raise TypeClash(f"{variable} is said to be {name}, whose type it cannot have.")
    before: dict[Variable, Kinds] | None = None  # what has no variables is looked at once
    while found != before:
        before = dict(found)
        for edge in pattern.edges:
            _narrow(edge, found, graph)
    return found


def of_kind(name: str, graph: KnowledgeGraph) -> Kinds:
    """The kinds of those who are of a type.

    >>> of_kind("entity", KnowledgeGraph.from_triples([("a", "r", "b")]))
    1
    """
    if graph.classes is None:
        return 1 << graph.schema.type_id(name)
    return _together(np.unique(graph.classes.groups[0][graph.is_of_type(name)]).tolist())


def _narrow(edge: Edge, found: dict[Variable, Kinds], graph: KnowledgeGraph) -> None:
    ends = [found[t] if isinstance(t, Variable) else _own(t, graph) for t in edge.terms]
    fit = _fit(edge, ends, graph)
    if edge.head == edge.tail and graph.classes is not None:
        fit = [fit[0] & fit[1]] * 2
    if not all(fit):
        raise TypeClash(_sentence(edge, ends, graph))
    for term, kinds in zip(edge.terms, fit, strict=True):
        if isinstance(term, Variable):
            found[term] = kinds


def _fit(edge: Edge, ends: Sequence[Kinds], graph: KnowledgeGraph) -> list[Kinds]:
    """What is left of the kinds of both ends by what the relation joins."""
    if graph.classes is not None:
        return [own & taken for own, taken in zip(ends, _taken(edge, graph), strict=True)]
    pairs = ((h, t) for h, t in _pairs(edge, graph) if _in(h, ends[0]) and _in(t, ends[1]))
    fit = [(h, t) for h, t in pairs if h == t or edge.head != edge.tail]
    return [_together(pair[place] for pair in fit) for place in (0, 1)]


def _taken(edge: Edge, graph: KnowledgeGraph) -> list[Kinds]:
    """The kinds that a relation takes at its head, and at its tail."""
    if graph.classes is not None:
        return [_open(edge, end, graph) for end in ENDS]
    pairs = _pairs(edge, graph)
    return [_together(pair[place] for pair in pairs) for place in (0, 1)]


def _open(edge: Edge, end: str, graph: KnowledgeGraph) -> Kinds:
    """The groups that may stand at an end."""
    parts = graph.schema.edges(graph.schema.relation_names[edge.relation])
    mask = np.packbits(graph.possible[end][parts].any(0), bitorder="little")
    return int.from_bytes(mask.tobytes(), "little")


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
                if not _in(kind, possible[term]) or (types | new).get(term, kind) != kind:
                    break
                new[term] = kind
            elif kind != int(graph.entity_types[term]):
                break
        else:
            yield SchemaEdge(part), new


def _kinds(graph: KnowledgeGraph) -> Kinds:
    if graph.classes is not None:
        return (1 << graph.classes.groups[1].shape[0]) - 1
    return (1 << len(graph.schema.types)) - 1


def _own(entity: int, graph: KnowledgeGraph) -> Kinds:
    of = graph.entity_types if graph.classes is None else graph.classes.groups[0]
    return 1 << int(of[entity])


def _in(kind: int, kinds: Kinds) -> bool:
    return bool(kinds >> kind & 1)


def _together(kinds: Iterable[int]) -> Kinds:
    found = 0
    for kind in kinds:
        found |= 1 << kind
    return found


def _each(kinds: Kinds) -> list[int]:
    return [kind for kind in range(kinds.bit_length()) if _in(kind, kinds)]


def _pairs(edge: Edge, graph: KnowledgeGraph) -> list[tuple[int, int]]:
    schema = graph.schema
    parts = schema.edges(schema.relation_names[edge.relation])
    ends = schema.graph
    return [(int(ends.heads[part]), int(ends.tails[part])) for part in parts]


def _sentence(edge: Edge, ends: Sequence[Kinds], graph: KnowledgeGraph) -> str:
    def said(place: int) -> str:
        term: Term = edge.terms[place]
        if isinstance(term, Variable):
            kinds = either(_said_of(ends[place], graph))
            return f"{term} at its {ENDS[place]} must be of type {kinds} elsewhere"
        return of_type(graph, ENDS[place], term)

    taken = _taken(edge, graph)
    wrong = [place for place in (0, 1) if not taken[place] & ends[place]]
    name, pairs = quoted(graph.schema.labelled_names[edge.relation]), _goes(edge, graph)
    if edge.head == edge.tail and not wrong:
        return f"{name} goes {pairs}, never back to the same type, so {edge.head} cannot be both."
    return f"{name} goes {pairs}, but {' and '.join(map(said, wrong or (0, 1)))}."


def _goes(edge: Edge, graph: KnowledgeGraph) -> str:
    """Which types a relation joins, in words."""
    if graph.classes is not None:
        return goes(graph, graph.schema.relation_names[edge.relation])
    types = [kind.said for kind in graph.schema.types]
    pairs = sorted({f"from {types[head]} to {types[tail]}" for head, tail in _pairs(edge, graph)})
    return " or ".join(pairs) if len(pairs) <= MOST else f"between {len(pairs)} other pairs"


def _said_of(kinds: Kinds, graph: KnowledgeGraph) -> list[str]:
    """The types of kinds by what people call them."""
    if graph.classes is None:
        return [graph.schema.types[kind].said for kind in _each(kinds)]
    columns = graph.classes.groups[1][_each(kinds)].sum(0)
    names = graph.classes.names.names(np.flatnonzero(columns))
    return [type_words(graph, name) for name in names]

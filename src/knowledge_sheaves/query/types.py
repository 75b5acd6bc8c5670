"""Types of the variables of a pattern: what the relations around them leave possible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query.pattern import Edge, Pattern, Term

Kinds = frozenset[int]


class TypeClash(InputError):
    """A relation is asked of something whose type it does not know."""


def fitting(patterns: Sequence[Pattern], graph: KnowledgeGraph) -> list[Pattern]:
    """Return the patterns that types allow; where they allow none, the first clash is an error.

    One alternative of a union may be impossible for its types and is left out, for it has no
    answers. So is an impossible pattern among those that must not hold, unless all branches have
    one: then the user asks for what cannot be.

    >>> graph = KnowledgeGraph.from_triples(
    ...     [("Julia", "likes", "Fargo")], types={"Julia": "Person", "Fargo": "Film"})
    >>> fitting([Pattern((Edge(graph.entities.id("Fargo"), 0, "?x"),))], graph)
    Traceback (most recent call last):
    knowledge_sheaves.query.types.TypeClash: 'likes' goes from Person to Film, \
but 'Fargo' at its head is of type Film.
    """
    if len(graph.schema.types) == 1:
        return list(patterns)
    kept, impossible, negated = [], [], []
    for pattern in patterns:
        try:
            types = possible_types(pattern, graph)
        except TypeClash as clash:
            impossible.append(clash)
            continue
        pruned, clashes = _prune(pattern, types, graph)
        kept.append(pruned)
        negated += clashes[:1]
    if patterns and not kept:
        raise impossible[0]
    if kept and len(negated) == len(kept):
        raise negated[0]
    return kept


def possible_types(
    pattern: Pattern, graph: KnowledgeGraph, known: Mapping[str, Kinds] | None = None
) -> dict[str, Kinds]:
    """Return the types that each variable may have; none left for one is a `TypeClash`.

    >>> graph = KnowledgeGraph.from_triples(
    ...     [("Julia", "likes", "Fargo")], types={"Julia": "Person", "Fargo": "Film"})
    >>> possible_types(Pattern((Edge("?y", 0, "?x"),)), graph)
    {'?y': frozenset({0}), '?x': frozenset({1})}
    """
    anything = frozenset(range(len(graph.schema.types)))
    found = {**dict.fromkeys(pattern.variables, anything), **(known or {})}
    for variable, entity in pattern.bindings:
        found[variable] = found.get(variable, anything) & _own(entity, graph)
        if not found[variable]:
            name = graph.entities[entity]
            raise TypeClash(f"{variable} is said to be {name!r}, whose type it cannot have.")
    before: dict[str, Kinds] = {}
    while found != before:
        before = dict(found)
        for edge in pattern.edges:
            _narrow(edge, found, graph)
    return found


def _narrow(edge: Edge, found: dict[str, Kinds], graph: KnowledgeGraph) -> None:
    ends = [found[t] if isinstance(t, str) else _own(t, graph) for t in edge.terms]
    pairs = _pairs(edge, graph)
    fit = [(h, t) for h, t in pairs if h in ends[0] and t in ends[1]]
    if edge.head == edge.tail:
        fit = [(h, t) for h, t in fit if h == t]
    if not fit:
        raise TypeClash(_sentence(edge, ends, pairs, graph))
    for place, term in enumerate(edge.terms):
        if isinstance(term, str):
            found[term] = frozenset(pair[place] for pair in fit)


def _prune(
    pattern: Pattern, types: Mapping[str, Kinds], graph: KnowledgeGraph
) -> tuple[Pattern, list[TypeClash]]:
    kept: list[Pattern] = []
    clashes: list[TypeClash] = []
    for inner in pattern.without:
        try:
            pruned, deeper = _prune(inner, possible_types(inner, graph, types), graph)
        except TypeClash as clash:
            clashes.append(clash)
        else:
            kept.append(pruned)
            clashes += deeper
    return replace(pattern, without=tuple(kept)), clashes


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
        return " or ".join(sorted(graph.schema.types[kind].name for kind in kinds))

    def said(place: int) -> str:
        term: Term = edge.terms[place]
        if isinstance(term, str):
            return f"{term} at its {_ENDS[place]} must be of type {types(ends[place])} elsewhere"
        return f"{graph.entities[term]!r} at its {_ENDS[place]} is of type {types(ends[place])}"

    wrong = [place for place in (0, 1) if not any(pair[place] in ends[place] for pair in pairs)]
    goes = sorted({f"from {types([head])} to {types([tail])}" for head, tail in pairs})
    shown = " or ".join(goes) if len(goes) <= _MOST_PAIRS else f"between {len(goes)} other pairs"
    name = graph.schema.relation_names[edge.relation]
    if edge.head == edge.tail and not wrong:
        return f"{name!r} goes {shown}, never back to the same type, so {edge.head} cannot be both."
    return f"{name!r} goes {shown}, but {' and '.join(map(said, wrong or (0, 1)))}."


_ENDS = ("head", "tail")
_MOST_PAIRS = 4

"""Chaining by its definition, one assignment at a time, and small random models and patterns."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.embedding.probability import probabilities
from knowledge_sheaves.graph import KnowledgeGraph, Schema
from knowledge_sheaves.query import Budget, Edge, Pattern, Query
from knowledge_sheaves.query.pattern import Term
from knowledge_sheaves.query.solvers.chaining.solver import Chaining

TAU = 0.5


class Exhaustive:
    """The definition, one assignment at a time; one table p[inverse][relation][h, t] per edge."""

    def __init__(
        self, model: SheafEmbedding, remembered: bool, kappa: float, tau: float = TAU
    ) -> None:
        graph = model.graph
        self.size, self.kappa = graph.num_entities, kappa
        everyone = torch.arange(self.size)
        self.tables: list[list[Tensor]] = [[], []]
        for relation in range(len(graph.schema.relations)):
            same = torch.full((self.size,), relation)
            facts = torch.zeros(self.size, self.size, dtype=torch.bool)
            rows = graph.triples[graph.triples[:, 1] == relation]
            facts[rows[:, 0], rows[:, 2]] = True
            sides = (model.score_tails(everyone, same), model.score_heads(same, everyone))
            for side, (energies, known) in enumerate(zip(sides, (facts, facts.T), strict=True)):
                p = probabilities(energies, known.sum(1), tau)
                self.tables[side].append(torch.where(known, 1.0, p) if remembered else p)

    def p(self, edge: Edge, distance: dict[str, int], values: dict[str, int]) -> float:
        head, tail = (values[t] if isinstance(t, str) else t for t in edge.terms)
        far = [distance.get(t, 99) if isinstance(t, str) else 99 for t in edge.terms]
        if far[0] >= far[1]:
            return float(self.tables[0][edge.relation][head, tail])
        return float(self.tables[1][edge.relation][tail, head])

    def best(
        self,
        pattern: Pattern,
        target: str,
        values: dict[str, int],
        seen: Iterable[str] | None = None,
    ) -> float:
        """The largest probability over the variables that have no value yet.

        Edges see those of ``seen`` as known entities: all with a value, unless told otherwise.
        """
        distance = _distances(pattern, target, values if seen is None else seen)
        free = [v for v in pattern.variables if v not in values]
        best = 0.0
        for chosen in itertools.product(range(self.size), repeat=len(free)):
            here = values | dict(zip(free, chosen, strict=True))
            best = max(best, self._one(pattern, distance, here))
        return best

    def _one(self, pattern: Pattern, distance: dict[str, int], values: dict[str, int]) -> float:
        for a, b in pattern.different:
            if values.get(a, a) == values.get(b, b):  # type: ignore[arg-type]
                return 0.0
        if any(values[variable] != entity for variable, entity in pattern.bindings):
            return 0.0
        p = float(np.prod([self.p(edge, distance, values) for edge in pattern.edges]))
        for inner in pattern.without:
            shared = [v for v in inner.variables if v in pattern.variables]
            shared.sort(key=pattern.variables.index)
            nearest = min(shared, key=distance.__getitem__, default="?none")
            denied = self.best(inner, nearest, values)
            p *= 0.0 if denied == 1.0 else 1 - min(1.0, self.kappa * denied)
        return p


def chaining(
    model: SheafEmbedding, queries: Sequence[Query], budget: Budget | None = None, **options: Any
) -> torch.Tensor:
    """The probability of every entity as the target, (queries, entities)."""
    return Chaining.of(model, budget, **options).log_probabilities(queries).exp()


def _distances(pattern: Pattern, target: str, values: Iterable[str]) -> dict[str, int]:
    """Steps from the target through variables; those that are given count as known entities."""
    given = set(values) - {target}
    distance = {target: 0}
    starts = [target, *(v for v in pattern.variables if v not in given)]
    for start in starts:
        distance.setdefault(start, 10)
        front = [start]
        while front:
            here = front.pop(0)
            for edge in pattern.edges:
                for other in edge.terms if here in edge.terms else ():
                    if isinstance(other, str) and other not in given and other not in distance:
                        distance[other] = distance[here] + 1
                        front.append(other)
    return distance


def answers_by_search(
    model: SheafEmbedding, query: Query, remembered: bool, kappa: float
) -> list[float]:
    search = Exhaustive(model, remembered, kappa)
    target = query.targets[0]
    return [
        1 - float(np.prod([1 - search.best(p, target, {target: x}) for p in query.patterns]))
        for x in range(search.size)
    ]


@st.composite
def patterns(draw: st.DrawFn, size: int) -> Pattern:
    """Connected variables, the target first, with extra edges, loops, negation and conditions."""
    count = draw(st.integers(1, 3))
    names = ["?x", "?u", "?v"][:count]
    entity = st.integers(0, size - 1)
    relation = st.integers(0, 1)

    def edge(a: Term, b: Term) -> Edge:
        return Edge(*((a, draw(relation), b) if draw(st.booleans()) else (b, draw(relation), a)))

    edges = [edge(names[i], names[draw(st.integers(0, i - 1))]) for i in range(1, count)]
    anything = st.one_of(st.sampled_from(names), entity)
    for _ in range(draw(st.integers(0 if edges else 1, 3))):
        edges.append(edge(draw(st.sampled_from(names)), draw(anything)))
    without: list[Pattern] = []
    for _ in range(draw(st.integers(0, 2))):
        kind = draw(st.sampled_from(["edge", "path", "pair", "entities", "all", "nested"]))
        shared = draw(st.sampled_from(names))
        if kind == "edge":
            without.append(Pattern((edge(shared, draw(entity)),)))
        elif kind == "path":
            without.append(Pattern((edge(shared, "?w"), edge("?w", draw(anything)))))
        elif kind == "pair":
            without.append(Pattern((edge(shared, draw(st.sampled_from(names))),)))
        elif kind == "all":
            ring = zip(names, names[1:] + names[:1], strict=True)
            without.append(Pattern(tuple(edge(a, b) for a, b in ring)))
        elif kind == "nested":
            nested = Pattern((edge("?w", draw(st.sampled_from([shared, 0]))),))
            without.append(Pattern((edge(shared, "?w"),), (nested,)))
        else:
            without.append(Pattern((edge(draw(entity), draw(entity)),)))
    pair = st.tuples(st.sampled_from(names), anything).filter(lambda p: p[0] != p[1])
    different = draw(st.lists(pair, max_size=1))
    bindings = draw(st.lists(st.tuples(st.sampled_from(names), entity), max_size=1))
    edges = draw(st.permutations(edges))
    if not any("?x" in e.terms for e in edges):
        edges.append(edge("?x", draw(entity)))
    bound = tuple(bindings) if draw(st.integers(0, 4)) == 0 else ()
    return Pattern(tuple(edges), tuple(without), tuple(different), bound)


@st.composite
def models(draw: st.DrawFn) -> SheafEmbedding:
    """A model with random weights of a small random graph, in float64."""
    size = draw(st.integers(2, 4))
    entity = st.integers(0, size - 1)
    rows = draw(st.lists(st.tuples(entity, st.integers(0, 1), entity), max_size=6))
    columns = np.array(rows, int).reshape(-1, 3).T
    graph = KnowledgeGraph.from_arrays(*columns, schema=Schema.single("rs"), num_entities=size)
    config = model_config(draw(st.sampled_from(["complex", "rotate", "transe"])), dim=4)
    model = SheafEmbedding(config, graph).double()
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
    model.refresh()
    return model


CHOICES = (models(), st.booleans(), st.sampled_from([0.5, 1.0, 3.0]))

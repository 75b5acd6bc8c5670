"""Queries of one shape as a graph over which energies are defined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.energies.base import less_favour_of
from knowledge_sheaves.graph import Multigraph
from knowledge_sheaves.query.pattern import Pattern, SchemaEdge, Term, Variable, slot_variable
from knowledge_sheaves.query.solvers.arrows import arrows


@dataclass(frozen=True, eq=False)
class QueryGraph:
    """Patterns of one shape and one typing, as a graph whose edges point towards the target.

    Vertices are the entities' slots, then the variables. ``edges`` (queries, edges of the graph)
    are edges of the model, reciprocal ones where a relation is read backwards. ``signs`` are −1 for
    edges that lead away from the target, which a model without reciprocal relations has;
    ``backwards`` are edges that the reciprocal relation answers for.
    """

    graph: Multigraph
    entities: Tensor
    edges: Tensor
    variables: tuple[Variable, ...]
    types: tuple[int, ...]
    signs: tuple[int, ...]
    backwards: tuple[bool, ...]

    @classmethod
    def of(
        cls,
        model: SheafEmbedding,
        patterns: Sequence[Pattern],
        parts: Sequence[Sequence[SchemaEdge]],
        target: Variable,
    ) -> QueryGraph:
        """``parts`` are the edges of the schema that every pattern's relations stand for."""
        shape, variables = patterns[0].shape, patterns[0].variables
        entities = _ids(model, [_entities(p) for p in patterns])
        count = entities.shape[1]
        numbers = {slot_variable(i): count + i for i in range(len(variables))}

        def vertex(term: Term) -> int:
            return numbers[term] if isinstance(term, Variable) else int(term)

        ends = [(vertex(edge.head), vertex(edge.tail)) for edge in shape.edges]
        edges = _ids(model, parts)
        away = [a.inverse for a in arrows(shape, slot_variable(variables.index(target)))]
        if model.config.reciprocal:
            for place in (place for place, wrong in enumerate(away) if wrong):
                ends[place] = ends[place][::-1]
                edges[:, place] += model.num_relations
        graph = Multigraph.from_edges(count + len(variables), ends)
        types, first = [-1] * graph.num_vertices, edges[0].tolist()
        for place, (head, tail) in enumerate(ends):
            kinds = model.edge_types[first[place]]
            types[head], types[tail] = int(kinds[0]), int(kinds[1])
        turned = [wrong and bool(model.config.reciprocal) for wrong in away]
        signs = [-1 if wrong and not turn else 1 for wrong, turn in zip(away, turned, strict=True)]
        return cls(graph, entities, edges, variables, tuple(types), tuple(signs), tuple(turned))

    def rows(self, part: slice) -> QueryGraph:
        """Some of the queries."""
        return replace(self, entities=self.entities[part], edges=self.edges[part])

    def vertex(self, variable: Variable) -> int:
        return self.entities.shape[1] + self.variables.index(variable)

    def __len__(self) -> int:
        return len(self.edges)


def _ids(model: SheafEmbedding, rows: Sequence[Sequence[int]]) -> Tensor:
    return torch.tensor([list(row) for row in rows], dtype=torch.long, device=model.device)


def _entities(pattern: Pattern) -> list[int]:
    return [term for edge in pattern.edges for term in edge.terms if not isinstance(term, Variable)]


def less_favour(model: SheafEmbedding, batch: QueryGraph, vertex: int, energies: Tensor) -> Tensor:
    """Energies (…, entities of a target's type), once less its bias for every edge of a target."""
    ids = model.entities_of_type(batch.types[vertex])
    heads, tails = (int((v == vertex).sum()) for v in (batch.graph.heads, batch.graph.tails))
    return less_favour_of(model, energies, ids, heads, tails)

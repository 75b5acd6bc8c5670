"""Knowledge sheaves, and embeddings of a graph in one: the definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph, Multigraph, Schema
from knowledge_sheaves.graph.multigraph import GraphMorphism
from knowledge_sheaves.sheaf import BlockMap, CellularSheaf

Matrix = Sequence[Sequence[float]] | Tensor | BlockMap


@dataclass(frozen=True, eq=False)
class KnowledgeSheaf:
    """A cellular sheaf on a schema: a stalk for each type, a pair of maps for each relation.

    ``translation`` z is a 1-cochain on the schema (None: no relation translates).

    >>> schema = Schema.from_dict({
    ...     "types": ["Person", "Film"],
    ...     "relations": [{"name": "likes", "head": "Person", "tail": "Film"}]})
    >>> sheaf = KnowledgeSheaf.from_maps(
    ...     schema, {"Person": 2, "Film": 1}, {"likes": ([[1, 0]], [[1]])})
    >>> sheaf.sheaf.vertex_dims, sheaf.sheaf.edge_dims
    (array([2, 1]), array([1]))
    """

    schema: Schema
    sheaf: CellularSheaf
    translation: Tensor | None = None

    @classmethod
    def from_maps(
        cls,
        schema: Schema,
        dims: Mapping[str, int],
        maps: Mapping[str, tuple[Matrix, Matrix]],
        translations: Mapping[str, Sequence[float] | Tensor] | None = None,
    ) -> KnowledgeSheaf:
        """A sheaf from plain matrices (head map, tail map) by the names of the relations."""
        relations = [relation.name for relation in schema.relations]
        _check_names("stalk dimension", dims, [t.name for t in schema.types])
        _check_names("pair of maps", maps, relations)
        heads, tails = ([_matrix(maps[name][end]) for name in relations] for end in (0, 1))
        vertex_dims = [dims[t.name] for t in schema.types]
        sheaf = CellularSheaf.from_maps(schema.graph, vertex_dims, heads, tails)
        if not translations:
            return cls(schema, sheaf)
        parts = [
            torch.as_tensor(translations.get(name, [0.0] * int(dim)), dtype=sheaf.zeros().dtype)
            for name, dim in zip(relations, sheaf.edge_dims, strict=True)
        ]
        return cls(schema, sheaf, torch.cat(parts))

    def on(self, typing: GraphMorphism) -> tuple[CellularSheaf, Tensor | None]:
        """The sheaf and its translation, pulled back to a graph over the schema."""
        z = self.translation
        pulled = None if z is None else self.sheaf.pullback_edges(z, typing)
        return self.sheaf.pullback(typing), pulled


@dataclass(frozen=True, eq=False)
class SheafEmbedding:
    """A knowledge sheaf and a 0-cochain on a knowledge graph: a vector for every entity."""

    knowledge_sheaf: KnowledgeSheaf
    graph: KnowledgeGraph
    cochain: Tensor

    @classmethod
    def from_vectors(
        cls,
        knowledge_sheaf: KnowledgeSheaf,
        graph: KnowledgeGraph,
        vectors: Mapping[str, Sequence[float] | Tensor],
    ) -> SheafEmbedding:
        """An embedding from one vector per entity, by name."""
        names = list(graph.entities)
        _check_names("vector", vectors, names)
        dtype = knowledge_sheaf.sheaf.zeros().dtype
        parts = []
        for name, kind in zip(names, graph.entity_types, strict=True):
            vector = torch.as_tensor(vectors[name], dtype=dtype)
            dim = int(knowledge_sheaf.sheaf.vertex_dims[kind])
            if vector.shape[0] != dim:
                raise InputError(
                    f"The vector of {name!r} has {vector.shape[0]} coordinates, but its type "
                    f"{graph.schema.types[kind].name!r} has a stalk of dimension {dim}."
                )
            parts.append(vector)
        return cls(knowledge_sheaf, graph, torch.cat(parts))

    @cached_property
    def _entities(self) -> GraphMorphism:
        """The entities alone, over the types: where the cochain lives, whatever the triples."""
        bare = Multigraph(self.graph.num_entities, np.zeros(0, np.int64), np.zeros(0, np.int64))
        schema = self.knowledge_sheaf.schema.graph
        return GraphMorphism(bare, schema, self.graph.entity_types, np.zeros(0, np.int64))

    def vector(self, name: str) -> Tensor:
        """The vector of an entity."""
        sheaf = self.knowledge_sheaf.sheaf.pullback(self._entities)
        return sheaf.stalk(self.cochain, self.graph.entities.id(name))

    def energies(self, triples: npt.ArrayLike | None = None) -> Tensor:
        """V_e for every row (head, edge of the schema, tail); the graph's own by default."""
        rows = self.graph.triples if triples is None else np.asarray(triples).reshape(-1, 3)
        over = Multigraph(self.graph.num_entities, rows[:, 0], rows[:, 2])
        target = self.knowledge_sheaf.schema.graph
        typing = GraphMorphism(over, target, self.graph.entity_types, rows[:, 1])
        sheaf, translation = self.knowledge_sheaf.on(typing)
        if translation is not None and self.cochain.ndim > 1:
            translation = translation if translation.ndim > 1 else translation.unsqueeze(-1)
        return sheaf.edge_energies(self.cochain, translation)

    def energy(self) -> Tensor:
        """V(x) over the whole graph."""
        return self.energies().sum()


def _matrix(value: Matrix) -> Tensor | BlockMap:
    if isinstance(value, Tensor | BlockMap):
        return value
    return torch.tensor(value, dtype=torch.get_default_dtype())


def _check_names(what: str, given: Mapping[str, object], wanted: Sequence[str]) -> None:
    known = set(wanted)
    missing = [name for name in dict.fromkeys(wanted) if name not in given]
    extra = [name for name in given if name not in known]
    if missing:
        raise InputError(f"There is no {what} for {', '.join(map(repr, missing[:5]))}.")
    if extra:
        raise InputError(f"A {what} was given for {', '.join(map(repr, extra[:5]))}: no such name.")

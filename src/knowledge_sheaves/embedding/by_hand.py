"""Embeddings written by hand: a given sheaf, and a given vector for every entity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from knowledge_sheaves.embedding.config import SheafConfig
from knowledge_sheaves.embedding.knowledge import KnowledgeSheaf, check_names
from knowledge_sheaves.embedding.model import SheafEmbedding
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import EntityType, KnowledgeGraph, Schema


def from_vectors(
    knowledge_sheaf: KnowledgeSheaf,
    graph: KnowledgeGraph,
    vectors: Mapping[str, Sequence[float] | Tensor],
) -> SheafEmbedding:
    """A model with free maps of the sheaf's sizes, set to the sheaf's maps and these vectors."""
    rows = _rows(knowledge_sheaf, graph, vectors)
    z = knowledge_sheaf.translation
    config = SheafConfig(
        name="given",
        dim=int(knowledge_sheaf.sheaf.vertex_dims.max()),
        block=None,
        tail="free",
        translation=z is not None,
        reciprocal=False,
        loops=True,
        sections=1 if not rows or rows[0].ndim == 1 else rows[0].shape[1],
    )
    schema = _sized(graph.schema, knowledge_sheaf)
    sized = KnowledgeGraph(schema, graph.entities, graph.entity_types, *graph.triples.T)
    model = SheafEmbedding(config, sized)
    with torch.no_grad():
        _copy_sheaf(model, knowledge_sheaf)
        for entity, vector in enumerate(rows):
            table, row = int(model.entities.table_of[entity]), int(model.entities.row_of[entity])
            model.entities.tables[table][row] = vector.flatten()
    return model.requires_grad_(False)


def _rows(
    knowledge_sheaf: KnowledgeSheaf,
    graph: KnowledgeGraph,
    vectors: Mapping[str, Sequence[float] | Tensor],
) -> list[Tensor]:
    names = list(graph.entities)
    check_names("vector", vectors, names)
    rows = [torch.as_tensor(vectors[name], dtype=torch.get_default_dtype()) for name in names]
    for name, kind, row in zip(names, graph.entity_types, rows, strict=True):
        dim = int(knowledge_sheaf.sheaf.vertex_dims[kind])
        if row.shape[0] != dim:
            raise InputError(
                f"The vector of {name!r} has {row.shape[0]} coordinates, but its type "
                f"{graph.schema.types[kind].name!r} has a stalk of dimension {dim}."
            )
    return rows


def _sized(schema: Schema, knowledge_sheaf: KnowledgeSheaf) -> Schema:
    """The schema with the sheaf's dimensions written in, and nothing left to be learned."""
    sheaf = knowledge_sheaf.sheaf
    types = zip(schema.types, sheaf.vertex_dims, strict=True)
    relations = zip(schema.relations, sheaf.edge_dims, strict=True)
    return Schema(
        [EntityType(t.name, int(d)) for t, d in types],
        [
            replace(r, dim=int(d), shared=False, symmetric=False, functional=False)
            for r, d in relations
        ],
    )


def _copy_sheaf(model: SheafEmbedding, knowledge_sheaf: KnowledgeSheaf) -> None:
    sheaf, z = knowledge_sheaf.sheaf, knowledge_sheaf.translation
    for edge in range(model.num_relations):
        for end, map_ in enumerate((sheaf.head(edge), sheaf.tail(edge))):
            group, row, _ = model.maps.index[end, :, edge].tolist()
            model.maps.parameters_of[group][row] = map_.dense().reshape(1, -1)
        if z is not None and model.translations is not None:
            part = sheaf.edge_stalk(z, edge)
            part = part.unsqueeze(-1) if part.ndim == 1 else part
            full = model.translations.new_zeros(model.maps.rows, model.config.sections)
            full[: len(part)] = part  # one column serves every section where z has only one
            model.translations[edge] = full.flatten()

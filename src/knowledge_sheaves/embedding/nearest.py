"""The entities whose vectors are nearest to that of one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.linalg import vector_norm
from torch.nn.functional import cosine_similarity

from knowledge_sheaves.embedding.model import SheafEmbedding
from knowledge_sheaves.graph.names import find_entity

Measure: TypeAlias = Literal["cosine", "distance"]


@dataclass(frozen=True)
class Neighbour:
    """An entity and how near it is, by both measures."""

    name: str
    label: str | None
    cosine: float
    distance: float

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


def usual_measure(model: SheafEmbedding) -> Measure:
    """What suits the model: bilinear ones compare by products, so directions say more."""
    return model.config.energy.nearness


@torch.no_grad()
def neighbours(
    model: SheafEmbedding, entity: str, top: int = 10, by: Measure | None = None
) -> list[Neighbour]:
    """Return the entities of the same type that are nearest to one, the nearest first.

    >>> from knowledge_sheaves.embedding import model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([("Ann", "knows", "Bob"), ("Bob", "knows", "Cy")])
    >>> found = neighbours(SheafEmbedding(model_config("transe", dim=4), graph), "Ann")
    >>> sorted(each.name for each in found), found[0].distance <= found[1].distance
    (['Bob', 'Cy'], True)
    """
    graph, place = model.graph, find_entity(model.graph, entity)
    kind = int(graph.entity_types[place])
    same = model.entities_of_type(kind)
    mine = int((same == place).nonzero())
    cosines, distances = _compare(model, model.entities.of_type(kind).flatten(1), mine)
    order = -cosines if (by or usual_measure(model)) == "cosine" else distances.clone()
    order[mine] = torch.inf
    kinds = graph.types_of(place)
    if graph.classes is not None and kinds:
        alike = np.logical_or.reduce([graph.is_of_type(name) for name in kinds])
        order[torch.from_numpy(~alike).to(order.device)] = torch.inf
    best = order.topk(min(top, len(same) - 1), largest=False)
    rows = best.indices[best.values < torch.inf].tolist()
    named = [graph.name(int(same[row])) for row in rows]
    return [
        Neighbour(str(name), name.label, float(cosines[row]), float(distances[row]))
        for name, row in zip(named, rows, strict=True)
    ]


def _compare(model: SheafEmbedding, vectors: Tensor, mine: int) -> tuple[Tensor, Tensor]:
    ours = vectors[mine : mine + 1]
    difference = model.config.energy.difference(vectors, ours)
    return cosine_similarity(vectors, ours), vector_norm(difference, dim=1)

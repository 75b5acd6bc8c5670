"""Scorers with given energies, for tests of whatever ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knowledge_sheaves.graph import KnowledgeGraph


@dataclass
class TableScorer:
    """One energy for each (head, relation name, tail), +inf where no part of it fits the types."""

    graph: KnowledgeGraph
    energies: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        schema, types = self.graph.schema, self.graph.entity_types
        names = list(schema.relation_names)
        self.names = torch.tensor([names.index(relation.name) for relation in schema.relations])
        fits = np.zeros(self.energies.shape, bool)
        for relation in schema.relations:
            heads = types == schema.type_id(relation.head)
            tails = types == schema.type_id(relation.tail)
            fits[:, names.index(relation.name)] |= heads[:, None] & tails[None, :]
        self.table = torch.from_numpy(np.where(fits, self.energies, np.inf)).float()

    def score_tails(self, heads: Tensor, edges: Tensor) -> Tensor:
        return self.table[heads, self.names[edges]]

    def score_heads(self, edges: Tensor, tails: Tensor) -> Tensor:
        return self.table[:, self.names[edges], tails].T

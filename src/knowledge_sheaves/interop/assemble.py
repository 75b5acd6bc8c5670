"""A sheaf embedding from given parameters: how models of other libraries become ours."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafConfig, SheafEmbedding
from knowledge_sheaves.graph import KnowledgeGraph


@dataclass(frozen=True)
class Ingredients:
    """A configuration and its parameters; maps are (edges, n_blocks, parameters of a block)."""

    config: SheafConfig
    vectors: Tensor
    heads: Tensor | None = None
    tails: Tensor | None = None
    translations: Tensor | None = None
    biases: Tensor | None = None


@torch.no_grad()
def assemble(parts: Ingredients, graph: KnowledgeGraph) -> SheafEmbedding:
    """The model with these parameters on a graph of one type; it ranks as it did elsewhere."""
    model = SheafEmbedding(parts.config.with_options(loops=True), graph)
    model.entities.tables[0].copy_(parts.vectors)
    for end, values in enumerate((parts.heads, parts.tails)):
        if values is not None and len(values):
            groups, rows, _ = model.maps.index[end]
            model.maps.parameters_of[int(groups[0])][rows] = values.to(torch.get_default_dtype())
    given = ((parts.translations, model.translations), (parts.biases, model.biases))
    for numbers, parameter in given:
        if numbers is not None and parameter is not None:
            parameter.copy_(numbers)
    model.refresh()
    return model


def lifted(config: SheafConfig, vectors: Tensor, forward: Tensor, backward: Tensor) -> Ingredients:
    """A bilinear model: heads are ranked as tails of the reciprocal relations, by ``backward``."""
    config = config.with_options(reciprocal=True)
    return Ingredients(config, vectors, torch.cat([forward, backward]))

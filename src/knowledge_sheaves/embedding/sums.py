"""The direct sum of trained sheaves: one sheaf whose energy is the sum of theirs.

The stalk of an entity is the sum of its stalks, a relation's map has the blocks of all its maps,
and F(x ⊕ y) = Fx ⊕ Fy: what several runs have learned separately answers together. Models that
were trained from different seeds err differently, so that their sum ranks better than each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.embedding.config import SheafConfig
from knowledge_sheaves.embedding.model import SheafEmbedding
from knowledge_sheaves.errors import InputError


@torch.no_grad()
def direct_sum(models: Sequence[SheafEmbedding]) -> SheafEmbedding:
    """Put models of the same graph and the same kind side by side.

    Temperatures and other calibration are those of no summand, and are left open.

    >>> from knowledge_sheaves.embedding import model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    >>> parts = [SheafEmbedding(model_config("se", dim=d, block=2), graph, d) for d in (4, 6)]
    >>> whole = direct_sum(parts)
    >>> energies = [float(model.energies([[0, 0, 1]])[0]) for model in (*parts, whole)]
    >>> whole.config.dim, round(sum(energies[:2]) - energies[2], 5)
    (10, 0.0)
    """
    _check(models)
    first = models[0]
    dim = sum(model.config.dim for model in models)
    whole = SheafEmbedding(replace(first.config, dim=dim), first.graph)
    whole = whole.to(next(first.parameters()).dtype)
    parts = [dict(model.named_parameters()) for model in models]
    for name, parameter in whole.named_parameters():
        parameter.copy_(_together(name, [part[name] for part in parts]))
    whole.refresh()
    return whole


def _together(name: str, parts: Sequence[Tensor]) -> Tensor:
    """Biases add up; everything else is a list of blocks, and the lists follow each other."""
    return torch.stack(tuple(parts)).sum(0) if name == "biases" else torch.cat(tuple(parts), 1)


def _check(models: Sequence[SheafEmbedding]) -> None:
    if len(models) < 2:
        raise InputError("A direct sum needs at least two models.")
    first = models[0]
    for place, model in enumerate(models[1:], start=2):
        same = (
            model.graph.schema == first.graph.schema
            and model.graph.entities == first.graph.entities
            and np.array_equal(model.graph.triples, first.graph.triples)
        )
        if not same:
            raise InputError(
                f"The first model and number {place} know different graphs: sum models that were "
                "trained on the same data."
            )
        changed = _different(first.config, model.config)
        if changed:
            raise InputError(
                f"The first model and number {place} differ in {', '.join(changed)}: only models "
                "that differ in dim alone can be summed."
            )
    schema = first.graph.schema
    dims = [kind.dim for kind in schema.types] + [each.dim for each in schema.relations]
    if any(dim is not None for dim in dims):
        raise InputError(
            "Models whose types or relations have dimensions of their own have no direct sum of "
            "the same kind: train them with one dimension for all."
        )
    _check_additive(first.config)


def _different(one: SheafConfig, other: SheafConfig) -> list[str]:
    theirs = other.to_dict()
    return [k for k, v in one.to_dict().items() if k not in ("dim", "init") and theirs[k] != v]


def _check_additive(config: SheafConfig) -> None:
    """Only squares of Euclidean lengths add up over summands."""
    if not config.energy.additive:
        raise InputError(
            f"The scores of {config.name} are not squared Euclidean lengths, so they do not add "
            "up over a direct sum: use models with norm 2 and power 2, or lifted ones."
        )
    if config.type_dim is not None:
        raise InputError(
            "Models whose classes have coordinates of their own have no direct sum of the same "
            "kind: train them without type_dim."
        )
    if config.block is None or config.relation_dim is not None:
        raise InputError(
            "Maps that are one block each have no direct sum of the same kind: use models with a "
            "block size, such as complex or rotate."
        )

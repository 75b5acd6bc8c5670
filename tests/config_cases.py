"""Every combination of a model's options, but for those that provably say nothing more.

An energy sees the ends of an edge and nothing of the maps, but for what is known of FᵀF. So all
maps are combined under the plain energy (`maps`), and all energies over one map of each kind of
FᵀF (`energies`). The rest of the options is combined with both where it can matter.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafConfig, SheafEmbedding
from knowledge_sheaves.embedding.constraints import CONSTRAINTS
from knowledge_sheaves.embedding.energies import ENERGIES
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph, Schema

ENTITIES, RELATIONS = 5, 2
SIZES = {"quaternion": 4, "scaled-quaternion": 4}
# One for the identity, and for every kind of Gram matrix at the tail (or at both ends).
BY_GRAM: list[dict[str, Any]] = [
    {"head": "identity", "tail": "identity", "block": 1},
    {"head": "complex", "tail": "identity", "block": 2},
    {"head": "rotation", "tail": "orthogonal", "block": 2},
    {"head": "complex", "tail": "complex", "block": 2},
    {"head": "free", "tail": "free", "block": None},
    {"head": "free", "tail": "tied", "block": None},
]


def combine(**options: tuple[Any, ...]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*options.values()):
        yield dict(zip(options, values, strict=True))


def all_maps() -> Iterator[dict[str, Any]]:
    """All constraints at both ends; blocks and dimensions that fit and that do not."""
    for chosen in combine(
        head=tuple(CONSTRAINTS),
        tail=(*CONSTRAINTS, "tied"),
        translation=(False, True, "projected"),
        relation_dim=(None, 4),
        sections=(1, 2),
        reciprocal=(False,),
    ):
        block = max(SIZES.get(chosen["head"], 2), SIZES.get(chosen["tail"], 2))
        yield {"dim": 8, "block": block, **chosen}


def all_energies() -> Iterator[dict[str, Any]]:
    """All that says how residuals are measured."""
    for maps in BY_GRAM:
        for chosen in combine(
            translation=(False, True),
            lifted=(False, True),
            space=tuple(sorted({kind.space for kind in ENERGIES.values()})),
            norm=(1, 2, float("inf")),
            power=(1, 2),
            clamp=(None, 0.8),
            biases=(False, True, "by-end"),
            sections=(1, 2),
            reciprocal=(True, False, "tied"),
        ):
            yield {"dim": 4, **maps, **chosen}


def accepted(options: Iterator[dict[str, Any]]) -> list[SheafConfig]:
    """The configurations that can be made; whatever else is raised is an error."""
    found = []
    for chosen in options:
        try:
            found.append(SheafConfig(**chosen))
        except InputError as error:
            if not str(error).endswith((".", "?")):
                raise AssertionError(f"no sentence: {error}") from error
    return found


def small_graph() -> KnowledgeGraph:
    rows = np.random.default_rng(0).integers(0, [ENTITIES, RELATIONS, ENTITIES], size=(9, 3))
    schema = Schema.single([f"r{i}" for i in range(RELATIONS)])
    return KnowledgeGraph.from_arrays(*rows.T, schema=schema, num_entities=ENTITIES)


def made(config: SheafConfig, graph: KnowledgeGraph) -> SheafEmbedding:
    """A model with numbers of ordinary size everywhere, biases included."""
    model = SheafEmbedding(config, graph, seed=1)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator))
    model.refresh()
    return model


def all_triples() -> Tensor:
    """Every head, relation and tail of the small graph."""
    rows = np.indices((ENTITIES, RELATIONS, ENTITIES)).reshape(3, -1).T
    return torch.from_numpy(np.ascontiguousarray(rows))


@torch.no_grad()
def check_scores(model: SheafEmbedding) -> None:
    """Scores of triples, of all candidates at either end, and of all relations are the same."""
    shape = (ENTITIES, RELATIONS, ENTITIES)
    triples = all_triples()
    scores = model.scores(triples).reshape(shape)
    assert scores.isfinite().all()
    left, right = model.ends(triples)
    size = float((left.square().sum((1, 2, 3)) + right.square().sum((1, 2, 3))).max()) + 1
    # The root of a sum that should be 0 shows the root of the rounding.
    close = max(2e-5 * size, (1e-6 * size) ** 0.5)
    heads, edges = torch.cartesian_prod(torch.arange(ENTITIES), torch.arange(RELATIONS)).T
    tails = model.score_tails(heads, edges).reshape(shape)
    assert (tails - scores).abs().max() <= close, "tails"
    backwards = scores.permute(2, 1, 0)
    if model.config.reciprocal:
        rows = triples + torch.tensor([0, RELATIONS, 0])
        backwards = model.scores(rows).reshape(shape)
    by_head = model.score_heads(edges, heads).reshape(shape)
    assert (by_head - backwards).abs().max() <= close, "heads"
    pairs = torch.cartesian_prod(torch.arange(ENTITIES), torch.arange(ENTITIES)).T
    relations = model.score_relations(*pairs).reshape(ENTITIES, ENTITIES, RELATIONS)
    gaps = relations - scores.permute(0, 2, 1)
    if model.config.lifted:  # there the product alone counts
        gaps = gaps + left.square().sum((1, 2, 3)).reshape(shape).permute(0, 2, 1)
    assert (gaps - gaps.mean(-1, keepdim=True)).abs().max() <= close, "relations"
    # The sheaf knows nothing of how scores measure its residuals.
    if model.config.energy.name in ("square", "lifted") and not model.config.biases:
        check_sheaf(model, size)


def check_sheaf(model: SheafEmbedding, size: float) -> None:
    """The energies are those of the sheaf and the cochain that the parameters describe."""
    sheaf, z = model.knowledge_sheaf().on(model.graph.typing)
    found = model.energies()
    wanted = sheaf.edge_energies(model.cochain(), z)
    assert (found - wanted).abs().max() <= 2e-5 * size, "sheaf"

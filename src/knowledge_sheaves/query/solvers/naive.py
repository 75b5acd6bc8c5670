"""The solver `naive`: the paper's baseline, which adds up all that a query names."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.pattern import Query
from knowledge_sheaves.query.solvers.harmonic.forms import QueryBatch
from knowledge_sheaves.query.typing import typed_parts


def naive_energies(model: SheafEmbedding, queries: Sequence[Query]) -> Tensor:
    """‖Σ sources + Σ translations − x‖²: all sources and all relations of a query, added up."""
    config = model.config
    identity = config.head == "identity" and config.tail == "identity"
    if not identity or not config.translation or config.space != "vector":
        raise InputError(
            f"The solver naive adds up translations, which {config.name!r} has not: use harmonic."
        )
    patterns = [query.patterns[0] for query in queries]
    if len(queries[0].patterns) > 1 or patterns[0].without:
        raise InputError("The solver naive answers conjunctions only: use harmonic or chaining.")
    if len(model.graph.schema.types) > 1:
        raise InputError("The solver naive knows no types: use harmonic.")
    parts = [typed_parts(pattern, model.graph)[0] for pattern in patterns]
    batch = QueryBatch.of(model, patterns, parts, queries[0].targets[0])
    place = (
        model.entities.lookup(batch.entities.flatten())
        .flatten(1)
        .unflatten(0, (len(queries), -1))
        .sum(1)
    )
    for edges in batch.edges.T:
        z = model.translation(edges)
        assert z is not None
        place = place + z.flatten(1)
    table = model.pool(0, "tail").candidates.flat
    return torch.cdist(place, table).square()

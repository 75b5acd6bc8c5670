"""What a change of a model costs: the MRR of facts before it and after it."""

from __future__ import annotations

import numpy as np

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.storage import dataset_of
from knowledge_sheaves.ranking.metrics import RankMetrics
from knowledge_sheaves.ranking.triples import rank_triples, ranked_side

FACTS = 1000
AMONG = 100_000


def sample_mrr(model: SheafEmbedding, seed: int = 0) -> tuple[float, str]:
    """The MRR of some facts, held-out ones where there are any, and which facts those are.

    In a large graph they are ranked among entities drawn by chance; the same seed draws the same.
    """
    data, rng = dataset_of(model), np.random.default_rng(seed)
    name = next((split for split in ("valid", "test") if split in data.splits), "train")
    triples = data.splits[name].triples
    triples = triples[rng.permutation(len(triples))[:FACTS]]
    size, among = data.train.num_entities, None
    if size > AMONG:
        among = np.concatenate([rng.integers(size, size=AMONG), triples[:, 0], triples[:, 2]])
    side = ranked_side(model)
    ranks = rank_triples(model, triples, list(data.splits.values()), side, among=among)
    return RankMetrics.of(ranks.sides[side]).mrr, f"{len(triples):,} facts of {name}"

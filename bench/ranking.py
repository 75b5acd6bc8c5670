"""How long filtered ranking of all FB15k-237 test triples takes, against bare matrix products.

The yardstick is what any ranking by a dot product or a distance has to do: the vectors of all
distinct queries, on both sides, times those of all entities. Ranking, with its own products, the
filter and the counting, should take at most twice that. Weights are random: they do not matter for
the time. PyKEEN's evaluator does the same for a part of the triples, and its time is scaled up.

The data come from the folder FB15k-237 in KNOWLEDGE_SHEAVES_DATA, or else are a seeded random graph
of that size. On a machine
that is busy otherwise, threads wait for each other and the ratio means little. Run with
``make bench`` or ``python bench/ranking.py``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from _measure import peak_gib

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.graph import IntArray, KnowledgeGraph, Schema
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.ranking import Scorer, rank_triples
from knowledge_sheaves.ranking.ranker import MEMORY_LIMIT, chunks

DIM = 200
ENTITIES, RELATIONS = 14_541, 237
TRIPLES = (272_115, 17_535, 20_466)
PYKEEN_TRIPLES = 256
REPEATS = 3


def graphs() -> tuple[str, list[KnowledgeGraph]]:
    """The train, valid and test graphs, and what they are."""
    folder = os.environ.get("KNOWLEDGE_SHEAVES_DATA")
    if folder and (Path(folder) / "FB15k-237").exists():
        data = load(Path(folder) / "FB15k-237", keep_unseen=True)
        return "FB15k-237", list(data.splits.values())
    return "a random graph of the size of FB15k-237", random_graphs()


def random_graphs() -> list[KnowledgeGraph]:
    """Random triples whose entities and relations are as unevenly used as in real graphs."""
    rng = np.random.default_rng(0)
    columns = [
        (size * rng.random(sum(TRIPLES)) ** 3).astype(np.int64)
        for size in (ENTITIES, RELATIONS, ENTITIES)
    ]
    schema = Schema.single(map(str, range(RELATIONS)))
    parts = np.split(np.stack(columns, axis=1), np.cumsum(TRIPLES)[:-1])
    return [
        KnowledgeGraph.from_arrays(*part.T, schema=schema, num_entities=ENTITIES) for part in parts
    ]


def distinct_queries(triples: IntArray) -> list[int]:
    """How many different (h, r) and (r, t) there are."""
    return [len(np.unique(triples[:, pair], axis=0)) for pair in ([0, 1], [1, 2])]


def bare_products(counts: list[int], num_entities: int) -> Callable[[], None]:
    """The products of that many query vectors with all entities, in the same chunks."""
    table = torch.randn(num_entities, DIM)
    sides = [torch.randn(count, DIM) for count in counts]

    def run() -> None:
        for queries in sides:
            for part in chunks(len(queries), num_entities, MEMORY_LIMIT):
                _ = queries[part] @ table.T

    return run


def seconds(job: Callable[[], object]) -> float:
    start = perf_counter()
    job()
    return perf_counter() - start


def quickest(*jobs: Callable[[], object]) -> list[float]:
    """The quickest of a few runs of each, taken in turns so that a busy machine hits all."""
    for job in jobs:
        job()
    return np.min([[seconds(job) for job in jobs] for _ in range(REPEATS)], axis=0).tolist()


def pykeen_seconds(known: list[KnowledgeGraph], test: KnowledgeGraph) -> float:
    """What PyKEEN's evaluator takes for its TransE, scaled up from some of the triples."""
    logging.disable(logging.WARNING)
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.models import TransE
    from pykeen.triples import CoreTriplesFactory

    mapped = [torch.from_numpy(graph.triples.astype(np.int64)) for graph in known]
    factory = CoreTriplesFactory(mapped[0], test.num_entities, test.num_relations)
    model = TransE(triples_factory=factory, embedding_dim=DIM, random_seed=0)
    rows = np.random.default_rng(0).choice(test.num_triples, PYKEEN_TRIPLES, replace=False)
    some = torch.from_numpy(test.triples[rows].astype(np.int64))
    taken = seconds(
        lambda: RankBasedEvaluator().evaluate(
            model, some, batch_size=32, additional_filter_triples=mapped, use_tqdm=False
        )
    )
    return taken * test.num_triples / PYKEEN_TRIPLES


def main() -> None:
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    what, known = graphs()
    train, test = known[0], known[-1]
    counts = distinct_queries(test.triples)
    print(
        f"{what}: {test.num_triples:,} test triples, {test.num_entities:,} entities, "
        f"{sum(counts):,} distinct queries, d = {DIM}, {torch.get_num_threads()} threads"
    )
    product = bare_products(counts, test.num_entities)
    for name in ("transe", "rotate"):
        model: Scorer = SheafEmbedding(model_config(name, dim=DIM), train)
        ranking, bare = quickest(lambda m=model: rank_triples(m, test.triples, known), product)
        print(
            f"{name:8s} ranking {ranking:6.2f} s, bare products {bare:6.2f} s, "
            f"ratio {ranking / bare:.2f} (at most 2); peak memory so far {peak_gib():.2f} GiB"
        )
    theirs = pykeen_seconds(known, test)
    print(
        f"PyKEEN's evaluator, TransE: about {theirs:.0f} s, scaled up from {PYKEEN_TRIPLES} "
        f"triples; peak memory so far {peak_gib():.2f} GiB"
    )


if __name__ == "__main__":
    main()

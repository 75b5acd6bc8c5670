"""Ten million triples over a million entities: time and memory to load, index and look up."""

from __future__ import annotations

from time import perf_counter

import numpy as np
from _measure import interleaved

from knowledge_sheaves.graph import KnowledgeGraph, Schema
from knowledge_sheaves.memory import peak_memory

NUM_TRIPLES, NUM_ENTITIES, NUM_RELATIONS = 10_000_000, 1_000_000, 100
NUM_LOOKUPS = 1_000_000


def main() -> None:
    """Print the figures."""
    rng = np.random.default_rng(0)
    sizes = (NUM_ENTITIES, NUM_RELATIONS, NUM_ENTITIES)
    heads, relations, tails = (
        rng.integers(size, size=NUM_TRIPLES, dtype=np.int32) for size in sizes
    )
    schema = Schema.single(map(str, range(NUM_RELATIONS)))

    def build() -> KnowledgeGraph:
        return KnowledgeGraph.from_arrays(
            heads, relations, tails, schema=schema, num_entities=NUM_ENTITIES
        ).index()

    graph = build()
    memory = peak_memory() / 1e9
    plain = rng.integers(2**62, size=NUM_TRIPLES)
    best = interleaved({"build": build, "sort": lambda: np.sort(plain)}, rounds=3)
    seconds, ratio = best["build"], best["build"] / best["sort"]
    print(f"load and index {NUM_TRIPLES:,} triples: {seconds:.2f} s (at most 10)")
    print(f"  in plain sorts of as many int64: {ratio:.1f}")
    print(f"  peak memory of the process: {memory:.2f} GB (at most 1)")

    asked = rng.integers(NUM_TRIPLES, size=NUM_LOOKUPS)
    known = np.stack((heads[asked], relations[asked], tails[asked]), axis=1)
    for name, ask in (
        ("tails_many", lambda: graph.tails_many(known[:, 0], known[:, 1])),
        ("heads_many", lambda: graph.heads_many(known[:, 1], known[:, 2])),
        ("contains", lambda: graph.contains(known)),
    ):
        start = perf_counter()
        ask()
        print(f"{name}: {NUM_LOOKUPS / (perf_counter() - start) / 1e6:.1f} million a second")


if __name__ == "__main__":
    main()

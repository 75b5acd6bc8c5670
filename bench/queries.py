"""How fast queries are answered, against the matrix product that any ranking needs.

A model of NELL's size (63,361 entities, 200 relations) with random weights: from `Query` objects to
the ids of the ten best answers. Then, at d = 32, against a direct transcription of the method as it
is published: one Schur complement per query, and a quadratic form evaluated at every entity.

Run with ``make bench`` or ``python bench/queries.py``.
"""

from __future__ import annotations

import numpy as np
import torch
from _measure import peak_gib, seconds

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.graph import KnowledgeGraph, Schema
from knowledge_sheaves.query import Query
from knowledge_sheaves.query.answers import top
from knowledge_sheaves.query.pattern import Edge, Pattern
from knowledge_sheaves.query.solve import Options, scores

ENTITIES, RELATIONS, QUERIES, DIM = 63_361, 200, 1_000, 512
SHAPES: dict[str, list[tuple[str, str]]] = {
    "1p": [("e", "x")],
    "2p": [("e", "a"), ("a", "x")],
    "3p": [("e", "a"), ("a", "b"), ("b", "x")],
    "2i": [("e", "x"), ("e", "x")],
    "3i": [("e", "x"), ("e", "x"), ("e", "x")],
    "pi": [("e", "a"), ("a", "x"), ("e", "x")],
    "ip": [("e", "a"), ("e", "a"), ("a", "x")],
}


def make_model(name: str, dim: int) -> SheafEmbedding:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, [ENTITIES, RELATIONS, ENTITIES], size=(100_000, 3))
    schema = Schema.single([f"r{i}" for i in range(RELATIONS)])
    graph = KnowledgeGraph.from_arrays(*rows.T, schema=schema, num_entities=ENTITIES)
    return SheafEmbedding(model_config(name, dim=dim, init=0.1), graph).requires_grad_(False)


def make_queries(shape: list[tuple[str, str]], count: int, seed: int = 0) -> list[Query]:
    rng = np.random.default_rng(seed)
    queries = []
    for _ in range(count):
        edges = [
            Edge(
                int(rng.integers(ENTITIES)) if head == "e" else f"?{head}",
                int(rng.integers(RELATIONS)),
                f"?{tail}",
            )
            for head, tail in shape
        ]
        queries.append(Query(("?x",), (Pattern(tuple(edges)),)))
    return queries


def energies(model: SheafEmbedding, queries: list[Query], options: Options, rows: int) -> None:
    for start in range(0, len(queries), rows):
        values = scores(model, queries[start : start + rows], options, chances=False)[0]
        top(values, 10)


def harmonic(name: str) -> None:
    model = make_model(name, DIM)
    before = peak_gib()
    options = Options(solver="harmonic", lift="free")
    probe, table = torch.randn(QUERIES, DIM), torch.randn(ENTITIES, DIM)
    product = seconds(lambda: probe @ table.T)
    print(f"{name}, d = {DIM}: bare product of {QUERIES} queries {product:.2f} s")
    for kind, shape in SHAPES.items():
        queries = make_queries(shape, QUERIES)
        spent = seconds(lambda queries=queries: energies(model, queries, options, 250))  # type: ignore[misc]
        print(f"  harmonic {kind}: {spent:6.2f} s, {spent / product:5.2f} × (goal: at most 2.5)")
    single = torch.randn(1, DIM)
    vector = seconds(lambda: single @ table.T, 50)
    for kind in ("1p", "2p"):
        (query,) = make_queries(SHAPES[kind], 1)
        spent = seconds(lambda query=query: energies(model, [query], options, 1), 50)  # type: ignore[misc]
        print(
            f"  one {kind} query: p50 {1e3 * spent:.1f} ms, {spent / vector:.2f} × one "
            f"matrix-vector product (goal: at most 2.5)"
        )
    print(f"  memory beyond the model: {peak_gib() - before:.2f} GiB (goal: under 1)")


def chaining(name: str, k: int = 64, count: int = 32) -> None:
    model = make_model(name, DIM)
    queries = make_queries(SHAPES["2p"], count)
    rows = torch.randn(count * (k + 1), DIM)
    table = torch.randn(ENTITIES, DIM)

    def product() -> None:
        for part in rows.split(256):
            part @ table.T

    bare = seconds(product)
    options = Options(solver="chaining", k=k, tau=1.0)
    spent = seconds(lambda: energies(model, queries, options, count))
    print(
        f"chaining 2p, {name}, k = {k}, {count} queries: {spent:.2f} s, {spent / bare:.2f} × the "
        f"product over its rows (goal: at most 1.6)"
    )


def published_method(model: SheafEmbedding, query: Query) -> torch.Tensor:
    """The Laplacian of one query, its Schur complement on source and target, and every entity."""
    (edge_1, edge_2) = query.patterns[0].edges
    dim = model.config.dim
    delta = torch.zeros(2 * dim, 3 * dim)
    z = torch.zeros(2 * dim)
    for row, edge in enumerate((edge_1, edge_2)):
        at = slice(row * dim, (row + 1) * dim)
        delta[at, row * dim : (row + 1) * dim] = -model.maps.map("head", edge.relation).dense()
        delta[at, (row + 1) * dim : (row + 2) * dim] = model.maps.map("tail", edge.relation).dense()
        if model.translations is not None:
            z[at] = model.translations[edge.relation]
    laplacian = delta.T @ delta
    inner, outer = slice(dim, 2 * dim), [*range(dim), *range(2 * dim, 3 * dim)]
    inverse = torch.linalg.pinv(laplacian[inner, inner])
    schur = laplacian[outer][:, outer] - laplacian[outer, inner] @ inverse @ laplacian[inner, outer]
    slope = -(delta.T @ z)
    slope = slope[outer] - laplacian[outer, inner] @ inverse @ slope[inner]
    source = model.entities.vector(int(edge_1.head)).expand(ENTITIES, dim)
    ends = torch.cat([source, model.entities.tables[0]], 1)
    return ((ends @ schur) * ends).sum(1) + 2 * ends @ slope


def against_the_published_method(name: str, goal: int) -> None:
    model = make_model(name, 32)
    queries = make_queries(SHAPES["2p"], QUERIES)
    options = Options(solver="harmonic")
    ours = seconds(lambda: energies(model, queries, options, 250)) / QUERIES
    theirs = seconds(lambda: published_method(model, queries[0]))
    found = scores(model, queries[:1], options)[0][0]
    gap = found - published_method(model, queries[0])
    assert float(gap.std()) < 1e-2 * float(found.std()), "both rank by the same energy"
    print(
        f"2p, {name}, d = 32: ours {1e3 * ours:.2f} ms a query, transcription {1e3 * theirs:.0f} "
        f"ms, {theirs / ours:.0f} × (goal: at least {goal})"
    )


def main() -> None:
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    print(f"{ENTITIES:,} entities, {torch.get_num_threads()} threads")
    for name in ("complex", "rotate"):
        harmonic(name)
        chaining(name)
    against_the_published_method("se", 150)
    against_the_published_method("transe", 1000)


if __name__ == "__main__":
    main()

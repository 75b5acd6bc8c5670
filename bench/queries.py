"""How fast queries are answered, against the matrix product that any ranking needs.

A model of NELL's size (63,361 entities, 200 relations) with random weights: from `Query` objects to
the ids of the ten best answers. Then, at d = 32, against a direct transcription of the method as it
is published: one Schur complement per query, and a quadratic form evaluated at every entity, once
as the formulas stand and once with one matrix product for all entities.

Run with ``make bench`` or ``python bench/queries.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from _measure import peak_gib, seconds

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.graph import KnowledgeGraph, Schema
from knowledge_sheaves.query import Options, Query, scores
from knowledge_sheaves.query.answers import top
from knowledge_sheaves.query.pattern import Edge, Pattern
from knowledge_sheaves.sheaf import BlockMap

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
    options = Options(solver="harmonic")
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


def schur_complements(
    model: SheafEmbedding, queries: list[Query]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """S = L / L_UU, slope and constant over (source, target) of paths of two edges, by pinv."""
    relations = torch.tensor([[e.relation for e in q.patterns[0].edges] for q in queries])
    dim = model.config.dim
    delta = torch.zeros(len(queries), 2 * dim, 3 * dim)
    b = torch.zeros(len(queries), 2 * dim, 1)
    for place, edges in enumerate(relations.T):
        row, head, tail = (slice(n * dim, (n + 1) * dim) for n in (place, place, place + 1))
        delta[:, row, head] = -BlockMap(model.maps.blocks("head", edges)).dense()
        delta[:, row, tail] = BlockMap(model.maps.blocks("tail", edges)).dense()
        if model.translations is not None:
            b[:, row, 0] = model.translations[edges]
    laplacian, slope = delta.mT @ delta, -delta.mT @ b
    inner = slice(dim, 2 * dim)
    outer = torch.tensor([*range(dim), *range(2 * dim, 3 * dim)])
    inverse = torch.linalg.pinv(laplacian[:, inner, inner])
    gain = laplacian[:, outer, inner] @ inverse
    schur = laplacian[:, outer][:, :, outer] - gain @ laplacian[:, inner, outer]
    least = slope[:, inner].mT @ inverse @ slope[:, inner]
    return schur, slope[:, outer] - gain @ slope[:, inner], b.mT @ b - least


def published_method(model: SheafEmbedding, queries: list[Query], rows: int = 2) -> torch.Tensor:
    """y_Bᵀ (L / L_UU) y_B for every entity, as it is written: (queries, entities).

    ``rows`` queries at a time, two so that memory holds: broadcasting makes a copy of the Schur
    complement for every entity, 1 GB a query. For one query alone torch gets by without copies.
    """
    found = []
    for start in range(0, len(queries), rows):
        part = queries[start : start + rows]
        schur, slope, constant = schur_complements(model, part)
        shape = (len(part), ENTITIES, -1)
        source = model.entities.lookup(sources(part)).flatten(1).unsqueeze(1).expand(shape)
        target = model.entities.tables[0].expand(shape)
        y = torch.cat([source, target], -1).unsqueeze(-1)  # queries, entities, 2d, 1
        energy = y.mT @ schur.unsqueeze(1) @ y + 2 * slope.unsqueeze(1).mT @ y
        found.append(energy.flatten(1) + constant.flatten(1))
    return torch.cat(found)


def published_method_at_once(model: SheafEmbedding, queries: list[Query]) -> torch.Tensor:
    """The same, with the product over all entities done at once."""
    found = []
    for query in queries:
        schur, slope, constant = (part[0] for part in schur_complements(model, [query]))
        source = model.entities.lookup(sources([query])).flatten(1).expand(ENTITIES, -1)
        y = torch.cat([source, model.entities.tables[0]], 1)
        found.append(((y @ schur) * y).sum(1) + 2 * (y @ slope).squeeze(1) + constant.squeeze())
    return torch.stack(found)


def sources(queries: list[Query]) -> torch.Tensor:
    return torch.tensor([query.patterns[0].constants[0][0] for query in queries])


def against_the_published_method(name: str, goal: int) -> None:
    model = make_model(name, 32)
    few = make_queries(SHAPES["2p"], 2)
    options = Options(solver="harmonic")
    found, _ = scores(model, few, options, chances=False)
    for transcription in (published_method, published_method_at_once):
        gap = (found - transcription(model, few)).abs().max()
        assert float(gap) < 1e-3 * float(found.std()), "all rank by the same energy"
    # New queries in every run, and so few at a time that their energies stay in the cache.
    fresh = iter([make_queries(SHAPES["2p"], QUERIES, seed) for seed in range(4)])
    ours = seconds(lambda: energies(model, next(fresh), options, 32)) / QUERIES
    print(f"2p, {name}, d = 32: ours {1e3 * ours:.2f} ms a query")
    methods: dict[str, Callable[[], object]] = {
        f"the published method as written (goal: at least {goal:,} ×)": lambda: published_method(
            model, few
        ),
        "the same, one query at a time": lambda: published_method(model, few, rows=1),
        "the same, all entities in one product": lambda: published_method_at_once(model, few),
    }
    for what, method in methods.items():
        spent = seconds(method) / len(few)
        print(f"  {what}: {1e3 * spent:.0f} ms, {spent / ours:,.0f} ×")


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

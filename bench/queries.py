"""How fast queries are answered, against the matrix product that any ranking needs.

A model of NELL's size (63,361 entities, 200 relations) with random weights: from `Query` objects to
the ids of the ten best answers. Then, at d = 32, against a direct transcription of the method as it
is published: one Schur complement per query, and a quadratic form evaluated at every entity, once
as the formulas stand and once with one matrix product for all entities. What is compared runs in
turns, best of several each: what else a machine does meets all alike.

Run with ``make bench`` or ``python bench/queries.py``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import torch
from _measure import interleaved, peak_gib

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.embedding.search.top import top
from knowledge_sheaves.graph import EntityType, KnowledgeGraph, Relation, Schema
from knowledge_sheaves.query import Options, Query, scores
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


def make_model(name: str, dim: int, types: int = 1) -> SheafEmbedding:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, [ENTITIES, RELATIONS, ENTITIES], size=(100_000, 3))
    names = [f"r{i}" for i in range(RELATIONS)]
    if types == 1:
        schema = Schema.single(names)
        graph = KnowledgeGraph.from_arrays(*rows.T, schema=schema, num_entities=ENTITIES)
    else:
        kinds = np.arange(ENTITIES) % types
        relations = [Relation(name, f"t{h}", f"t{h}") for name in names for h in range(types)]
        schema = Schema([EntityType(f"t{h}") for h in range(types)], relations)
        heads, tails = rows[:, 0], rows[:, 2] - rows[:, 2] % types + rows[:, 0] % types
        kept = tails < ENTITIES
        edges = rows[:, 1] * types + kinds[heads]
        columns = (column[kept] for column in (heads, edges, tails))
        graph = KnowledgeGraph.from_arrays(*columns, schema=schema, entity_types=kinds)
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
    jobs: dict[str, Callable[[], object]] = {"product": lambda: probe @ table.T}
    for kind, shape in SHAPES.items():
        queries = make_queries(shape, QUERIES)
        jobs[kind] = lambda queries=queries: energies(model, queries, options, 250)  # type: ignore[misc]
    prior, fresh = Options("harmonic", strength=0.03), itertools.count(1)
    jobs["with a prior"] = lambda: energies(
        model, make_queries(SHAPES["2p"], QUERIES, next(fresh)), prior, 250
    )
    best = interleaved(jobs, rounds=3)
    print(f"{name}, d = {DIM}: bare product of {QUERIES} queries {best['product']:.2f} s")
    for kind in SHAPES:
        ratio = best[kind] / best["product"]
        print(f"  harmonic {kind}: {best[kind]:6.2f} s, {ratio:5.2f} × (goal: at most 2.5)")
    spent, ratio = best["with a prior"], best["with a prior"] / best["2p"]
    print(f"  other 2p with a prior: {spent:6.2f} s, {ratio:5.2f} × 2p (goal: at most 1.3)")
    print(f"  memory beyond the model: {peak_gib() - before:.2f} GiB (goal: under 1)")


def one_query(name: str) -> None:
    """One query at a time: against one matrix-vector product, with a prior, and with types.

    What a form has that is quadratic comes from relations, and is kept from the second time on; so
    a prior is measured with relations that were asked for before, and with new ones.
    """
    model, typed = make_model(name, DIM), make_model(name, DIM, types=20)
    single, table = torch.randn(1, DIM), torch.randn(ENTITIES, DIM)
    plain, prior = Options("harmonic", strength=0.0), Options("harmonic", strength=0.03)
    chained = Options("chaining", tau=1.0)
    one, two = (make_queries(SHAPES[kind], 1) for kind in ("1p", "2p"))
    new = iter(make_queries(SHAPES["2p"], 10 * RELATIONS, seed=1))
    last = {two[0].patterns[0].edges[-1].relation}

    def another() -> list[Query]:
        query = next(q for q in new if q.patterns[0].edges[-1].relation not in last)
        last.add(query.patterns[0].edges[-1].relation)
        return [query]

    jobs: dict[str, Callable[[], object]] = {
        "product": lambda: single @ table.T,
        "1p": lambda: energies(model, one, plain, 1),
        "2p": lambda: energies(model, two, plain, 1),
        "2p with a prior": lambda: energies(model, two, prior, 1),
        "2p with a prior, new relations": lambda: energies(model, another(), prior, 1),
        "1p of a typed graph": lambda: energies(typed, one, plain, 1),
        "1p by chaining": lambda: energies(model, one, chained, 1),
        "1p by chaining, typed": lambda: energies(typed, one, chained, 1),
    }
    best = interleaved(jobs, rounds=30)
    print(
        f"{name}, one query at a time; a matrix-vector product takes {1e3 * best['product']:.1f} ms"
    )
    for kind, yardstick, goal in (
        ("1p", "product", 2.5),
        ("2p", "product", 2.5),
        ("2p with a prior", "2p", 1.3),
        ("2p with a prior, new relations", "2p", None),
        ("1p of a typed graph", "1p", 1.5),
        ("1p by chaining, typed", "1p by chaining", 1.5),
    ):
        ratio = best[kind] / best[yardstick]
        wanted = f" (goal: at most {goal})" if goal else ""
        print(f"  {kind}: {1e3 * best[kind]:.1f} ms, {ratio:.2f} × {yardstick}{wanted}")


def chaining(name: str, k: int = 64, count: int = 32) -> None:
    model = make_model(name, DIM)
    queries = make_queries(SHAPES["2p"], count)
    rows = torch.randn(count * (k + 1), DIM)
    table = torch.randn(ENTITIES, DIM)

    def product() -> None:
        for part in rows.split(256):
            part @ table.T

    options = Options(solver="chaining", k=k, tau=1.0)
    best = interleaved(
        {"product": product, "chaining": lambda: energies(model, queries, options, count)}, rounds=3
    )
    ratio = best["chaining"] / best["product"]
    print(
        f"chaining 2p, {name}, k = {k}, {count} queries: {best['chaining']:.2f} s, {ratio:.2f} × "
        f"the product over its rows (goal: at most 1.6)"
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
    fresh = itertools.count()
    methods: dict[str, Callable[[], object]] = {
        "ours": lambda: energies(
            model, make_queries(SHAPES["2p"], QUERIES, next(fresh)), options, 32
        ),
        f"the published method as written (goal: at least {goal:,} ×)": lambda: published_method(
            model, few
        ),
        "the same, one query at a time": lambda: published_method(model, few, rows=1),
        "the same, all entities in one product": lambda: published_method_at_once(model, few),
    }
    best = interleaved(methods, rounds=3)
    ours = best.pop("ours") / QUERIES
    print(f"2p, {name}, d = 32: ours {1e3 * ours:.2f} ms a query")
    for what, spent in best.items():
        each = spent / len(few)
        print(f"  {what}: {1e3 * each:.0f} ms, {each / ours:,.0f} ×")


def main() -> None:
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    print(f"{ENTITIES:,} entities, {torch.get_num_threads()} threads")
    for name in ("complex", "rotate"):
        harmonic(name)
        one_query(name)
        chaining(name)
    against_the_published_method("se", 150)
    against_the_published_method("transe", 1000)


if __name__ == "__main__":
    main()

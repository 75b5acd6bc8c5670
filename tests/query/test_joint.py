"""Several targets ranked jointly, against all combinations by brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph, Schema
from knowledge_sheaves.query import Options, Query, Wanted, answer
from knowledge_sheaves.query.pattern import Edge, Pattern
from knowledge_sheaves.query.solvers.harmonic import joint
from knowledge_sheaves.query.solvers.harmonic.forms import Springs
from knowledge_sheaves.query.solvers.harmonic.graph import QueryGraph

ENTITIES = 9
HARMONIC = Options(solver="harmonic")
CHAIN = Pattern((Edge(0, 0, "?a"), Edge("?a", 1, "?y"), Edge("?y", 2, "?b")))
TRIANGLE = Pattern(
    (Edge(1, 0, "?a"), Edge("?a", 1, "?b"), Edge("?b", 2, "?y"), Edge("?y", 0, "?a"))
)


def make(name: str) -> SheafEmbedding:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, [ENTITIES, 3, ENTITIES], size=(30, 3))
    schema = Schema.single(["r0", "r1", "r2"])
    graph = KnowledgeGraph.from_arrays(*rows.T, schema=schema, num_entities=ENTITIES)
    config = model_config(name, dim=4, reciprocal=False, init=0.8)
    model = SheafEmbedding(config, graph, seed=1).double().requires_grad_(False)
    if model.biases is not None:
        model.biases.copy_(torch.from_numpy(rng.normal(size=(ENTITIES, 1))))
    return model


def favour(model: SheafEmbedding, pattern: Pattern, target: str, entity: int) -> float:
    """An entity's bias, once for every edge that the target is an end of."""
    ends = [term for edge in pattern.edges for term in (edge.head, edge.tail)]
    return 0.0 if model.biases is None else ends.count(target) * float(model.biases[entity, 0])


@pytest.mark.parametrize("pattern", [CHAIN, TRIANGLE])
@pytest.mark.parametrize("name", ["transe", "rotate", "se", "pairre", "rote"])
def test_combinations_are_the_best_of_all(name: str, pattern: Pattern) -> None:
    model = make(name)
    query = Query(("?a", "?b"), (pattern,))
    (found,) = answer(model, query, HARMONIC, Wanted(top=12))
    assert found.solver == "harmonic"
    batch = QueryGraph.of(model, [pattern], [tuple(e.relation for e in pattern.edges)], "?b")
    a, b = batch.vertex("?a"), batch.vertex("?b")
    form = Springs(model).reduce(batch, (a, b))
    energies = {
        (i, j): float(
            form(
                {
                    a: model.entities.vector(i)[None, :, None],
                    b: model.entities.vector(j)[None, :, None],
                }
            )
        )
        - favour(model, pattern, "?a", i)
        - favour(model, pattern, "?b", j)
        for i, j in itertools.product(range(ENTITIES), repeat=2)
    }
    best = sorted(energies.values())[:12]
    assert found.energies.tolist() == pytest.approx(best, abs=1e-9)
    for pair, energy in zip(found.ids.tolist(), found.energies.tolist(), strict=True):
        assert energies[tuple(pair)] == pytest.approx(energy, abs=1e-9)
    assert "No combination was missed" in found.notes[-1]


def test_a_cut_says_whether_it_could_have_missed_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make("rotate")
    query = Query(("?a", "?b"), (CHAIN,))
    (whole,) = answer(model, query, HARMONIC, Wanted(top=1))
    monkeypatch.setattr(joint, "COMBINATIONS", 4)
    (cut,) = answer(model, query, HARMONIC, Wanted(top=4))
    assert "cut to the best" in cut.notes[-1]
    monkeypatch.setattr(joint, "COMBINATIONS", 64)
    (enough,) = answer(model, query, HARMONIC, Wanted(top=1))
    assert torch.equal(enough.ids, whole.ids)


def test_a_cut_is_exact_with_biases_too_where_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make("rote")
    assert model.biases is not None
    generator = torch.Generator().manual_seed(0)
    claims = 0
    for _ in range(40):
        model.biases.normal_(0, 3, generator=generator)
        query = Query(("?a", "?b"), (CHAIN,))
        monkeypatch.setattr(joint, "COMBINATIONS", 1_000_000)
        (whole,) = answer(model, query, HARMONIC, Wanted(top=3))
        monkeypatch.setattr(joint, "COMBINATIONS", 25)
        (cut,) = answer(model, query, HARMONIC, Wanted(top=3))
        if "No combination was missed" in cut.notes[-1]:
            claims += 1
            assert torch.equal(cut.ids, whole.ids)
    assert claims


def test_lifted_models_rank_jointly_too_and_say_that_they_cut() -> None:
    model = make("complex")
    (found,) = answer(model, Query(("?a", "?b"), (CHAIN,)), HARMONIC, Wanted(top=5))
    assert found.ids.shape == (5, 2)
    assert (found.energies.diff() >= 0).all()
    assert "cut" in found.notes[-1]


def test_known_combinations_are_marked() -> None:
    model = make("transe")
    pattern = Pattern((Edge("?a", 0, "?b"),))
    (found,) = answer(model, Query(("?a", "?b"), (pattern,)), HARMONIC, Wanted(top=100))
    facts = {(h, t) for h, r, t in model.graph.triples.tolist() if r == 0}
    marked = {tuple(row) for row, k in zip(found.ids.tolist(), found.known, strict=True) if k}
    assert marked == facts


def test_what_is_not_ranked_jointly_is_refused() -> None:
    model = make("transe")
    negated = Pattern(CHAIN.edges, (Pattern((Edge(2, 1, "?b"),)),))
    apart = Pattern(CHAIN.edges, different=(("?a", "?b"),))
    for pattern in (negated, apart):
        with pytest.raises(InputError, match=r"jointly .* use the solver chaining"):
            answer(model, Query(("?a", "?b"), (pattern,)), HARMONIC)


def test_filters_hold_for_every_target() -> None:
    model = make("transe")
    query = Query(("?a", "?b"), (Pattern((Edge("?a", 0, "?b"),)),))
    facts = {(h, t) for h, r, t in model.graph.triples.tolist() if r == 0}
    pairs = {(a, b) for a in (1, 2, 4) for b in (1, 2, 4)}
    for solver in ("harmonic", "chaining"):
        wanted = Wanted(top=100, allow=frozenset({1, 2, 3, 4}), deny=frozenset({3}))
        (found,) = answer(model, query, Options(solver, tau=1.0), wanted)
        assert {tuple(row) for row in found.ids.tolist()} == pairs
        (new,) = answer(model, query, Options(solver, tau=1.0), Wanted(top=5, only_new=True))
        assert len(new) == 5
        assert facts.isdisjoint(map(tuple, new.ids.tolist()))

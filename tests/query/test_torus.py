"""Harmonic answers on the torus, against least squares for every way of winding around it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph, Schema
from knowledge_sheaves.query import Options, Query, Wanted, answer
from knowledge_sheaves.query.budget import Budget
from knowledge_sheaves.query.pattern import Edge, Pattern
from knowledge_sheaves.query.solvers.harmonic import torus
from knowledge_sheaves.query.solvers.harmonic.graph import QueryGraph
from query_cases import explain, target_energies

ENTITIES = 6
CHAIN = (Edge(0, 0, "?a"), Edge("?a", 1, "?b"), Edge("?b", 2, "?x"))


def make(reciprocal: bool = False, biases: bool | str = False) -> SheafEmbedding:
    schema = Schema.single([f"r{i}" for i in range(3)])
    rows = np.array([(0, 0, 1), (1, 1, 2), (2, 2, 3), (4, 0, 5)])
    graph = KnowledgeGraph.from_arrays(*rows.T, schema=schema, num_entities=ENTITIES)
    config = model_config("toruse", dim=3, reciprocal=reciprocal, biases=biases)
    model = SheafEmbedding(config, graph, seed=1).double().requires_grad_(False)
    if model.biases is not None:
        model.biases.normal_(generator=torch.Generator().manual_seed(2))
    return model


@st.composite
def patterns(draw: st.DrawFn) -> Pattern:
    """Up to five edges between up to three variables and entities, loops and cycles included."""
    names = ["?x", "?u", "?v"][: draw(st.integers(1, 3))]
    relation, entity = st.integers(0, 2), st.integers(0, ENTITIES - 1)
    pairs: list[tuple[object, object]] = [
        (names[i], draw(st.sampled_from(names[:i]))) for i in range(1, len(names))
    ]
    for _ in range(draw(st.integers(1, 5 - len(pairs)))):
        pairs.append(
            (draw(st.sampled_from(names)), draw(st.one_of(st.sampled_from(names), entity)))
        )
    if not any("?x" in pair for pair in pairs):
        pairs.append(("?x", draw(entity)))
    edges = [(*draw(st.permutations(pair)), draw(relation)) for pair in pairs]
    return Pattern(tuple(Edge(head, r, tail) for head, tail, r in edges))


def batch_of(model: SheafEmbedding, pattern: Pattern) -> QueryGraph:
    return QueryGraph.of(model, [pattern], [[e.relation for e in pattern.edges]], "?x")


def by_windings(model: SheafEmbedding, batch: QueryGraph) -> torch.Tensor:
    """min over whole numbers m of the least squares ‖δy + b + m‖², coordinate by coordinate."""
    slots, goal = batch.entities.shape[1], batch.vertex("?x")
    ends = list(zip(batch.graph.heads.tolist(), batch.graph.tails.tolist(), strict=True))
    delta = np.zeros((len(ends), len(batch.types)))
    for row, (head, tail) in enumerate(ends):
        delta[row, head] += 1
        delta[row, tail] -= 1
    known = [*range(slots), goal]
    free = np.delete(delta, known, axis=1)
    left = np.eye(len(ends)) - free @ np.linalg.pinv(free)
    windings = np.array(list(itertools.product((-2, -1, 0, 1, 2), repeat=len(ends))))
    z = model.translation(batch.edges[0])
    x = np.array([model.entities.vector(e).numpy() for e in batch.entities[0]])
    found = []
    for entity in range(ENTITIES):
        points = np.vstack(
            [x.reshape(slots, model.config.dim), model.entities.vector(entity).numpy()]
        )
        b = delta[:, known] @ points + z.flatten(1).numpy()
        b -= np.rint(b)
        costs = ((windings[:, :, None] + b).swapaxes(1, 2) @ left.T) ** 2
        found.append(costs.sum(-1).min(0).sum())
    return torch.tensor(np.array(found))


@given(patterns(), st.booleans())
@settings(max_examples=60)
def test_no_winding_has_less_energy(pattern: Pattern, reciprocal: bool) -> None:
    model = make(reciprocal)
    batch = batch_of(model, pattern)
    found = target_energies(model, batch, "?x")[0]
    torch.testing.assert_close(found, by_windings(model, batch), atol=1e-9, rtol=0)


def test_without_unknowns_it_is_the_energy_of_the_fact() -> None:
    model = make()
    found = target_energies(model, batch_of(model, Pattern((Edge(3, 1, "?x"),))), "?x")[0]
    expected = model.energies([(3, 1, x) for x in range(ENTITIES)])
    torch.testing.assert_close(found, expected)


def test_a_path_shares_its_distance_among_its_edges() -> None:
    model = make()
    found = target_energies(model, batch_of(model, Pattern(CHAIN)), "?x")[0]
    x = torch.stack([model.entities.vector(e) for e in range(ENTITIES)])
    end = x[0] + model.translation(torch.arange(3)).flatten(1).sum(0)
    expected = torus.torus_difference(end, x).square().sum(1) / 3
    torch.testing.assert_close(found, expected)


def test_descent_stands_in_where_the_valleys_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make()
    star = (*(Edge(e, e % 3, "?a") for e in range(5)), Edge("?a", 1, "?x"))
    batch = batch_of(model, Pattern(star))
    least = target_energies(model, batch, "?x")[0]
    monkeypatch.setattr(torus, "MOST_VALLEYS", 1)
    monkeypatch.setattr(torus, "STEPS", 0)
    start = target_energies(model, batch, "?x")[0]
    monkeypatch.setattr(torus, "STEPS", 8)
    lower = target_energies(model, batch, "?x")[0]
    assert (least <= lower + 1e-9).all()
    assert (lower <= start + 1e-9).all()
    assert (lower < start - 1e-3).any()


def test_memory_is_no_ones_business() -> None:
    model = make()
    shape = [[e.relation for e in CHAIN]] * 4
    many = [Pattern((Edge(e, 0, "?a"), *CHAIN[1:])) for e in range(4)]
    batch = QueryGraph.of(model, many, shape, "?x")
    whole = target_energies(model, batch, "?x")
    parts = target_energies(model, batch, "?x", budget=Budget(memory=1_000))
    torch.testing.assert_close(whole, parts)
    with pytest.raises(InputError, match="memory limit"):
        target_energies(model, batch, "?x", budget=Budget(memory=100))


@pytest.mark.parametrize("biases", [False, True, "by-end"])
def test_answers_and_their_reasons(biases: bool | str) -> None:
    model, options = make(biases=biases), Options("harmonic", tau=1.0)
    (found,) = answer(model, Query(("?x",), (Pattern(CHAIN),)), options, Wanted(top=ENTITIES))
    for place in range(ENTITIES):
        explanation = explain(model, found, place, options)
        assert explanation.energy == pytest.approx(float(found.energies[place]), abs=1e-9)
        best = [each.best.energy for each in explanation.witnesses]
        assert all(energy >= explanation.energy - 1e-9 for energy in best)
    union = Query(("?x",), (Pattern(CHAIN), Pattern((Edge(1, 1, "?x"),))))
    (either,) = answer(model, union, options)
    assert len(either) == ENTITIES
    with pytest.raises(InputError, match="ask for one target, or use the solver chaining"):
        answer(model, Query(("?b", "?x"), (Pattern(CHAIN),)), options)

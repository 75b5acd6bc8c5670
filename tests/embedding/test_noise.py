"""A relation's noise is what was put into it, and its weight moves unknowns as it should."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.embedding.noise import relation_noise, relation_weights
from knowledge_sheaves.embedding.storage import ModelInfo
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph, Multigraph, Schema
from knowledge_sheaves.sheaf import CellularSheaf, energy_form

SIGMAS = (0.05, 0.5, 2.0)
DIM = 8


def planted(reciprocal: bool = False) -> SheafEmbedding:
    """TransE on pairs of entities: the tail is the head plus z plus the relation's noise."""
    torch.manual_seed(0)
    pairs = 400
    rows = np.array([(2 * i, i % 3, 2 * i + 1) for i in range(3 * pairs)])
    graph = KnowledgeGraph.from_arrays(*rows.T, schema=Schema.single(["exact", "fair", "rough"]))
    model = SheafEmbedding(model_config("transe", dim=DIM, reciprocal=reciprocal), graph)
    with torch.no_grad():
        z = model.translations[:3].reshape(3, DIM)
        table = model.entities.tables[0]
        place = model.entities.row_of
        for head, relation, tail in rows.tolist():
            noise = SIGMAS[relation] * torch.randn(DIM)
            table[place[tail]] = table[place[head]] + z[relation] + noise
        if reciprocal:
            model.translations[3:] = -model.translations[:3]
    return model


@pytest.mark.parametrize("reciprocal", [True, False])
def test_the_noise_is_what_was_planted(reciprocal: bool) -> None:
    model = planted(reciprocal)
    found = relation_noise(model, shrink=0).sqrt()
    wanted = torch.tensor(SIGMAS * (1 + reciprocal))
    torch.testing.assert_close(found, wanted, rtol=0.05, atol=0)
    weights = relation_weights(model, shrink=0)
    torch.testing.assert_close(
        weights[0] / weights[2], (wanted[2] / wanted[0]) ** 2, rtol=0.1, atol=0
    )
    assert float(weights.log().mean()) == pytest.approx(0.0, abs=1e-5)


def test_relations_without_facts_held_out_are_judged_by_those_of_training() -> None:
    """Twice the noise on what is held out, and nothing of the rough relation among it."""
    model = planted()
    torch.testing.assert_close(
        relation_noise(model, shrink=0), relation_noise(model, model.graph, 0)
    )
    held_out = []
    for head, relation, tail in model.graph.triples[:600].tolist():
        if relation < 2:
            held_out.append((head, relation, tail))
            with torch.no_grad():
                row = model.entities.row_of[tail]
                table = model.entities.tables[0]
                moved = table[model.entities.row_of[head]] + model.translations[relation]
                table[row] = moved + 2 * SIGMAS[relation] * torch.randn(DIM)
    model.info = ModelInfo(held_out={"valid": np.array(held_out)})
    model.graph = model.graph.with_triples(model.graph.triples[600:])
    found = relation_noise(model, shrink=0).sqrt()
    torch.testing.assert_close(found, 2 * torch.tensor(SIGMAS), rtol=0.1, atol=0)
    model.info = ModelInfo(held_out={"valid": np.zeros((0, 3), np.int64)})
    known = relation_noise(model, shrink=0).sqrt()
    torch.testing.assert_close(known, torch.tensor(SIGMAS), rtol=0.1, atol=0)


def test_few_facts_are_drawn_towards_all() -> None:
    model = planted()
    few = model.graph.with_triples(model.graph.decode(model.graph.triples[:3]))
    alone, drawn = relation_noise(model, few, shrink=0), relation_noise(model, few, shrink=10)
    overall = alone.log().mean()
    assert ((drawn.log() - overall).abs() < (alone.log() - overall).abs() / 5).all()
    nobody = model.graph.with_triples(model.graph.decode(model.graph.triples[1:2]))
    relations = relation_noise(model, nobody)  # of the other relations nothing is known
    assert relations.isfinite().all()


def test_weighted_extension_is_the_posterior_mean_of_the_planted_model() -> None:
    """An unknown that an exact and a rough relation lead to: the exact one counts more."""
    model = planted()
    weights = relation_weights(model)
    meet = Multigraph.from_edges(3, [(0, 2), (1, 2)])
    eye = torch.eye(DIM)
    sheaf = CellularSheaf.from_maps(meet, [DIM] * 3, [eye, eye], [eye, eye])
    known = {0: torch.zeros(DIM), 1: torch.ones(DIM)}
    form = energy_form(sheaf, weights=weights[torch.tensor([0, 2])]).fix(known)
    exact, rough = (1 / s**2 for s in (SIGMAS[0], SIGMAS[2]))
    expected = torch.full((DIM,), rough / (exact + rough))
    torch.testing.assert_close(form.minimiser()[2][:, 0], expected, rtol=0.3, atol=0)


def test_a_lifted_relation_has_a_temperature_instead() -> None:
    """DistMult in which one relation finds its tails and another one has them at random."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    rows = np.array([(i, 0, i) for i in range(60)] + [(i, 1, rng.integers(60)) for i in range(60)])
    graph = KnowledgeGraph.from_arrays(*rows.T, schema=Schema.single(["self", "any"]))
    config = model_config("distmult", dim=32, reciprocal=False)
    model = SheafEmbedding(config, graph)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))
        model.maps.parameters_of[0].abs_()
    model.refresh()
    found = relation_noise(model, shrink=0)
    assert found[1] > 20 * found[0]
    scores = model.score_tails(torch.arange(60), torch.zeros(60, dtype=torch.long))

    def surprise(tau: float) -> float:
        return float(-torch.log_softmax(-scores / tau, 1).diagonal().mean())

    best = surprise(float(found[0]))
    assert all(best <= surprise(float(found[0]) * factor) + 1e-6 for factor in (0.8, 1.25))


def test_noise_needs_facts() -> None:
    empty = KnowledgeGraph.from_arrays([], [], [], schema=Schema.single(["r"]), entity_types=[0])
    with pytest.raises(InputError, match="there are none"):
        relation_noise(SheafEmbedding(model_config("transe", dim=2), empty))

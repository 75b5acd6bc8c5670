"""Losses and regularisers against their formulas, computed over all triples by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from knowledge_sheaves.embedding import CATALOGUE, SheafEmbedding, model_config
from knowledge_sheaves.graph import KnowledgeGraph, Schema
from knowledge_sheaves.training import TrainingConfig
from knowledge_sheaves.training.batches import Batch, Batches
from knowledge_sheaves.training.objective import Objective


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, [12, 3, 12], size=(40, 3))
    return KnowledgeGraph.from_arrays(*rows.T, schema=Schema.single(["r0", "r1", "r2"]))


def setup(
    graph: KnowledgeGraph, name: str = "rotate", **options: object
) -> tuple[SheafEmbedding, Objective, Batch]:
    block = CATALOGUE[name].block
    dim = 6 if block is None else (2 * block if block > 2 else 6)
    model = SheafEmbedding(model_config(name, dim=dim, init=0.5), graph, seed=3)
    config = TrainingConfig.from_dict({"batch_size": 8, "negatives": None, **options})
    batch = next(iter(Batches(model, graph, config).epoch(0)))
    return model, Objective(model, graph, config), batch


def all_scores(model: SheafEmbedding, batch: Batch) -> torch.Tensor:
    """Scores of every entity as the tail, from the definition."""
    heads, edges, _ = batch.triples.unbind(1)
    triples = torch.stack(
        [
            torch.stack([heads, edges, torch.full_like(heads, t)], 1)
            for t in range(model.graph.num_entities)
        ],
        1,
    )
    return model.scores(triples.reshape(-1, 3)).reshape(len(heads), -1)


@pytest.mark.parametrize("name", CATALOGUE)
def test_softmax_and_its_gradient_follow_the_definition(graph: KnowledgeGraph, name: str) -> None:
    model, objective, batch = setup(graph, name)
    sharpness = 0.5 if model.config.lifted else 1.0
    expected = F.cross_entropy(-sharpness * all_scores(model, batch), batch.triples[:, 2])
    expected.backward()
    gradients = [None if p.grad is None else p.grad.to_dense() for p in model.parameters()]
    model.zero_grad()
    loss = objective(batch)
    loss.backward()
    torch.testing.assert_close(loss, expected, atol=1e-5, rtol=1e-4)
    for parameter, wanted in zip(model.parameters(), gradients, strict=True):
        if wanted is not None and wanted.numel():
            assert parameter.grad is not None
            found = parameter.grad.to_dense()
            torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-3)


def test_shared_negatives_are_the_candidates(graph: KnowledgeGraph) -> None:
    model, objective, batch = setup(graph, negatives=4)
    candidates = torch.cat([batch.triples[:, 2], batch.negatives]).unique()
    target = torch.searchsorted(candidates, batch.triples[:, 2].contiguous())
    expected = F.cross_entropy(-all_scores(model, batch)[:, candidates], target)
    torch.testing.assert_close(objective(batch), expected, atol=1e-5, rtol=1e-4)


def test_known_answers_are_no_negatives_on_request(graph: KnowledgeGraph) -> None:
    model, objective, batch = setup(graph, filter_negatives=True)
    logits = -all_scores(model, batch).detach()
    for row, (h, e, t) in enumerate(batch.triples.tolist()):
        known = graph.tails(h, e) if e < 3 else graph.heads(e - 3, h)
        for other in known:
            if other != t:
                logits[row, other] = -torch.inf
    expected = F.cross_entropy(logits, batch.triples[:, 2])
    torch.testing.assert_close(objective(batch), expected, atol=1e-5, rtol=1e-4)


def test_self_adversarial_logistic_loss(graph: KnowledgeGraph) -> None:
    model, objective, batch = setup(graph, loss="logistic", margin=2.0, adversarial=0.7)
    logits = 2.0 - all_scores(model, batch).detach()
    losses = []
    for row, tail in zip(logits, batch.triples[:, 2], strict=True):
        others = torch.cat([row[:tail], row[tail + 1 :]])
        weight = torch.softmax(0.7 * others, 0)
        losses.append(-F.logsigmoid(row[tail]) - (weight * F.logsigmoid(-others)).sum())
    torch.testing.assert_close(
        objective(batch), torch.stack(losses).mean() / 2, atol=1e-5, rtol=1e-4
    )


def test_margin_ranking_on_triples_and_on_stars(graph: KnowledgeGraph) -> None:
    model, objective, batch = setup(graph, loss="margin", margin=0.5)
    gaps = model.scores(batch.triples) + 0.5 - model.scores(batch.corrupted)
    torch.testing.assert_close(objective(batch), gaps.clamp(min=0).mean())
    model, objective, batch = setup(graph, loss="margin", corrupt="vertex", subgraph=2)
    low = model.scores(batch.triples).reshape(-1, 2).sum(1)
    high = model.scores(batch.corrupted).reshape(-1, 2).sum(1)
    torch.testing.assert_close(objective(batch), (low + 1.0 - high).clamp(min=0).mean())


def test_the_laplacian_form_alone(graph: KnowledgeGraph) -> None:
    model, objective, batch = setup(graph, loss="laplacian")
    torch.testing.assert_close(objective(batch), model.energies(batch.triples).mean())


def test_n3_is_the_cube_of_the_moduli(graph: KnowledgeGraph) -> None:
    model, objective, batch = setup(graph, "complex", n3=0.3, l2=0.2)
    _, plain, _ = setup(graph, "complex")
    heads, edges, tails = batch.triples.unbind(1)
    total = 0.0
    moduli = [
        torch.view_as_complex(model.entities.tables[0].detach().reshape(12, 3, 2))[ids].abs()
        for ids in (heads, tails)
    ]
    moduli.append(torch.view_as_complex(model.maps.parameters_of[0].detach())[edges].abs())
    for size in moduli:
        total += 0.3 * size.pow(3).sum() / len(edges) + 0.2 * size.square().sum() / len(edges)
    assert float(objective(batch) - plain(batch)) == pytest.approx(float(total), rel=1e-4)


@pytest.mark.parametrize("penalty", ["orthogonal", "columns"])
def test_sections_are_drawn_to_be_orthonormal(graph: KnowledgeGraph, penalty: str) -> None:
    model = SheafEmbedding(model_config("se", dim=4, sections=2), graph, seed=3)
    options = {"batch_size": 8, "section_penalty": penalty}
    config = TrainingConfig.from_dict(options | {"section_weight": 0.5})
    batch = next(iter(Batches(model, graph, config).epoch(0)))
    plain = Objective(model, graph, TrainingConfig.from_dict(options))(batch)
    total = 0.0
    for ids in (batch.triples[:, 0], batch.triples[:, 2]):
        for entity in ids:
            x = model.entities.vector(int(entity)).detach()
            distance = x.T @ x - torch.eye(2)
            columns = distance.norm(dim=0).sum()
            total += 0.5 * float(columns if penalty == "columns" else distance.norm()) / len(ids)
    assert float(Objective(model, graph, config)(batch) - plain) == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize("name", ["complex", "transe", "se", "toruse"])
def test_relation_prediction_is_a_softmax_over_relations(graph: KnowledgeGraph, name: str) -> None:
    model, objective, batch = setup(graph, name, relation_weight=2.0)
    _, plain, _ = setup(graph, name)
    heads, edges, tails = batch.triples.unbind(1)
    columns = []
    for edge in range(6):
        triples = torch.stack([heads, torch.full_like(heads, edge), tails], 1)
        if model.config.lifted:
            left, right = model.ends(triples)
            columns.append((left * right).sum((1, 2, 3)))
        else:
            columns.append(-model.scores(triples))
    expected = 2.0 * F.cross_entropy(torch.stack(columns, 1), edges)
    torch.testing.assert_close(objective(batch) - plain(batch), expected, atol=1e-4, rtol=1e-4)


def test_dropout_acts_in_training_only(graph: KnowledgeGraph) -> None:
    _, objective, batch = setup(graph, dropout=0.5)
    _, plain, _ = setup(graph)
    objective.eval()
    torch.testing.assert_close(objective(batch), plain(batch))
    objective.train()
    assert objective(batch) != plain(batch)


def test_weighed_candidates_follow_the_definition(graph: KnowledgeGraph) -> None:
    """Every candidate but a triple's own tail is divided by how likely it is to be drawn."""
    model, objective, batch = setup(graph, "complex", negatives=4, weigh_negatives=True)
    assert batch.negatives is not None
    assert batch.log_share is not None
    tails = batch.triples[:, 2]
    ids = torch.cat([tails, batch.negatives]).unique()
    likely = torch.exp(-0.5 * all_scores(model, batch))
    weights = torch.exp(-batch.log_share).expand_as(likely).clone()
    weights[torch.arange(len(tails)), tails] = 1.0
    own = likely.gather(1, tails.unsqueeze(1)).squeeze(1)
    expected = -torch.log(own / (weights * likely)[:, ids].sum(1)).mean()
    torch.testing.assert_close(objective(batch), expected, atol=1e-5, rtol=1e-4)

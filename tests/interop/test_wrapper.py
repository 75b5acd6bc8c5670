"""Our models inside PyKEEN: its pipelines, its losses and samplers, its evaluator."""

from __future__ import annotations

import copy
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pykeen.datasets import Nations
from pykeen.evaluation import RankBasedEvaluator
from pykeen.hpo import hpo_pipeline
from pykeen.models import Model
from pykeen.pipeline import pipeline
from torch import Tensor

from knowledge_sheaves.embedding import CATALOGUE, SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import EntityType, KnowledgeGraph, Relation, Schema
from knowledge_sheaves.interop import KnowledgeSheafModel, from_pykeen, to_pykeen
from knowledge_sheaves.interop.archive import Record, read_archive
from knowledge_sheaves.ranking import RankMetrics, rank_triples

DIMS = {name: 2 * max(config.block or 3, 3) for name, config in CATALOGUE.items()}
QUIET = {"use_tqdm": False}


def some_model(name: str, inverse: bool = False, **options: Any) -> KnowledgeSheafModel:
    model = KnowledgeSheafModel(
        triples_factory=Nations(create_inverse_triples=inverse).training,
        model=name,
        embedding_dim=DIMS[name],
        random_seed=0,
        options=options,
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize(
    ("name", "options"), [*((name, {}) for name in CATALOGUE), ("complex", {"biases": True})]
)
def test_all_ways_of_scoring_agree(name: str, options: dict[str, Any], inverse: bool) -> None:
    model = some_model(name, inverse, **options)
    n, r = model.num_entities, model.num_relations
    assert r == (110 if inverse else 55)
    ids = (torch.arange(n), torch.arange(r))
    rows = torch.cartesian_prod(ids[0], ids[1], ids[0])
    with torch.no_grad():
        table = model.score_hrt(rows).reshape(n, r, n)
        by_tail = model.score_t(torch.cartesian_prod(ids[0], ids[1])).reshape(n, r, n)
        by_head = model.score_h(torch.cartesian_prod(ids[1], ids[0])).reshape(r, n, n)
        by_relation = model.score_r(torch.cartesian_prod(ids[0], ids[0])).reshape(n, n, r)
    close = {"atol": 1e-4 * float(table.abs().max()), "rtol": 0.0}
    torch.testing.assert_close(by_tail, table, **close)
    torch.testing.assert_close(by_head.permute(2, 0, 1), table, **close)
    torch.testing.assert_close(by_relation.permute(0, 2, 1), table, **close)


def test_some_candidates_are_scored_as_among_all() -> None:
    model = some_model("rote")
    pairs = torch.tensor([[0, 1], [3, 2]])
    few, own = torch.tensor([5, 2]), torch.tensor([[1, 4, 4], [0, 2, 9]])
    for score, name in ((model.score_t, "tails"), (model.score_h, "heads")):
        everything = score(pairs)
        assert torch.equal(score(pairs, **{name: few}), everything[:, few])
        assert torch.equal(score(pairs, **{name: own}), everything.gather(1, own))
    assert torch.equal(model.score_r(pairs, relations=few), model.score_r(pairs)[:, few])


@pytest.mark.parametrize("name", CATALOGUE)
def test_gradients_reach_every_parameter_and_are_dense(name: str) -> None:
    model = some_model(name)
    pairs = torch.cartesian_prod(torch.arange(14), torch.arange(55))
    model.score_t(pairs).square().sum().backward()
    by_product = [p.grad for p in model.parameters() if p.numel()]
    assert all(g is not None and not g.is_sparse and g.abs().sum() > 0 for g in by_product)
    model.zero_grad()
    rows = torch.cartesian_prod(torch.arange(14), torch.arange(55), torch.arange(14))
    model.score_hrt(rows).square().sum().backward()
    for product, parameter in zip(
        by_product, (p for p in model.parameters() if p.numel()), strict=True
    ):
        assert product is not None
        assert parameter.grad is not None
        scale = float(product.abs().max())
        torch.testing.assert_close(parameter.grad, product, atol=1e-3 * scale, rtol=0)


def run(**options: Any) -> Any:
    chosen: dict[str, Any] = {
        "dataset": "nations",
        "model": KnowledgeSheafModel,
        "training_kwargs": {"num_epochs": 3, **QUIET},
        "evaluation_kwargs": QUIET,
        "random_seed": 0,
        "device": "cpu",
    }
    return pipeline(**chosen | options)


@pytest.mark.parametrize(
    ("name", "loop", "loss", "inverse", "options"),
    [
        ("rotate", "sLCWA", "nssa", False, {}),
        ("mure", "sLCWA", "marginranking", True, {}),
        ("complex", "LCWA", "crossentropy", True, {}),
        ("distmult", "LCWA", "bcewithlogits", False, {}),
        ("distmult", "LCWA", "bcewithlogits", False, {"biases": True}),
    ],
)
def test_the_pipeline_trains_what_we_then_use(
    name: str, loop: str, loss: str, inverse: bool, options: dict[str, Any]
) -> None:
    result = run(
        dataset_kwargs={"create_inverse_triples": inverse},
        model_kwargs={"model": name, "embedding_dim": 16, "options": options},
        training_loop=loop,
        loss=loss,
        optimizer_kwargs={"lr": 0.05},
    )
    assert result.losses[-1] < result.losses[0]
    ours = result.model.to_sheaf_embedding()
    assert (ours.config.name, ours.graph.entities[0]) == (name, "brazil")
    assert ours.entities.sparse
    data = Nations()
    assert_same_evaluation(ours, result.model, data.testing.mapped_triples)
    assert from_pykeen(result.model).config == ours.config
    result.model.score_hrt(data.testing.mapped_triples).sum().backward()
    gradients = [p.grad for p in result.model.parameters() if p.grad is not None]
    assert not any(gradient.is_sparse for gradient in gradients)  # it can be trained further


def known_graphs(graph: KnowledgeGraph, *more: Tensor) -> list[KnowledgeGraph]:
    return [graph, *(graph.with_triples(rows.numpy().astype(np.int64)) for rows in more)]


def assert_same_evaluation(ours: SheafEmbedding, theirs: Model, test: Tensor) -> None:
    """Our metrics of our model are PyKEEN's metrics of its own, filtered by the same facts."""
    facts = torch.from_numpy(ours.graph.triples.astype(np.int64))
    results = RankBasedEvaluator().evaluate(
        theirs, test, batch_size=32, additional_filter_triples=[facts], **QUIET
    )
    ranks = rank_triples(ours, test.numpy(), known_graphs(ours.graph, test))
    for side, found in ranks.sides.items():
        metrics = RankMetrics.of(found)
        for mine, name in (
            (metrics.mrr, "mean_reciprocal_rank"),
            (metrics.mean_rank, "mean_rank"),
            (metrics.hits_at_3, "hits@3"),
        ):
            assert mine == pytest.approx(results.get_metric(f"{side}.realistic.{name}"), abs=1e-6)


@pytest.mark.parametrize("reciprocal", [True, False])
@pytest.mark.parametrize("name", ["transe", "mure", "se", "toruse", "complex"])
def test_pykeen_evaluates_our_models_as_we_do(name: str, reciprocal: bool) -> None:
    graph = some_model("transe").sheaf.graph
    if CATALOGUE[name].lifted and not reciprocal:
        with pytest.raises(InputError, match="train it with reciprocal: true"):
            to_pykeen(SheafEmbedding(model_config(name, dim=6, reciprocal=False), graph), None)
        return
    config = model_config(name, dim=6, reciprocal=reciprocal, init=0.5)
    ours = SheafEmbedding(config, graph, seed=3)
    assert to_pykeen(ours, None).num_relations == 55 * (1 + reciprocal)
    assert_same_evaluation(ours, to_pykeen(ours, None), Nations().testing.mapped_triples)


def test_typed_models_rule_out_what_the_schema_does() -> None:
    schema = Schema(
        [EntityType("Person", 4), EntityType("Film", 2)],
        [Relation("friend", "Person", "Person"), Relation("likes", "Person", "Film")],
    )
    rows = np.array([[0, 0, 1], [1, 1, 4], [2, 1, 3], [2, 0, 0]])
    graph = KnowledgeGraph.from_arrays(*rows.T, schema=schema, entity_types=[0, 0, 0, 1, 1])
    ours = SheafEmbedding(model_config("translational", dim=4), graph)
    model = to_pykeen(ours, None)
    scores = model.predict_t(torch.tensor([[1, 1]]))
    assert scores.isinf().tolist() == [[True, True, True, False, False]]
    pairs = torch.cartesian_prod(torch.arange(5), torch.arange(5))
    relations = model.predict_r(pairs).unflatten(0, (5, 5))  # (head, tail, edge)
    triples = torch.cartesian_prod(torch.arange(5), torch.arange(2), torch.arange(5))
    table = model.predict_hrt(triples).reshape(5, 2, 5)
    torch.testing.assert_close(relations[..., ::2].permute(0, 2, 1), table)
    torch.testing.assert_close(table[1, 1], scores[0])
    assert_same_evaluation(ours, model, torch.from_numpy(rows[:2]))


def test_what_the_pipeline_saves_is_the_whole_model(tmp_path: Path) -> None:
    result = run(model_kwargs={"embedding_dim": 4}, training_kwargs={"num_epochs": 1, **QUIET})
    result.save_to_directory(tmp_path)
    stored = read_archive(tmp_path / "trained_model.pkl")
    again = copy.deepcopy(result.model)  # built as an unpickler builds it
    with torch.no_grad():
        for name, tensor in again.state_dict().items():
            tensor.fill_(torch.nan).copy_(reduce(Record.get, name.split("."), stored))
    pairs = torch.tensor([[0, 1], [3, 2]])
    assert torch.equal(again.predict_t(pairs), result.model.predict_t(pairs))


def test_hyper_parameters_are_searched() -> None:
    result = hpo_pipeline(
        dataset="nations",
        model=KnowledgeSheafModel,
        training_kwargs={"num_epochs": 1, **QUIET},
        evaluation_kwargs=QUIET,
        n_trials=2,
        device="cpu",
    )
    best = result.study.best_params
    assert best["model.model"] in CATALOGUE
    assert best["model.embedding_dim"] % 16 == 0
    assert all(trial.state.is_finished() and trial.value > 0 for trial in result.study.trials)


def test_seeds_decide_the_first_values() -> None:
    tables = [some_model("rotate").sheaf.entities.tables[0] for _ in range(2)]
    assert torch.equal(*tables)
    model = some_model("rotate")
    model.reset_parameters_()
    assert not torch.equal(model.sheaf.entities.tables[0], tables[0])


def test_unknown_options_are_refused() -> None:
    with pytest.raises(InputError, match="A model has no option 'nrom'"):
        some_model("transe", nrom=1)

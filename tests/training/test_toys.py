"""A new energy and a new loss are one class and one line each, and run through everything."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from config_cases import BY_GRAM, check_scores, made, small_graph
from knowledge_sheaves.embedding import SheafConfig, SheafEmbedding, model_config
from knowledge_sheaves.embedding.energies import ENERGIES
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.training import TrainingConfig, train
from knowledge_sheaves.training.batches import Batches
from knowledge_sheaves.training.losses import LOSSES
from knowledge_sheaves.training.objective import Objective
from toys import Blunt, SmoothMargin

GRAPH = small_graph()


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENERGIES, Blunt.name, Blunt)
    monkeypatch.setitem(LOSSES, SmoothMargin.name, SmoothMargin)


@pytest.mark.parametrize("reciprocal", [True, False])
@pytest.mark.parametrize("maps", BY_GRAM)
def test_a_new_energy_scores_alike_everywhere(maps: dict[str, object], reciprocal: bool) -> None:
    options = {"space": "blunt", "biases": "by-end", "translation": True, "sections": 2}
    config = SheafConfig.from_dict({"dim": 4, "reciprocal": reciprocal, **maps, **options})
    model = made(config, GRAPH)
    check_scores(model)
    with torch.no_grad():
        residual = model.residuals(GRAPH.triples).flatten(1)
        bias = model.biases[GRAPH.triples[:, 0], 0] + model.biases[GRAPH.triples[:, 2], 1]
        found = model.scores(GRAPH.triples)
    torch.testing.assert_close(found, torch.log(1 + residual**2).sum(1) - bias)


def test_both_are_trained_saved_and_loaded(tmp_path: Path) -> None:
    settings = TrainingConfig(epochs=2, loss="smooth-margin", batch_size=4)
    config = model_config("transe", dim=4, space="blunt")
    trained = train(Dataset(GRAPH, GRAPH), config, settings, out=tmp_path / "model")
    loaded = SheafEmbedding.load(tmp_path / "model")
    assert loaded.config.energy.name == "blunt"
    with torch.no_grad():
        assert torch.equal(loaded.scores(GRAPH.triples), trained.scores(GRAPH.triples))


def test_a_new_loss_follows_its_formula() -> None:
    config = TrainingConfig(loss="smooth-margin", margin=0.5, batch_size=8)
    model = made(model_config("rotate", dim=4), GRAPH)
    batch = next(Batches(model, GRAPH, config).epoch(0))
    gaps = model.scores(batch.triples) + 0.5 - model.scores(batch.corrupted)
    torch.testing.assert_close(Objective(model, GRAPH, config)(batch), F.softplus(gaps).mean())


def test_what_is_not_registered_is_refused_with_what_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(ENERGIES, "blunt")
    monkeypatch.delitem(LOSSES, "smooth-margin")
    with pytest.raises(
        InputError, match=r"space must be one of hyperbolic, layers, torus, vector, not 'blunt'\.$"
    ):
        model_config("transe", space="blunt")
    with pytest.raises(InputError, match="loss must be one of softmax, logistic, margin, lapl"):
        TrainingConfig(loss="smooth-margin")

"""Folders that older versions saved go on loading, and rank the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.storage import dataset_of, save_calibration, save_metrics
from knowledge_sheaves.evaluation import evaluate

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / "model-0.1", tmp_path / "model"))


def scores_and_ranks(model: SheafEmbedding) -> dict[str, object]:
    """What was recorded with the version that saved the model; no score is where types differ."""
    assert model.info is not None
    people = torch.arange(4)
    return {
        "scores": model.scores(model.graph.triples).tolist(),
        "tails": {
            name: model.score_tails(people, torch.full((4,), edge)).tolist()
            for edge, name in enumerate(model.graph.schema.relation_names)
        },
        # The AMRI counts candidates that types rule out no more: all else is as it was.
        "test": without_amri(evaluate(model, dataset_of(model), "test").to_dict()["overall"]),
        "calibration": model.info.calibration,
    }


def without_amri(sides: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    return {side: {k: v for k, v in of.items() if k != "amri"} for side, of in sides.items()}


def same(found: object, recorded: object) -> bool:
    if isinstance(recorded, dict):
        assert isinstance(found, dict)
        return found.keys() == recorded.keys() and all(same(found[k], recorded[k]) for k in found)
    if isinstance(recorded, list):
        assert isinstance(found, list)
        return len(found) == len(recorded) and all(map(same, found, recorded))
    return found == (float("inf") if recorded is None else pytest.approx(recorded, abs=2e-5))


def test_a_model_of_version_0_1_scores_and_ranks_as_it_did(folder: Path) -> None:
    recorded = json.loads((DATA / "model-0.1.json").read_text())
    model = SheafEmbedding.load(folder)
    recorded["test"] = without_amri(recorded["test"])
    assert same(scores_and_ranks(model), recorded)
    model.save(folder)
    assert same(scores_and_ranks(SheafEmbedding.load(folder)), recorded)


def test_a_model_of_version_0_1_takes_new_metrics_and_calibration(folder: Path) -> None:
    save_metrics({"test": {"mrr": 0.5}}, folder)
    save_calibration({"tau": 2.0}, folder)
    info = SheafEmbedding.load(folder).info
    assert info is not None
    assert (info.metrics, info.calibration) == ({"test": {"mrr": 0.5}}, {"tau": 2.0})

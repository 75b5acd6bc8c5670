"""The settings of the paper's models train, and describe models of the paper's size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from knowledge_sheaves.cli.app import app
from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.training.settings import make_settings

PAPER = Path(__file__).parents[2] / "experiments" / "paper"
FILES = sorted(PAPER.glob("*.yaml"))
# What the paper's tables say of its models on FB15k-237, in millions.
SIZES = {"se": 1.4, "transe": 0.5}


def test_every_model_of_the_tables_has_a_file() -> None:
    assert {file.stem for file in FILES} == {"se", "se-orthogonal", "translational", "transe"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_one_file_is_enough_to_train(file: Path, tmp_path: Path) -> None:
    words = ["train", "umls", "--config", file, "--set", "reciprocal=true", "--epochs", "2"]
    done = CliRunner().invoke(app, [*map(str, words), "--out", str(tmp_path / "model"), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["epochs"] == 2
    model = SheafEmbedding.load(tmp_path / "model")
    assert model.config.name == file.stem
    lengths = model.entities.tables[0].norm(dim=1)
    assert lengths.detach().numpy() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", SIZES)
def test_models_have_as_many_parameters_as_the_paper_says(name: str, shared_data: Path) -> None:
    model, _ = make_settings(PAPER / f"{name}.yaml", {}, None)
    graph = load(shared_data / "FB15k-237-betae").train
    millions = SheafEmbedding(model, graph).num_parameters / 1e6
    assert round(millions, 1) == SIZES[name]

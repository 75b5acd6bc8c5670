"""What loading leaves out, `sheaves check` finds; weights that are no numbers are named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import safetensors.torch
import torch

from crash.racing import marked
from knowledge_sheaves.embedding import SheafEmbedding, storage
from knowledge_sheaves.embedding.check import check_model
from knowledge_sheaves.embedding.folder import METRICS, SEALED, WEIGHTS, sha256
from knowledge_sheaves.embedding.numbers import check_scores
from knowledge_sheaves.embedding.storage import save_calibration, save_metrics
from knowledge_sheaves.errors import InputError, OutputError
from knowledge_sheaves.files import sealed, write_json
from knowledge_sheaves.graph.plain_data import read_plain_data
from knowledge_sheaves.ranking import Predictor


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    marked(1).save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file of tensors counts as too large to be hashed on loading."""
    monkeypatch.setattr(storage, "HASHED", 0)


def problems(folder: Path) -> list[str]:
    return [finding.problem for finding in check_model(folder) if finding.problem]


def put_nan(folder: Path) -> None:
    """Weights that are no numbers, in a folder whose checksums fit."""
    weights = safetensors.torch.load_file(folder / WEIGHTS)
    weights["entities.tables.0"][2, 0] = torch.nan
    config = read_plain_data(folder / "config.json")
    header = {"generation": config["generation"]}
    safetensors.torch.save_file(weights, folder / WEIGHTS, metadata=header)
    config["sha256"][WEIGHTS] = sha256(folder / WEIGHTS)
    write_json(folder / "config.json", sealed(config))


def test_a_sound_model_is_sound(folder: Path) -> None:
    found = check_model(folder)
    assert [f.file for f in found] == ["config.json", *SEALED, METRICS]
    assert problems(folder) == []
    assert all(f.size == (folder / f.file).stat().st_size for f in found)


@pytest.mark.usefixtures("large")
def test_a_flipped_byte_of_a_large_file_is_found_by_the_check(folder: Path) -> None:
    data = bytearray((folder / WEIGHTS).read_bytes())
    data[-3] ^= 1
    (folder / WEIGHTS).write_bytes(data)
    SheafEmbedding.load(folder)
    (problem,) = problems(folder)
    assert "weights.safetensors was changed" in problem


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("name", [*SEALED, METRICS])
def test_files_of_two_saves_are_no_model_however_large(name: str, folder: Path) -> None:
    marked(2).save(folder.with_name("other"))
    shutil.copy(folder.with_name("other") / name, folder)
    with pytest.raises(InputError, match=f"{name} (is of another model|was changed)"):
        SheafEmbedding.load(folder)
    assert len(problems(folder)) == 1


def test_weights_that_are_no_numbers_are_not_saved(folder: Path) -> None:
    model = marked(3)
    with torch.no_grad():
        model.entities.tables[0][0, 0] = torch.inf
    with pytest.raises(InputError, match=r"1 of the \d+ numbers of 'entities.tables.0' is NaN or"):
        model.save(folder)
    assert problems(folder) == [], "the model that was there still is"


def test_weights_that_are_no_numbers_are_named_where_they_are_met(folder: Path) -> None:
    put_nan(folder)
    (problem,) = problems(folder)
    assert "weights.safetensors: 1 of the 28 numbers of 'entities.tables.0' is NaN" in problem
    model = SheafEmbedding.load(folder)
    with pytest.raises(InputError, match=r"'entities.tables.0' is NaN or infinite"):
        Predictor(model).predict("1:0", "r1")
    check_scores(model, torch.tensor([1.0, torch.inf]))  # what the schema rules out is sound


def test_metrics_and_calibration_of_a_model_that_was_replaced_are_not_kept(folder: Path) -> None:
    before = SheafEmbedding.load(folder).info
    assert before is not None
    marked(2).save(folder)
    with pytest.raises(OutputError, match="replaced by another model meanwhile, so the metrics"):
        save_metrics({"number": 1}, folder, before.generation)
    with pytest.raises(OutputError, match="so the calibration of the old one"):
        save_calibration({"tau": 1.0}, folder, before.generation)
    now = SheafEmbedding.load(folder).info
    assert now is not None
    assert (now.metrics, now.calibration) == ({"number": 2}, {"tau": 2.0})

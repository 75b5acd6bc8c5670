"""Of a file that we split, the final model has seen all facts; what is measured has not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import knowledge_sheaves as ks
from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.about import describe
from knowledge_sheaves.embedding.check import check_model
from knowledge_sheaves.embedding.storage import dataset_of, measured
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.splits import split
from knowledge_sheaves.training import Progress

ROWS = [(f"e{a}", f"r{k}", f"e{(a + k) % 40}") for a in range(40) for k in range(1, 7)]
SETTINGS = {"dim": 8, "epochs": 4, "batch_size": 64, "negatives": None, "threads": 1}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "graph.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in ROWS))
    return path


def test_at_most_a_tenth_is_held_out_and_the_split_is_known_to_be_ours(file: Path) -> None:
    data = ks.read(file)
    assert [graph.num_triples for graph in data.splits.values()] == [216, 12, 12]
    assert data.drawn
    assert not ks.read("nations").drawn
    assert data.whole.train.num_triples == len(ROWS)
    assert list(data.whole.splits) == ["train"]


def test_the_final_model_learns_all_facts_and_what_is_measured_does_not(
    file: Path, tmp_path: Path
) -> None:
    model = ks.train(file, **SETTINGS, out=tmp_path / "model")
    for each in (model, ks.load(tmp_path / "model")):
        assert each.graph.num_triples == len(ROWS)
        judge = measured(each.embedding)
        assert judge is not each.embedding
        assert judge.graph.num_triples == 216
        held_out = dataset_of(judge).splits
        assert held_out["valid"].num_triples == held_out["test"].num_triples == 12
        for name in ("valid", "test"):
            assert not judge.graph.contains(held_out[name].triples).any()
            assert each.graph.contains(held_out[name].triples).all()
        assert each.embedding.info is not None
        assert judge.info is not None
        assert each.embedding.info.calibration == judge.info.calibration
        assert each.embedding.info.metrics == judge.info.metrics
        assert each.evaluate("test").mrr == pytest.approx(
            ks.Model(judge).evaluate("test").mrr, rel=1e-6
        )
    assert "mrr" in (tmp_path / "model" / "training.csv").read_text()
    loaded = ks.load(tmp_path / "model").embedding
    assert torch.equal(loaded.state_dict()["radius"], model.embedding.state_dict()["radius"])
    assert measured(measured(loaded)) is measured(loaded)


def test_the_final_model_is_trained_for_as_long_as_was_best(file: Path) -> None:
    said: list[Progress] = []
    model = ks.train(file, **SETTINGS, on_progress=said.append)
    judge = measured(model.embedding)
    assert judge.info is not None
    assert model.embedding.info is not None
    best = judge.info.training["best_epoch"]
    assert model.embedding.info.training["epochs_run"] == best
    assert max(each.epoch for each in said if each.refit) + 1 == best
    assert not any("mrr" in each.metrics for each in said if each.refit)
    # The same as training on everything for so long.
    whole = ks.train(model.graph, **SETTINGS | {"epochs": best}).embedding.state_dict()
    for name, tensor in model.embedding.state_dict().items():
        assert torch.equal(whole[name], tensor), name


@pytest.mark.parametrize("data", ["nations", "given"])
def test_a_split_that_the_user_gave_is_never_trained_on(data: str, file: Path) -> None:
    given = ks.read("nations") if data == "nations" else split(ks.read(file).whole.train)
    model = ks.train(given, **SETTINGS | {"epochs": 1})
    assert model.graph.num_triples == given.train.num_triples
    assert measured(model.embedding) is model.embedding


def test_the_second_training_can_be_left_out(file: Path) -> None:
    model = ks.train(file, **SETTINGS, refit=False)
    assert model.graph.num_triples == 216
    assert measured(model.embedding) is model.embedding
    head, relation, tail = model.facts.splits["test"].decode(model.facts.splits["test"].triples)[0]
    assert model.decide(f"ASK {{ :{head} :{relation} :{tail} }}").known


def test_info_says_which_number_is_of_which(file: Path) -> None:
    quality = describe(ks.train(file, **SETTINGS).embedding)["quality"]
    assert quality["measured"] == (
        "by a model that never saw the 24 held-out facts (measured/); "
        "the one that answers has learned all 240"
    )
    assert "measured" not in describe(ks.train("nations", dim=4, epochs=1).embedding)["quality"]


def test_a_model_takes_what_it_was_measured_by_along(file: Path, tmp_path: Path) -> None:
    ks.train(file, **SETTINGS, out=tmp_path / "one")
    ks.load(tmp_path / "one").save(tmp_path / "two")
    assert not any(finding.problem for finding in check_model(tmp_path / "two"))
    first, second = (ks.load(tmp_path / name).evaluate("test").mrr for name in ("one", "two"))
    assert first == second
    # A model without one does not keep that of the model that it replaces.
    ks.train(file, **SETTINGS | {"epochs": 1}, refit=False, out=tmp_path / "two")
    assert not (tmp_path / "two" / "measured").exists()


def test_a_folder_of_another_save_is_not_taken_for_the_measured_one(
    file: Path, tmp_path: Path
) -> None:
    for name, seed in (("one", 0), ("two", 1)):
        ks.train(file, **SETTINGS | {"epochs": 1}, seed=seed, out=tmp_path / name)
    (tmp_path / "one" / "measured").rename(tmp_path / "aside")
    model = SheafEmbedding.load(tmp_path / "one")  # asking does without it
    with pytest.raises(InputError, match="measured is not a model: there is no such folder"):
        measured(model)
    assert any(finding.problem for finding in check_model(tmp_path / "one"))
    (tmp_path / "two" / "measured").rename(tmp_path / "one" / "measured")
    with pytest.raises(InputError, match="of another model"):
        measured(SheafEmbedding.load(tmp_path / "one"))
    assert any(finding.problem for finding in check_model(tmp_path / "one"))


class Stop:
    """Ctrl-C at some epoch of one of the two trainings."""

    def __init__(self, refit: bool, epoch: int) -> None:
        self.refit, self.epoch = refit, epoch

    def __call__(self, progress: Progress) -> None:
        if progress.refit == self.refit and progress.epoch == self.epoch:
            raise KeyboardInterrupt


@pytest.mark.parametrize("refit", [False, True])
def test_a_training_that_was_stopped_goes_on_to_the_same_model(
    file: Path, tmp_path: Path, refit: bool
) -> None:
    steady = SETTINGS | {"patience": 99}
    whole = ks.train(file, **steady, out=tmp_path / "whole")
    assert whole.embedding.info is not None
    at = 1 if not refit else whole.embedding.info.training["epochs_run"] - 1
    out = tmp_path / "model"
    stopped = ks.train(file, **steady, out=out, on_progress=Stop(refit, at))
    assert stopped.embedding.info is not None
    assert stopped.embedding.info.training["interrupted"]
    assert stopped.graph.num_triples == 216  # the one that is measured, and whole
    resumed = ks.train(file, **steady, out=out, resume=True)
    for name, tensor in whole.embedding.state_dict().items():
        assert np.allclose(resumed.embedding.state_dict()[name], tensor), name
    assert not list(tmp_path.glob("*.checkpoint.safetensors"))
    assert json.loads((out / "config.json").read_text())["info"]["training"]["interrupted"] is False

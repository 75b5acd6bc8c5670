"""Calibration on queries: what is chosen is the best of what was tried, measured as it should."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from betae_cases import write_betae
from knowledge_sheaves.embedding import ModelInfo, SheafEmbedding, model_config
from knowledge_sheaves.embedding.storage import save_calibration
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.evaluation.query_calibration import (
    QueryCalibration,
    Trial,
    calibrate,
    drawn_queries,
    folder_queries,
    reciprocal_ranks,
)
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.query import Options, scores
from knowledge_sheaves.query.solvers import Chaining
from knowledge_sheaves.training import TrainingConfig, train


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> SheafEmbedding:
    folder = tmp_path_factory.mktemp("calibrated") / "model"
    training = TrainingConfig(epochs=3, negatives=None, batch_size=256, threads=1)
    return train(load("nations"), model_config("complex", dim=16), training, out=folder)


@pytest.fixture
def model(trained: SheafEmbedding) -> Iterator[SheafEmbedding]:
    assert trained.info is not None
    before = dict(trained.info.calibration)
    yield trained
    trained.info.calibration = before


def without_time(found: QueryCalibration) -> list[Trial]:
    return [replace(trial, seconds=0.0) for trial in found.trials]


def test_the_best_of_what_was_tried_is_chosen(
    model: SheafEmbedding, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Chaining.Settings.parameters()
    assert known["k"].fit is not None
    few = replace(known["k"].fit, values=(1, 2, 3, 4, 8))  # of 14 entities
    monkeypatch.setitem(known, "k", replace(known["k"], fit=few))
    told: list[tuple[Trial, int]] = []
    found = calibrate(
        model, drawn_queries(model, 8), report=lambda trial, left: told.append((trial, left))
    )
    assert [trial for trial, _ in told] == list(found.trials)
    assert told[-1][1] == 0
    for name in ("tau", "softness", "focus", "kappa", "k", "strength"):
        tried = [trial for trial in found.trials if trial.parameter == name]
        (chosen,) = (trial for trial in tried if found.chosen(trial))
        best = max(trial.mrr for trial in tried)
        assert best > min(trial.mrr for trial in tried)
        assert chosen.mrr >= best - (few.slack if name == "k" else 0)
        assert name != "k" or all(t.mrr < best - few.slack for t in tried if t.value < chosen.value)
    assert not found.notes
    assert model.info is not None
    model.info.calibration = found.values
    for solver in ("chaining", "harmonic"):
        settled = Options(solver).start(model).choices
        for name in settled.keys() & {"softness", "focus", "kappa", "k", "strength"}:
            assert settled[name] == found.values[name]
        assert settled["tau"] == found.values["query_tau"]


def test_what_was_chosen_before_does_not_matter(model: SheafEmbedding) -> None:
    queries = drawn_queries(model, 3, seed=1)
    first = calibrate(model, queries)
    assert model.info is not None
    model.info.calibration |= {
        "softness": 0.9,
        "kappa": 50.0,
        "k": 1,
        "strength": 9.0,
        "query_tau": 77.0,
    }
    assert without_time(calibrate(model, drawn_queries(model, 3, seed=1))) == without_time(first)


def test_the_temperature_of_facts_can_be_kept(model: SheafEmbedding) -> None:
    assert model.info is not None
    found = calibrate(model, drawn_queries(model, 2), tau="facts")
    assert found.values["tau"] == model.info.calibration["tau"]
    assert "query_tau" not in found.values
    assert "tau" not in {trial.parameter for trial in found.trials}


def test_some_can_be_chosen_and_the_others_stay(model: SheafEmbedding) -> None:
    assert model.info is not None
    model.info.calibration |= {"kappa": 3.0, "k": 5, "query_tau": 0.5}
    found = calibrate(model, drawn_queries(model, 3), only=["softness"])
    assert {trial.parameter for trial in found.trials} == {"softness"}
    assert found.values == model.info.calibration | {"softness": found.values["softness"]}
    # The trials are made with what stays.
    asked = [group for group in drawn_queries(model, 3) if group.name in ("2p", "3p", "pi", "ip")]
    (first, *_) = calibrate(model, asked, only=["softness"]).trials
    options = Options("chaining", kappa=3.0, k=5, tau=0.5, softness=0.0)
    expected = np.mean([reciprocal_ranks(model, group, options).mean() for group in asked])
    assert first.mrr == pytest.approx(expected)
    with pytest.raises(InputError, match="no 'mood' to choose, only tau, softness"):
        calibrate(model, asked, only=["mood"])


def test_reciprocal_ranks_are_those_of_the_definition(model: SheafEmbedding) -> None:
    options = Options("chaining", k=3)
    for group in drawn_queries(model, 12):
        with torch.no_grad():
            energies, _ = scores(model, group.queries, options)
        expected = []
        for row, values in enumerate(energies.tolist()):
            hard = set(group.hard[row].tolist())
            others = set(range(len(values))) - hard - set(group.easy[row].tolist())
            ranks = [
                1
                + sum(values[other] < values[answer] for other in others)
                + sum(values[other] == values[answer] for other in others) / 2
                for answer in hard
            ]
            expected.append(np.mean([1 / rank for rank in ranks]))
        np.testing.assert_allclose(reciprocal_ranks(model, group, options), expected)
        tight = options.but(memory_limit=4096)  # nine queries at a time
        np.testing.assert_allclose(reciprocal_ranks(model, group, tight), expected)


def test_queries_of_a_folder_are_found_by_name(model: SheafEmbedding, tmp_path: Path) -> None:
    write_betae(tmp_path / "nations", load("nations"), ["1p", "2i"], 4, "valid")
    groups = folder_queries(model, tmp_path / "nations", 3)
    assert [(group.name, len(group)) for group in groups] == [("1p", 3), ("2i", 3)]
    assert model.info is not None
    valid = model.graph.with_triples(model.info.held_out["valid"])
    for query, hard in zip(groups[0].queries, groups[0].hard, strict=True):
        (edge,) = query.patterns[0].edges
        assert valid.contains(np.array([[edge.head, edge.relation, a] for a in hard])).all()
    found = calibrate(model, groups)
    assert set(found.values) == {"tau", "query_tau"}
    assert len(found.notes) == 5
    assert "no queries that softness matters to" in found.notes[0]


def test_without_validation_facts_queries_must_be_given(model: SheafEmbedding) -> None:
    bare = SheafEmbedding(model_config("transe", dim=4), model.graph)
    with pytest.raises(InputError, match=r"no validation facts.*--queries FOLDER"):
        drawn_queries(bare, 2)
    found = calibrate(bare, [g for g in drawn_queries(model, 2) if g.name == "2p"])
    assert found.values["tau"] > 0


def test_a_torus_has_no_strength(model: SheafEmbedding) -> None:
    torus = SheafEmbedding(model_config("toruse", dim=4), model.graph)
    found = calibrate(torus, [g for g in drawn_queries(model, 1) if g.name in ("2p", "2in")])
    assert "strength" not in found.values
    assert "torus" in found.notes[0]


def test_a_calibration_is_all_that_changes_in_a_folder(
    model: SheafEmbedding, tmp_path: Path
) -> None:
    model.save(tmp_path / "model")
    files = {p.name: p.read_bytes() for p in (tmp_path / "model").iterdir()}
    save_calibration({"tau": 2.0, "k": 32}, tmp_path / "model")
    loaded = SheafEmbedding.load(tmp_path / "model")
    assert loaded.info is not None
    assert loaded.info.calibration == {"tau": 2.0, "k": 32}
    assert loaded.info.training == model.info.training  # type: ignore[union-attr]
    changed = {p.name for p in (tmp_path / "model").iterdir() if p.read_bytes() != files[p.name]}
    assert changed == {"config.json"}


def test_a_model_without_a_description_can_be_calibrated(
    model: SheafEmbedding, tmp_path: Path
) -> None:
    SheafEmbedding(model_config("transe", dim=4), model.graph).save(tmp_path / "bare")
    save_calibration({"tau": 2.0}, tmp_path / "bare")
    loaded = SheafEmbedding.load(tmp_path / "bare")
    assert loaded.info == ModelInfo(calibration={"tau": 2.0}, created=loaded.info.created)  # type: ignore[union-attr]

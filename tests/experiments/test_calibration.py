"""What the fit of probabilities leaves open, in miniature."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from knowledge_sheaves.embedding import model_config
from knowledge_sheaves.evaluation import trials
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.training import TrainingConfig, train

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def test_both_tables_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = TrainingConfig(epochs=2, batch_size=256, negatives=None)
    train(load("nations"), model_config("complex", dim=8), config, out=tmp_path / "small")
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    script = importlib.import_module("calibration")
    for name in trials.DRAWN:
        monkeypatch.setitem(trials.DRAWN, name, 20)
    monkeypatch.setattr(script, "SAMPLE", 40)
    script.main([str(tmp_path / "small")])
    out = capsys.readouterr().out
    assert out.count("| first counts | counts too | small |") == 2
    rows = [line.split("|")[1:-1] for line in out.splitlines() if line[2:3].isdigit()]
    assert len(rows) == len(script.OF_FACTS) + len(script.OF_QUESTIONS)
    assert len({numbers for *_, numbers in rows}) == len(rows), "what is chosen matters"

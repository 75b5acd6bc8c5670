"""Curves are drawn from what training leaves in a model folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from knowledge_sheaves.embedding import model_config
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.training import TrainingConfig, train

SCRIPT = Path(__file__).parents[2] / "experiments" / "curves.py"


def draw(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_every_model_folder_is_a_line_in_the_picture(tmp_path: Path) -> None:
    settings = TrainingConfig(epochs=2, negatives=None)
    for name in ("rotate", "transe"):
        train(load("nations"), model_config(name, dim=8), settings, out=tmp_path / name)
    picture = tmp_path / "pictures" / "curves.svg"
    done = draw(tmp_path / "rotate", tmp_path / "transe", "--out", picture)
    assert done.returncode == 0, done.stderr
    drawn = picture.read_text(encoding="utf-8")
    assert all(f"<!-- {name} -->" in drawn for name in ("rotate", "transe", "validation MRR"))


def test_a_folder_without_a_curve_is_named(tmp_path: Path) -> None:
    done = draw(tmp_path, "--out", tmp_path / "curves.svg")
    assert done.returncode == 2
    assert f"{tmp_path} has no training.csv" in done.stderr

"""The base model, the proof and the ablation in miniature: every run is kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from betae_cases import write_betae
from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.embedding.storage import save_calibration
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.training import TrainingConfig, train

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
SETTINGS = {
    "base": {"model": "complex", "dim": 8, "epochs": 2, "negatives": 32, "seed": 1},
    "rows": {"base": {}, "all entities": {"negatives": None}},
}


def run(script: str, *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXPERIMENTS / script), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("proof") / "queries"
    write_betae(folder, load("umls"), ("1p", "2p", "2u", "2in"), 3)
    return folder


@pytest.mark.slow
def test_four_rows_and_the_same_table_again(queries: Path, tmp_path: Path) -> None:
    settings = TrainingConfig(epochs=2, negatives=None)
    model = train(load("umls"), model_config("complex", dim=8), settings, out=tmp_path / "model")
    words = (tmp_path / "model", "--queries", queries, "--out", tmp_path / "out")
    refused = run("proof.py", *words)
    assert refused.returncode == 2
    assert "run sheaves calibrate first" in refused.stderr
    assert model.info is not None
    chosen = {"kappa": 2.0, "k": 8, "strength": 0.1}
    save_calibration(model.info.calibration | chosen, tmp_path / "model")
    first = run("proof.py", *words, "--docs", tmp_path / "docs")
    assert first.returncode == 0, first.stderr
    table = (tmp_path / "out" / "proof.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1].strip() for line in table.splitlines()[2:]]
    assert rows == [
        "**harmonic**",
        "**harmonic, λ = 0.1**",
        "**chaining, facts ignored**",
        "**chaining, facts remembered**",
    ]
    assert (tmp_path / "docs" / "tables" / "proof.md").read_text(encoding="utf-8") == table
    states = {path: path.read_bytes() for path in (tmp_path / "out").glob("*.state.json")}
    assert len(states) == 4
    assert run("proof.py", *words).returncode == 0
    assert (tmp_path / "out" / "proof.md").read_text(encoding="utf-8") == table
    assert all(path.read_bytes() == saved for path, saved in states.items())


@pytest.mark.slow
def test_every_ingredient_is_a_row_that_is_trained_once(tmp_path: Path) -> None:
    (tmp_path / "rows.yaml").write_text(yaml.safe_dump(SETTINGS, sort_keys=False))
    words = ("umls", "--settings", tmp_path / "rows.yaml", "--out", tmp_path / "out")
    table = ""
    for count, row in enumerate(SETTINGS["rows"], start=1):  # the table tells of earlier rows too
        found = run("ablation.py", *words, "--rows", row)
        assert found.returncode == 0, found.stderr
        assert found.stdout.count("training") == 1
        table = (tmp_path / "out" / "ablation.md").read_text(encoding="utf-8")
        rows = [line.split("|")[1].strip() for line in table.splitlines()[2:]]
        assert rows == list(SETTINGS["rows"])[:count]
    again = run("ablation.py", *words)
    assert "training" not in again.stdout
    assert (tmp_path / "out" / "ablation.md").read_text(encoding="utf-8") == table


@pytest.mark.slow
def test_the_base_model_is_the_sum_of_runs_that_are_trained_once(tmp_path: Path) -> None:
    settings = {
        "base": {"model": "complex", "dim": 8, "epochs": 1},
        "members": {"one": {"seed": 1}, "two": {"seed": 2, "averaging": 0.5}},
    }
    (tmp_path / "members.yaml").write_text(yaml.safe_dump(settings))
    words = ("umls", "--settings", tmp_path / "members.yaml", "--out", tmp_path / "model")
    first = run("base_model.py", *words)
    assert first.returncode == 0, first.stderr
    said = [line for line in first.stdout.splitlines() if "validation MRR" in line]
    assert [line.split(":")[0] for line in said] == ["one", "two", "sum"]
    again = run("base_model.py", *words)
    assert again.stdout.splitlines() == said
    assert SheafEmbedding.load(tmp_path / "model").config.dim == 16

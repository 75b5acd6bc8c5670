"""The table of recipes in miniature: a recipe and a search, each run once."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def test_a_recipe_stands_beside_its_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    script = importlib.import_module("recipes")
    words = ["--data", str(tmp_path), "--out", str(tmp_path / "out"), "--sets", "nations"]
    words += ["--recipe", "best", "--minutes", "0.002", "--trials", "2"]
    script.main(words)
    table = (tmp_path / "out" / "recipes-best.md").read_text()
    assert "| nations | complex, " in table
    assert table.endswith("| 2 |\n")
    assert "trial 2" in capsys.readouterr().out
    script.main(words)
    assert "trial" not in capsys.readouterr().out, "what was run is kept"
    assert (tmp_path / "out" / "recipes-best.md").read_text() == table

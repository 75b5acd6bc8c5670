"""`sheaves calibrate` as a user meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.query import Options

Sheaves = Callable[..., tuple[int, str, str]]


def test_what_is_chosen_is_shown_stored_and_used(sheaves: Sheaves, model: Path) -> None:
    code, out, err = sheaves("calibrate", model, "--sample", 2, "--json")
    assert code == 0
    shown = json.loads(out)
    said = [f"{t['parameter']} = {t['value']:.4g}: MRR {t['mrr']:.3f}" for t in shown["trials"]]
    assert err.splitlines() == said
    loaded = SheafEmbedding.load(model)
    assert loaded.info is not None
    assert loaded.info.calibration == shown["calibration"]
    chosen = {t["parameter"]: t["value"] for t in shown["trials"] if t["chosen"]}
    settled = Options("harmonic").start(loaded).choices | Options("chaining").start(loaded).choices
    assert chosen == {name: settled[name] for name in chosen}
    assert set(chosen) == {"tau", "softness", "focus", "kappa", "k", "strength"}


def test_a_table_shows_what_was_tried(sheaves: Sheaves, model: Path) -> None:
    code, out, _ = sheaves("calibrate", model, "--sample", 1, "--tau", "facts")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert sum(row[-1:] == ["yes"] for row in rows) == 5
    assert "Stored in " in out


def test_a_model_without_validation_facts_needs_queries(
    sheaves: Sheaves, typed_model: Path
) -> None:
    code, out, err = sheaves("calibrate", typed_model)
    assert (code, out) == (2, "")
    assert "--queries FOLDER" in err


def test_a_half_is_one_of_a_folders_queries(sheaves: Sheaves, model: Path) -> None:
    code, out, err = sheaves("calibrate", model, "--half", "first")
    assert (code, out) == (2, "")
    assert "--queries FOLDER" in err


def test_a_folder_of_something_else_is_refused(sheaves: Sheaves, model: Path) -> None:
    code, _, err = sheaves("calibrate", model, "--queries", model)
    assert code == 2
    assert "not a folder of the BetaE benchmark" in err

"""Bad data, bad settings, bad model folders: one sentence each, exit code 2, and no traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Sheaves = Callable[..., tuple[int, str, str]]
GOOD = b"a\tr\tb\nb\tr\tc\nc\tr\ta\n"

# The content of triples.tsv, and what the sentence must say.
DATA = {
    "an empty file": (b"", ("triples.tsv", "empty")),
    "a line that is too short": (GOOD * 4 + b"a\tr\n", ("triples.tsv", "line 13")),
    "bytes that are no text": (GOOD + b"\xff\xfe\tr\tb\n", ("triples.tsv", "UTF-8")),
    "an empty name": (GOOD * 4 + b"\tr\tb\n", ("triples.tsv", "line 13")),
}

# The words after `sheaves train nations --out model`, with {file} for settings.yaml.
SETTINGS = {
    "unknown model": ("", ("--model", "complexx"), ("no model 'complexx'", "'complex'")),
    "missing model file": ("", ("--model", "mine.yaml"), ("mine.yaml", "cannot be read")),
    "dimension 0": ("", ("--dim", "0"), ("dim", "above 0")),
    "dimension and block": ("", ("--dim", "7"), ("dim 7", "block 2")),
    "no epochs": ("", ("--epochs", "0"), ("epochs", "at least 1")),
    "negative learning rate": ("", ("--lr", "-1"), ("learning_rate", "above 0")),
    "unknown device": ("", ("--device", "abacus"), ("device", "'abacus'")),
    "set without value": ("", ("--set", "n3"), ("--set", "'n3'")),
    "set unknown": ("", ("--set", "n33=1"), ("no setting 'n33'", "'n3'")),
    "set of another kind": ("", ("--set", "epochs=many"), ("epochs", "'many'")),
    "set unreadable": ("", ("--set", "n3=[1"), ("--set n3=[1",)),
    "nothing to resume": ("", ("--resume",), ("no run to resume",)),
    "missing settings file": (None, ("--config", "{file}"), ("settings.yaml", "No such file")),
    "settings are not YAML": ("a: [1", ("--config", "{file}"), ("settings.yaml, line",)),
    "settings are a list": ("- dim", ("--config", "{file}"), ("settings.yaml", "name: value")),
    "settings are empty": ("", ("--config", "{file}"), ("settings.yaml", "name: value")),
    "settings unknown": ("epochz: 3", ("--config", "{file}"), ("settings.yaml", "'epochs'")),
    "settings of another kind": ("dim: wide", ("--config", "{file}"), ("settings.yaml", "'wide'")),
    "settings of choice": ("loss: hinge", ("--config", "{file}"), ("settings.yaml", "'hinge'")),
    "missing schema": ("", ("--schema", "nowhere.yaml"), ("nowhere.yaml", "cannot be read")),
    "missing types": ("", ("--types", "nowhere.tsv"), ("nowhere.tsv",)),
    "bad expression for types": ("", ("--types", "regex:("), ("regular expression",)),
}


def one_sentence(result: tuple[int, str, str], words: tuple[str, ...]) -> None:
    code, out, err = result
    assert code == 2, err
    assert out == ""
    assert err.startswith("sheaves: ")
    assert len(err.splitlines()) == 1, err
    assert "bug" not in err
    assert all(word in err for word in words), err


def after_the_plan(err: str) -> str:
    """What is said after the data and the settings that were chosen for them."""
    plan = ("Dataset(", "Each of ", "complex, ")
    return "\n".join(line for line in err.splitlines() if not line.startswith(plan))


@pytest.mark.parametrize("kind", DATA)
def test_malformed_data(kind: str, sheaves: Sheaves, tmp_path: Path) -> None:
    content, words = DATA[kind]
    (tmp_path / "triples.tsv").write_bytes(content)
    one_sentence(sheaves("train", tmp_path / "triples.tsv", "--out", tmp_path / "model"), words)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("source", ["nationz", "nowhere.tsv", "nowhere/data"])
def test_data_that_are_not_there(source: str, sheaves: Sheaves, tmp_path: Path) -> None:
    one_sentence(sheaves("train", source, "--out", tmp_path / "model"), (source,))


@pytest.mark.parametrize("kind", SETTINGS)
def test_malformed_settings(
    kind: str, sheaves: Sheaves, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, options, words = SETTINGS[kind]
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "settings.yaml"
    if content is not None:
        file.write_text(content)
    given = [word.format(file=file) for word in options]
    code, out, err = sheaves("train", "nations", "--out", "model", *given)
    one_sentence((code, out, after_the_plan(err)), words)
    assert not (tmp_path / "model").exists()


def test_a_folder_of_something_else_is_not_trained_over(sheaves: Sheaves, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    one_sentence(sheaves("train", "nations", "--out", tmp_path), ("thesis.tex",))


@pytest.mark.parametrize(
    "command",
    [
        ("predict", "--head", "virus", "--relation", "causes"),
        ("neighbours", "virus"),
        ("evaluate",),
        ("info",),
        ("export", "--out", "vectors"),
    ],
)
@pytest.mark.parametrize("damage", ["missing", "truncated", "newer"])
def test_malformed_models(
    command: tuple[str, ...], damage: str, sheaves: Sheaves, model: Path
) -> None:
    weights, config = model / "weights.safetensors", model / "config.json"
    words: tuple[str, ...]
    if damage == "missing":
        weights.unlink()
        words = ("weights.safetensors", "missing")
    elif damage == "truncated":
        weights.write_bytes(weights.read_bytes()[:-8])
        words = ("weights.safetensors", "cut short")
    else:
        config.write_text(json.dumps(json.loads(config.read_text()) | {"format": 99}))
        words = ("config.json", "install a newer")
    name, *rest = command
    one_sentence(sheaves(name, model, *rest), words)


def test_a_study_that_is_no_study(sheaves: Sheaves, tmp_path: Path) -> None:
    (tmp_path / "study.db").write_text("not a database, " * 100)
    words = ("--study", tmp_path / "study.db", "--trials", "1", "--out", tmp_path / "best.yaml")
    code, out, err = sheaves("tune", "nations", *words)
    one_sentence((code, out, after_the_plan(err)), ("study.db",))


def test_tuning_needs_validation_facts(sheaves: Sheaves, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.tsv").write_bytes(GOOD)
    code, out, err = sheaves("tune", tmp_path / "data", "--trials", "1")
    one_sentence((code, out, after_the_plan(err)), ("validation facts",))


def test_evaluating_needs_facts_to_evaluate_on(sheaves: Sheaves, typed_model: Path) -> None:
    one_sentence(sheaves("evaluate", typed_model), ("no test facts", "--data"))

"""Numbers that nobody can calculate with, and settings that are none, as a user gives them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest

from knowledge_sheaves.cli import app as application
from knowledge_sheaves.embedding import SheafConfig
from knowledge_sheaves.training import TrainingConfig

Sheaves = Callable[..., tuple[int, str, str]]


def numeric_options() -> list[tuple[str, str]]:
    """Every option of every command that takes a number."""
    found = []
    for command in application.app.registered_commands:
        assert command.callback is not None
        hints = get_type_hints(command.callback)
        for name in inspect.signature(command.callback).parameters:
            kinds = getattr(hints[name], "__args__", (hints[name],))
            if int in kinds or float in kinds:
                found.append((str(command.name or command.callback.__name__), name))
    return found


def test_there_are_options_to_try() -> None:
    assert len(numeric_options()) > 15


@pytest.mark.parametrize(("command", "option"), numeric_options())
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 10**30])
def test_every_option(command: str, option: str, value: float) -> None:
    (registered,) = (
        known
        for known in application.app.registered_commands
        if known.callback is not None and command in (known.name, known.callback.__name__)
    )
    assert registered.callback is not None
    with pytest.raises(application.InputError, match=f"--{option.replace('_', '-')} .* calculate"):
        registered.callback(**{option: value})


def test_the_command_line_says_so(sheaves: Sheaves, tmp_path: Path) -> None:
    code, _, err = sheaves("train", "nations", "--lr", "nan", "--out", tmp_path / "m")
    assert (code, err.count("\n")) == (2, 1)
    assert "--lr nan" in err


SETTINGS = [f for c in (SheafConfig, TrainingConfig) for f in fields(c)]
NUMBERS = [f.name for f in SETTINGS]
MAY_BE_NOTHING = {f.name for f in SETTINGS if f.default is None} | {"block", "negatives"}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize(
    "value", [".nan", ".inf", "9" * 30, "9" * 5000, "", "[]", "{}", "[1]", "{a: 1}"]
)
def test_every_setting(sheaves: Sheaves, tmp_path: Path, name: str, value: str) -> None:
    if value == "" and name in MAY_BE_NOTHING:
        pytest.skip("nothing is a choice here")
    code, _, err = sheaves("train", "nations", "--set", f"{name}={value}", "--out", tmp_path / "m")
    assert (code, err.count("\n")) == (2, 1), err
    assert "bug" not in err
    assert not (tmp_path / "m").exists()


def test_numbers_without_a_point_are_numbers(sheaves: Sheaves, tmp_path: Path) -> None:
    options = ("--dim", "4", "--epochs", "1", "--set", "n3=1e-3", "--set", "l2=1E-4")
    code, _, err = sheaves("train", "nations", *options, "--out", tmp_path / "m")
    assert code == 0, err
    said = json.loads((tmp_path / "m" / "config.json").read_text())
    assert '"n3": 0.001' in json.dumps(said)


@pytest.mark.parametrize(
    ("setting", "part"),
    [("threads=100000", "at most 1024"), ("threads=0", "at least 1"), ("threads=-1", "at least 1")],
)
def test_threads(sheaves: Sheaves, tmp_path: Path, setting: str, part: str) -> None:
    code, _, err = sheaves("train", "nations", "--set", setting, "--out", tmp_path / "m")
    assert code == 2
    assert part in err


@pytest.mark.parametrize(("model", "dim"), [("complex", 10**12), ("rescal", 10**6), ("se", 10**6)])
def test_huge_dimensions_say_what_they_would_take(
    sheaves: Sheaves, tmp_path: Path, model: str, dim: int
) -> None:
    code, _, err = sheaves("train", "nations", "--model", model, "--dim", dim, "--out", tmp_path)
    assert code == 2
    assert "GB of memory to train on 14 entities and 55 relations, and this machine has" in err

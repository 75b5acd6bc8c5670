"""Names come from other people's files: on the way to a terminal or a picture they are text."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from knowledge_sheaves.embedding import model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.plain import for_matplotlib
from knowledge_sheaves.training import TrainingConfig, train

Sheaves = Callable[..., tuple[int, str, str]]
EVIL = "\x1b]0;owned\x07\x9b2Jx\u202e$\\badmacro{$"
ACTIVE = "\x1b\x07\x9b\u202e"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a small graph, all of whose names are evil."""
    place = tmp_path_factory.mktemp("names")
    rows = [f"{EVIL}{n}\t{EVIL}r\t{EVIL}{(n + 1) % 9}" for n in range(9)]
    (place / "triples.tsv").write_text("\n".join(rows * 1 + [f"a\t{EVIL}r\tb"]))
    (place / "types.tsv").write_text("".join(f"{EVIL}{n}\t{EVIL}T\n" for n in range(9)))
    data = load(place, sizes=(1, 0, 0))
    train(data, model_config("rotate", dim=4), TrainingConfig(epochs=1), out=place / "model")
    return place


@pytest.mark.parametrize("as_json", [[], ["--json"]])
@pytest.mark.parametrize(
    "words",
    [
        ["predict", "--head", f"{EVIL}0", "--relation", f"{EVIL}r"],
        ["predict", "--head", "nobody", "--relation", f"{EVIL}r"],
        ["predict", "--head", f"{EVIL}0", "--relation", f"{EVIL}s"],
        ["neighbours", f"{EVIL}0"],
        ["info"],
        ["info", "--relations"],
    ],
)
def test_commands(sheaves: Sheaves, folder: Path, words: list[str], as_json: list[str]) -> None:
    command, *rest = words
    code, out, err = sheaves(command, folder / "model", *rest, *as_json)
    assert not set(ACTIVE) & set(out + err), ascii(out + err)
    if as_json and code == 0:
        assert json.loads(out)


def test_an_error_names_the_evil_file_plainly(sheaves: Sheaves, tmp_path: Path) -> None:
    code, _, err = sheaves("schema", tmp_path / f"{EVIL}.yaml")
    assert code == 2
    assert not set(ACTIVE) & set(err)
    assert r"\x1b]0;owned\x07\x9b2Jx" in err


def test_training_says_names_plainly(sheaves: Sheaves, folder: Path, tmp_path: Path) -> None:
    options = ("--model", "rotate", "--dim", "2", "--epochs", "1", "--out", tmp_path / "m")
    code, out, err = sheaves("train", folder / "triples.tsv", *options)
    assert code == 0, err
    assert not set(ACTIVE) & set(out + err)


@pytest.mark.parametrize("name", [EVIL, "$$", "$", "a$b$c", "\\$", "$\\frac$", "{$}", "%$#_^~"])
def test_pictures(name: str) -> None:
    figure = Figure()
    axes = figure.add_subplot()
    axes.set_title(for_matplotlib(name))
    axes.plot([1], [2], label=for_matplotlib(name))
    figure.legend()
    figure.savefig(io.BytesIO(), format="svg")


def test_an_endless_name_is_cut_in_an_error() -> None:
    assert len(str(InputError("x" * 10_000_000))) < 3000

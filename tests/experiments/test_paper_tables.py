"""The paper's tables in miniature: UMLS in the benchmark's layout, both models, every row."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from betae_cases import write_betae
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.readers import load

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One set with test queries, and one that has validation queries alone."""
    folder, umls = tmp_path_factory.mktemp("data"), load("umls")
    types = ("1p", "2p", "3p", "2i", "3i", "pi", "ip")
    write_betae(folder / "tested", umls, types, 6)
    write_betae(folder / "validated", umls, types, 2, split="valid")
    return folder


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module("paper_tables")


def written(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.md"))}


@pytest.mark.slow
def test_a_second_run_gives_the_same_tables_and_trains_nothing(
    tables: ModuleType, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, docs = tmp_path / "out", tmp_path / "docs"
    words = ["--data", str(data), "--sets", "tested", "--out", str(out)]
    tables.main([*words, "--docs", str(docs), "--epochs", "2"])
    assert capsys.readouterr().out.count("training, 2 epochs") == 2
    first = written(out)
    assert list(first) == ["paper-extension-tested.md", "paper-models-tested.md"]
    assert written(docs / "tables") == first
    states = {path: path.read_bytes() for path in out.rglob("*.state.json")}
    assert len(states) == 12
    tables.main([*words, "--epochs", "2"])
    assert "training" not in capsys.readouterr().out.replace("the training compares", "")
    assert written(out) == first
    assert all(path.read_bytes() == saved for path, saved in states.items())
    check_extension(first["paper-extension-tested.md"], out / "paper-tables-tested.json")
    check_captions(first)
    with pytest.raises(InputError, match="trained with other settings for epochs"):
        tables.main([*words, "--epochs", "3"])


def check_extension(table: str, file: Path) -> None:
    """Eight rows a table; along a path the sum of all translations is the extension."""
    names = [line.split("|")[1].strip("* ") for line in table.splitlines() if "|" in line]
    assert len(names) == 2 * (2 + 8)
    assert names[2:4] == ["easy, extension, one answer", "easy, extension, all answers"]
    found = json.loads(file.read_text(encoding="utf-8"))
    for path in ("2p", "3p"):
        ours, naive = (
            found[f"transe-{solver}-easy-all"]["types"][path]["mrr"]
            for solver in ("harmonic", "naive")
        )
        assert ours == pytest.approx(naive, abs=1e-3)


def check_captions(found: dict[str, str]) -> None:
    assert "tested: the official test queries" in found["paper-models-tested.md"]
    for text in found.values():
        trained = "`transe` was trained for 2 of the paper's 250 epochs with the Euclidean norm."
        assert trained in text
        assert "minimises the squared Euclidean norm" in text
    assert (
        "`se` was trained for 2 of the paper's 250 epochs with the Euclidean norm."
        in (found["paper-models-tested.md"])
    )


def test_the_papers_numbers_stand_beside_ours(
    tables: ModuleType, data: Path, tmp_path: Path
) -> None:
    """On NELL's queries: the paper's rows are above ours, and those of other systems."""
    folder, models = data / "validated", {}
    for name in tables.MODELS:
        settings = tables.SETTINGS / f"{name}.yaml"
        config, training = tables.make_settings(settings, {"epochs": 1}, None)
        models[name] = tables.trained(load(folder), config, training, tmp_path / name)
    reports = {
        row: replace(report, query_set="NELL-995")
        for row, report in tables.measure(folder, models, tmp_path, sample=1).items()
    }
    lines = tables.extension_tables(reports, models).splitlines()
    assert lines[2] == "| easy, extension, paper | 23.7 | 12.0 | 28.0 | 19.8 | 34.0 | 29.6 |"
    hits = lines.index("| H@10 × 100 | 2p | 3p | 2i | 3i | pi | ip |")
    assert lines[hits + 2] == "| easy, extension, paper | 35.5 | 20.1 | 46.7 | 36.8 | 49.9 | 42.7 |"
    assert lines[-1].startswith("validated: 1 sampled of validation queries")
    names = [
        line.split("|")[1].strip()
        for line in tables.model_table(reports, models).splitlines()[2:-2]
    ]
    assert names == [
        *("GQE", "Q2B", "BetaE", "ExtensionSE, d = 32, paper"),
        *("**ExtensionSE, d = 32, one answer**", "**ExtensionSE, d = 32, all answers**"),
        "ExtensionTransE, d = 32, paper",
        *("**ExtensionTransE, d = 32, one answer**", "**ExtensionTransE, d = 32, all answers**"),
    ]

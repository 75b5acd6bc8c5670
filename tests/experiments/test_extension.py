"""What makes harmonic extension work, in miniature: two small models of UMLS, asked twice."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from betae_cases import write_betae
from knowledge_sheaves.embedding import model_config
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.training import TrainingConfig, train

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
HARMONIC = {
    "transe": ["naive", "harmonic", "harmonic, λ = 1"],
    "complex": [
        *("harmonic, free", "harmonic, free, λ = 1", "harmonic, composite"),
        *("harmonic, composite, λ = 1", "harmonic, sphere, λ = 1"),
    ],
}


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module("extension")


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("betae") / "umls"
    write_betae(folder, load("umls"), ["1p", "2p", "2i"], 12)
    return folder


def run(extension: ModuleType, name: str, queries: Path, place: Path) -> dict[str, Any]:
    """Train a model, unless it is there, and run the whole driver."""
    if not (place / "model").exists():
        config = TrainingConfig(epochs=3, negatives=None)
        train(load("umls"), model_config(name, dim=16), config, out=place / "model")
    words = [place / "model", "--queries", queries, "--types", "1p", "2p", "2i", "--sample", 10]
    words += ["--paths", 8, "--k", 1, 16, "--out", place / "out", "--docs", place / "docs"]
    extension.main([*map(str, words)])
    return json.loads((place / "out" / "extension.json").read_text(encoding="utf-8"))


def check(found: dict[str, Any], name: str, facts: tuple[str, ...]) -> None:
    """Every way has answered everything, and paths of one relation alike."""
    chained = [f"chaining, facts {each}, k = {k}" for each in facts for k in (1, 16)]
    assert list(found["benchmark"]) == [*HARMONIC[name], *chained]
    assert all(list(of) == ["1p", "2p", "2i"] for of in found["benchmark"].values())
    lengths = [f"{length}p" for length in range(1, 7)]
    assert all(list(of) == lengths for of in found["paths"].values())
    assert all(of["6p"]["queries"] == 8 for of in found["paths"].values())
    # With nothing between source and target all ways rank as the model's energies do.
    ones = [of["1p"]["mrr"] for way, of in found["paths"].items() if "remembered" not in way]
    assert ones == pytest.approx(ones[:1] * len(ones))


@pytest.mark.slow
def test_a_lifted_model_is_extended_in_all_ways(
    extension: ModuleType, queries: Path, tmp_path: Path
) -> None:
    check(run(extension, "complex", queries, tmp_path), "complex", extension.FACTS)


@pytest.mark.slow
def test_a_second_run_gives_the_same_tables_and_pictures(
    extension: ModuleType, queries: Path, tmp_path: Path
) -> None:
    made = ("extension.md", "extension.csv", "paths.csv", "extension.svg", "paths.svg")
    check(run(extension, "transe", queries, tmp_path), "transe", extension.FACTS)
    first = {file: (tmp_path / "out" / file).read_bytes() for file in made}
    run(extension, "transe", queries, tmp_path)  # the times are those of the first run
    assert {file: (tmp_path / "out" / file).read_bytes() for file in made} == first
    docs = tmp_path / "docs"
    assert (docs / "tables" / "extension.md").read_bytes() == first["extension.md"]
    assert (docs / "img" / "paths.svg").read_bytes() == first["paths.svg"]
    assert (tmp_path / "out" / "paths.png").exists()


def test_inverses_are_told_by_their_names(extension: ModuleType) -> None:
    names = ["+r", "-r", "s", "s_reverse", "t"]
    assert extension.inverse_relations(names) == [1, 0, 3, 2, -1]


def test_queries_answered_together_are_ranked_as_if_alone(
    extension: ModuleType, monkeypatch: pytest.MonkeyPatch, queries: Path
) -> None:
    model = train(load("umls"), model_config("transe", dim=8), TrainingConfig(epochs=1))
    words = type("Words", (), {"queries": str(queries), "split": "test", "paths": 6})
    asked = extension.draw_paths(model, words)["3p"]
    way = extension.without_search(model, 1.0)["harmonic"]
    together = extension.measure(model, asked, way)
    monkeypatch.setattr(extension, "SOME", 1)
    alone = extension.measure(model, asked, way)
    assert np.isclose(together["mrr"], alone["mrr"])

"""Hierarchical types in miniature: planted data, three rows at equal parameters, trained once."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import yaml

from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.classes import Classes

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def hierarchy(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module("hierarchy")


def test_a_second_run_gives_the_same_table_and_trains_nothing(
    hierarchy: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = yaml.safe_load(hierarchy.SETTINGS.read_text(encoding="utf-8"))
    settings["planted"] |= {"size": 12, "relations": settings["planted"]["relations"][2:6]}
    settings["sets"]["planted"]["settings"] |= {"epochs": 1, "dim": 8, "type_dim": 4}
    settings["seeds"] = [1]
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    words = ["--sets", "planted", "--settings", tmp_path / "settings.yaml"]
    words += ["--out", tmp_path / "out"]
    hierarchy.main(list(map(str, words)))
    first = (tmp_path / "out" / "hierarchy.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out.count("training, 1 epochs") == 3
    hierarchy.main(list(map(str, words)))
    assert "training" not in capsys.readouterr().out
    assert (tmp_path / "out" / "hierarchy.md").read_text(encoding="utf-8") == first
    rows = [json.loads(file.read_text()) for file in (tmp_path / "out/planted/1").glob("*.json")]
    sizes = [row["parameters"] for row in rows]
    assert max(sizes) < 1.3 * min(sizes)  # blocks of so small models are coarse steps
    assert max(row["classes"] for row in rows) == 2  # A and B: no other relation is left


def test_planted_relations_are_about_their_classes(hierarchy: ModuleType) -> None:
    about = yaml.safe_load(hierarchy.SETTINGS.read_text(encoding="utf-8"))["planted"]
    case = hierarchy.planted(about | {"size": 20})
    found = case.shared.train.ancestry
    assert set(found.names) == set(about["classes"])
    names = case.shared.train.schema.relation_names
    up = {"A1": {"A", "A1"}, "B": {"B"}, "AB": {"AB", "A1", "B1", "A", "B"}, "A": {"A"}}
    for relation, ends in (("r0", ("", "")), ("r6", ("A1", "B")), ("r11", ("AB", "A"))):
        for end, kind in zip(("head", "tail"), ends, strict=True):
            seen = found.ends[end][names.index(relation)]
            # More than it is about may be seen where its best tails happen to be of one class.
            assert {found.names[c] for c in np.flatnonzero(seen)} >= up.get(kind, set())
    assert case.stalks.train.num_triples == case.shared.train.num_triples


def test_a_type_is_below_what_most_of_it_is_as_well(hierarchy: ModuleType) -> None:
    graph = KnowledgeGraph.from_triples([(f"e{i}", "r", f"e{i + 1}") for i in range(6)])
    types = {f"e{i}": ["city", "place"] if i < 2 else ["place"] for i in range(5)}
    types["e5"] = ["city"]
    found = hierarchy.induced(
        Classes.of(list(graph.entities), types), list(graph.entities), most=0.5
    )
    assert found.said.subclass_of == {"city": ("place",)}
    assert found.members("place").tolist() == [True] * 6 + [False]

"""Typed stalks in miniature: a typed UMLS with false triples, three rows, each trained once."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import yaml

from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers import load

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
SETTINGS = {
    "sets": {"umls": {"path": "umls", "types": "types.tsv", "negatives": True}},
    "min_type_count": 1,
    "min_pair_count": 2,
    "base": {"model": "rescal", "dim": 16, "block": 4, "epochs": 2, "negatives": None, "seed": 1},
    "rows": {
        "one type": {"typed": False},
        "types": {"typed": True},
        "types, 8 entities a number": {"typed": True, "per_number": 8},
    },
}


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module("typed")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """UMLS with a large type and a small one, and as many false triples as held-out ones."""
    data, folder = load("umls"), tmp_path / "umls"
    folder.mkdir()
    entities = list(data.train.entities)
    rng = np.random.default_rng(0)
    for split, graph in data.splits.items():
        rows = graph.decode(graph.triples)
        _write(folder / f"{split}.txt", rows)
        if split != "train":
            drawn = rng.choice(entities, len(rows))
            false = [(h, r, str(t)) for (h, r, _), t in zip(rows, drawn, strict=True)]
            _write(folder / f"{split}_negatives.txt", false)
    kinds = ["small" if place < 20 else "large" for place in range(len(entities))]
    _write(tmp_path / "types.tsv", [("entity", "type"), *zip(entities, kinds, strict=True)])
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(SETTINGS, sort_keys=False))
    return tmp_path


def _write(path: Path, rows: list[tuple[str, ...]]) -> None:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


def test_a_second_run_gives_the_same_table_and_trains_nothing(
    typed: ModuleType, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, docs = root / "out", root / "docs"
    words = ["--data", root, "--settings", root / "settings.yaml", "--out", out, "--docs", docs]
    typed.main([*map(str, words), "--sets", "umls"])
    first = (out / "types.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out.count("training, 2 epochs") == 3
    typed.main([*map(str, words), "--epochs", "2"])
    assert "epochs\n" not in capsys.readouterr().out
    assert (out / "types.md").read_text(encoding="utf-8") == first
    assert (docs / "tables" / "types.md").read_text(encoding="utf-8") == first
    rows = json.loads((out / "types.json").read_text(encoding="utf-8"))
    plain, wide, narrow = (rows[f"umls: {name}"] for name in SETTINGS["rows"])
    assert (plain["types"], wide["types"]) == (1, 2)
    assert wide["stalks"] == {"large": 16, "small": 16}
    assert narrow["stalks"] == {"large": 16, "small": 4}
    entities = {name: of["parameters"] - of["map_parameters"] for name, of in rows.items()}
    assert list(entities.values()) == [135 * 16, 135 * 16, 115 * 16 + 20 * 4]
    assert narrow["map_parameters"] < wide["map_parameters"]
    for row in (plain, wide, narrow):
        assert row["classification"]["count"] == 2 * 661
        assert row["classification"]["accuracy"] > 0.5
        assert row["test"]["mrr"] > 0.1


def test_the_schema_knows_only_what_training_shows(typed: ModuleType) -> None:
    types = {"ann": "person", "bob": "person", "fargo": "film"}
    whole = KnowledgeGraph.from_triples(
        [("ann", "likes", "bob"), ("ann", "likes", "fargo")], types=types
    )
    person, film = ([row] for row in whole.triples.tolist())
    data = Dataset(whole.with_triples(np.array(person)), test=whole.with_triples(np.array(film)))
    known = typed.as_trained(data)
    assert [relation.tail for relation in known.train.schema.relations] == ["person"]
    assert known.test.num_triples == 0
    plain = typed.without_types(data)
    assert plain.test.decode(plain.test.triples) == [("ann", "likes", "fargo")]

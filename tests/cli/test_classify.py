"""`sheaves evaluate --negatives` as a user meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from knowledge_sheaves.embedding import SheafEmbedding

Sheaves = Callable[..., tuple[int, str, str]]


@pytest.fixture
def negatives(model: Path, tmp_path: Path) -> Path:
    """False facts: the held-out ones with their relations put off by one."""
    loaded = SheafEmbedding.load(model)
    graph, folder = loaded.graph, tmp_path / "false"
    folder.mkdir()
    assert loaded.info is not None
    names = list(graph.schema.relation_names)
    for split, triples in loaded.info.held_out.items():
        rows = [(h, names[names.index(r) - 1], t) for h, r, t in graph.decode(triples)]
        rows.append(("nobody", names[0], "nothing"))
        lines = ["\t".join(row) + "\n" for row in rows]
        (folder / f"{split}_negatives.txt").write_text("".join(lines))
    return folder


def test_facts_are_told_from_false_ones(sheaves: Sheaves, model: Path, negatives: Path) -> None:
    code, out, err = sheaves("evaluate", model, "--negatives", negatives, "--json")
    assert code == 0
    assert err.count("1 of ") == 2  # nobody, in both files
    report = json.loads(out)
    assert report["overall"]["accuracy"] > 0.6
    assert (
        sum(part["count"] for part in report["by_relation"].values())
        == (report["overall"]["count"])
    )
    code, out, _ = sheaves("evaluate", model, "--negatives", negatives)
    assert code == 0
    last = [line for line in out.splitlines() if line.strip()][-1].split()
    assert last[0] == "all"
    assert last[2] == f"{report['overall']['accuracy']:.4f}"


def test_a_folder_without_negatives_is_bad_input(sheaves: Sheaves, model: Path) -> None:
    code, _, err = sheaves("evaluate", model, "--negatives", model)
    assert code == 2
    assert "no file valid_negatives" in err

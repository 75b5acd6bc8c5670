"""`sheaves synthesise` as a user meets it; what it makes is tested with the graphs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

Sheaves = Callable[..., tuple[int, str, str]]


def test_it_makes_data_and_says_what_can_be_reached(sheaves: Sheaves, tmp_path: Path) -> None:
    out = tmp_path / "made"
    wanted = ("--like", "nations", "--entities", 200, "--triples", 2000, "--out", out)
    code, text, err = sheaves("synthesise", *wanted)
    assert (code, err) == (0, "")
    assert "MRR of the rules" in text
    assert "tails of a head" in text
    code, text, _ = sheaves("synthesise", *wanted, "--json")
    about = json.loads(text)
    assert about == json.loads((out / "synthesis.json").read_text())
    assert about["entities"] == 200
    assert 0 < about["ceiling"]["mrr"] <= 1


def test_too_few_entities_are_refused(sheaves: Sheaves, tmp_path: Path) -> None:
    types = tmp_path / "types.tsv"
    types.write_text("china\tcountry\ncuba\tisland\n")
    code, _, err = sheaves(
        "synthesise",
        "--like",
        "nations",
        "--types",
        types,
        "--entities",
        3,
        "--out",
        tmp_path / "m",
    )
    assert code == 2
    assert "3 entities are too few for 3 types" in err
    assert not (tmp_path / "m").exists()

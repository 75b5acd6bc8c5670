"""`sheaves benchmark` as a user meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

Sheaves = Callable[..., tuple[int, str, str]]


def test_results_are_shown_written_drawn_and_kept(
    sheaves: Sheaves, model: Path, queries: Path, tmp_path: Path
) -> None:
    out, picture = tmp_path / "results" / "umls.json", tmp_path / "umls.svg"
    words = ("benchmark", model, "--queries", queries, "--types", "2in,1p", "--out", out)
    code, shown, err = sheaves(*words, "--plot", picture, "--check")
    assert code == 0, err
    assert err.splitlines()[0].split()[:3] == ["1p", "5", "queries"]
    row = next(line.split() for line in shown.splitlines() if "chaining, facts remembered" in line)
    found = json.loads(out.read_text(encoding="utf-8"))
    assert row[3] == f"{100 * found['types']['1p']['mrr']:.1f}"
    assert row[4] == "–"
    assert set(found["types"]) == {"1p", "2in"}
    assert picture.read_text(encoding="utf-8").startswith("<?xml")
    code, shown, err = sheaves(*words, "--json")
    assert code == 0
    again = json.loads(shown)
    assert all(each.pop("resumed") for each in again["types"].values())
    assert not any(each.pop("resumed") for each in found["types"].values())
    assert again["types"] == found["types"]


TOLD = ("k=3", "kappa=2", "strength=0.5", "tau=0.7", "softness=0.25", "focus=1.5", "facts=ignored")


def test_options_reach_the_solver(sheaves: Sheaves, model: Path, queries: Path) -> None:
    code, shown, err = sheaves(
        *("benchmark", model, "--queries", queries, "--types", "2p", "--sample", 2, "--json"),
        *("--solver", "chaining", "--answers", "easy", "--one-answer"),
        *(word for told in TOLD for word in ("--set", told)),
    )
    assert code == 0, err
    report = json.loads(shown)
    given = {"solver": "chaining", "facts": "ignored", "k": 3, "kappa": 2.0, "tau": 0.7}
    # What this solver does not go by is not told.
    more = {"softness": 0.25, "focus": 1.5, "objective": "probability", "known": "train"}
    assert report["options"] == given | more | {"search": "auto"}
    assert report["protocol"] == {"answers": "easy", "one_answer": True, "sample": 2, "seed": 0} | {
        "half": None
    }
    assert report["types"]["2p"]["queries"] == 2


def test_the_halves_of_the_queries_make_up_all_of_them(
    sheaves: Sheaves, model: Path, queries: Path
) -> None:
    words = ("benchmark", model, "--queries", queries, "--types", "2p", "--json")
    found = [
        json.loads(sheaves(*words, *half)[1])["types"]["2p"]
        for half in ((), ("--half", "first"), ("--half", "second"))
    ]
    whole, *halves = [(each["queries"], each["queries"] * each["mrr"]) for each in found]
    assert whole == pytest.approx(np.sum(halves, axis=0))
    assert min(count for count, _ in halves) == whole[0] // 2


def test_a_type_that_the_solver_refuses_is_a_dash(
    sheaves: Sheaves, model: Path, queries: Path
) -> None:
    words = ("--queries", queries, "--types", "inp", "--solver", "harmonic")
    code, shown, _ = sheaves("benchmark", model, *words)
    assert code == 0
    assert "– at inp: The solver harmonic takes negation at the target only" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--types", "9z"], "There is no query type '9z'"),
        (["--split", "valid"], "valid-queries.pkl"),
        (["--plot", "dots.txt"], "pictures are written as"),
    ],
)
def test_bad_options_are_one_sentence(
    sheaves: Sheaves, model: Path, queries: Path, words: list[str], message: str
) -> None:
    code, _, err = sheaves("benchmark", model, "--queries", queries, *words)
    assert code == 2
    assert message in err.splitlines()[-1]


def test_a_folder_or_a_model_of_something_else(
    sheaves: Sheaves, model: Path, queries: Path, typed_model: Path, tmp_path: Path
) -> None:
    code, _, err = sheaves("benchmark", model, "--queries", tmp_path)
    assert (code, err.count("\n")) == (2, 1)
    assert "is not a folder of the BetaE benchmark" in err
    code, _, err = sheaves("benchmark", typed_model, "--queries", queries)
    assert (code, err.count("\n")) == (2, 1)
    assert "lacks 135 of the 135 entities" in err

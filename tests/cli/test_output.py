"""Tables in every form, never broken over lines; quiet; completion by the shell."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from cli.conftest import Sheaves
from knowledge_sheaves.cli.output import table

LONG = "http://example.org/" + "a-name-that-goes-on/" * 6


def rendered(width: int) -> list[str]:
    text = io.StringIO()
    rows = [{"name": LONG, "energy": 0.25, "known": None}]
    Console(file=text, width=width, force_terminal=True).print(table("", rows))
    return text.getvalue().splitlines()


def test_a_narrow_terminal_cuts_names_and_no_number() -> None:
    lines = [line for line in rendered(60) if "http" in line]
    assert len(lines) == 1, "one line for one row"
    assert "…" in lines[0]
    assert "0.2500" in lines[0]
    assert any(LONG in line for line in rendered(400))


def test_a_pipe_is_as_wide_as_need_be(
    sheaves: Sheaves, typed_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    _, out, _ = sheaves("query", typed_model, "Ann likes ?x", "--solver", "harmonic")
    assert "…" not in out
    assert any({"Fargo", "Q1"} <= set(line.split()) for line in out.splitlines())


def rows_of(out: str, form: str) -> list[dict[str, str]]:
    if form == "markdown":
        header, _, *rows = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in out.splitlines()
            if line.startswith("|")
        ]
        return [dict(zip(header, row, strict=True)) for row in rows]
    return list(csv.DictReader(io.StringIO(out), delimiter="," if form == "csv" else "\t"))


@pytest.mark.parametrize("form", ["csv", "tsv", "markdown"])
def test_answers_in_other_forms(sheaves: Sheaves, typed_model: Path, form: str) -> None:
    asked = ("query", typed_model, "Ann likes ?x", "--solver", "harmonic", "--explain")
    code, out, _ = sheaves(*asked, "--format", form)
    assert code == 0
    rows = {row["?x"]: row for row in rows_of(out, form)}
    assert rows["Q1"]["?x label"] == "Fargo"
    assert rows["Q1"]["known"] == "true"
    assert rows["Q1"]["because"].startswith("Ann likes Fargo (known)")
    float(rows["Q1"]["energy"])


def test_every_table_has_the_forms(sheaves: Sheaves, typed_model: Path) -> None:
    for words in (
        ("predict", typed_model, "--head", "Ann", "--relation", "likes"),
        ("neighbours", typed_model, "Ann"),
        ("info", typed_model),
        ("check", typed_model),
        ("solvers",),
        ("consistency", typed_model),
        ("density", typed_model),
    ):
        code, out, _ = sheaves(*words, "--format", "tsv")
        assert code == 0
        assert len({line.count("\t") for line in out.splitlines()[:2]}) == 1
        json.loads(sheaves(*words, "--format", "json")[1])
        assert sheaves(*words, "--json")[1] == sheaves(*words, "--format", "json")[1]
    code, _, err = sheaves("query", typed_model, "Ann likes ?x", "--format", "xml")
    assert (code, err) == (
        2,
        "sheaves: --format is one of table, csv, tsv, json, markdown, not 'xml'.\n",
    )


def test_quiet_leaves_results_alone(sheaves: Sheaves, typed_model: Path, tmp_path: Path) -> None:
    words = ("predict", typed_model, "--head", "Ann", "--relation", "likes")
    assert "temperature" in sheaves(*words)[1]
    code, out, err = sheaves(*words, "--quiet")
    assert (code, err) == (0, "")
    assert "temperature" not in out
    assert "Fargo" in out
    code, _, err = sheaves("predict", tmp_path, "--head", "a", "--relation", "b", "--quiet")
    assert code == 2
    assert "is not a model" in err, "what goes wrong is said all the same"


def test_the_shell_completes_commands() -> None:
    asked = {"_SHEAVES_COMPLETE": "complete_bash", "COMP_WORDS": "sheaves ev", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "knowledge_sheaves"],
        env=os.environ | asked,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["evaluate"]

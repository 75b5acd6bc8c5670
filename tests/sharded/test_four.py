"""Four processes, and how well a model learns when several train it: `make test-sharded`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sharded.test_training import TESTS, check_killed, check_together
from sharded_cases import LONG, finished, needs_torchrec, sentences, torchrun

pytestmark = [pytest.mark.sharded, needs_torchrec]
SAMPLES = 1024
"""Facts in a step, of all processes together."""


def test_four_processes_rank_and_answer_as_one(tmp_path: Path) -> None:
    check_together(4, tmp_path)


def test_four_are_killed_and_one_resumes(tmp_path: Path) -> None:
    check_killed(4, tmp_path, 1)


def test_several_learn_as_well_as_one(tmp_path: Path) -> None:
    """The same number of epochs and of facts in a step: the MRR differs as it does by seeds."""
    found = {}
    for count in (1, 2, 4):
        words = ["train", "kinships", "--sharded", "--model", "complex", "--dim", "32"]
        words += ["--batch-size", str(SAMPLES // count), "--negatives", "60", "--epochs", "12"]
        words += ["--set", "n3=0.01", "--out", str(tmp_path / f"m{count}"), "--json"]
        printed, _ = finished(torchrun(count, "-m", "knowledge_sheaves.cli", *words, env=TESTS))
        found[count] = json.loads(printed)["validation_mrr"]
    assert found[1] > 0.6, found
    assert max(found.values()) - min(found.values()) < 0.05, found


def test_a_process_lost_at_the_start_costs_one_sentence(tmp_path: Path) -> None:
    script = tmp_path / "start.py"
    script.write_text(
        "import os, sys\n"
        "from knowledge_sheaves.cli import main\n"
        "from knowledge_sheaves.processes import _store\n"
        "if os.environ['RANK'] == '2':  # it goes when the others wait for it\n"
        "    _store(600).wait([f'sheaves/here/{rank}' for rank in (0, 1, 3)])\n"
        "    sys.exit(3)\n"
        "main()\n"
    )
    words = ["train", "nations", "--sharded", "--out", tmp_path / "m"]
    running = torchrun(4, script, *words, env=TESTS)
    _, said = running.communicate(timeout=LONG)
    assert running.returncode != 0
    (sentence,) = sentences(said)
    assert sentence.endswith("one of them was lost. Start it again.")
    assert not (tmp_path / "m").exists()


def test_a_mistake_is_said_once(tmp_path: Path) -> None:
    words = ["train", "nations", "--sharded", "--set", "averaging=2", "--out", tmp_path / "m"]
    running = torchrun(4, "-m", "knowledge_sheaves.cli", *words, env=TESTS)
    _, said = running.communicate(timeout=LONG)
    (sentence,) = sentences(said)
    assert sentence.startswith("sheaves: --sharded cannot do averaging")

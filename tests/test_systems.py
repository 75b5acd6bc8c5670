"""What runs on every system: nothing leans on a module that only Unix has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from knowledge_sheaves import memory

WITHOUT_UNIX = """
import sys

import psutil  # has a back end for each system; the one for Linux may lean on Linux

for name in ("resource", "fcntl", "pwd", "grp", "termios"):
    sys.modules[name] = None  # an import of it fails, as on Windows

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.query.asking import Asker
from knowledge_sheaves.training import TrainingConfig, train

settings = TrainingConfig(epochs=1)
model = train(load("nations"), model_config("complex", dim=8), settings, out="model")
assert model.info.peak_memory > 10 * 2**20
asker = Asker(SheafEmbedding.load("model"))
print(len(asker.answer("usa embassy ?x", top=3)))
assert "torch._dynamo" not in sys.modules, "the compiler takes seconds to import"
"""


def test_training_and_asking_need_no_module_of_unix(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_UNIX],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "3\n"


def test_the_peak_of_memory_stays_when_memory_is_given_back() -> None:
    before, size = memory.peak_memory(), 2**29
    array = np.ones(size, np.uint8)
    assert memory.peak_memory() > size
    del array
    assert memory.peak_memory() >= max(before, size)


def test_without_a_count_of_the_system_it_is_what_the_process_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "Path", lambda _: Path("nowhere"))
    held = memory.psutil.Process().memory_info().rss
    assert memory.peak_memory() == pytest.approx(held, rel=0.1)

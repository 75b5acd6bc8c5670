"""Several processes that save into one folder, and several that load it meanwhile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from crash.racing import marked, marks
from knowledge_sheaves.embedding import SheafEmbedding

SCRIPT = Path(__file__).with_name("racing.py")


def race(folder: Path, writers: int, readers: int, seconds: float) -> dict[str, list[int]]:
    """Let them run side by side; how often each has saved or loaded."""
    jobs = [("save", number) for number in range(1, writers + 1)] + [("load", 0)] * readers
    running = [
        subprocess.Popen(
            [sys.executable, SCRIPT, action, folder, str(number), str(seconds)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for action, number in jobs
    ]
    counts: dict[str, list[int]] = {"save": [], "load": []}
    for (action, _), process in zip(jobs, running, strict=True):
        out, err = process.communicate(timeout=seconds + 120)
        assert process.returncode == 0, err[-2000:]
        counts[action].append(int(out))
    return counts


@pytest.mark.parametrize(
    ("writers", "readers", "seconds"),
    [(3, 2, 2.0), pytest.param(4, 4, 60.0, marks=pytest.mark.slow)],
)
def test_racing_writers_never_mix_and_readers_never_fail(
    writers: int, readers: int, seconds: float, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    marked(1).save(folder)
    counts = race(folder, writers, readers, seconds)
    print(counts)
    assert min(counts["save"] + counts["load"]) > 0, counts
    assert len(marks(SheafEmbedding.load(folder))) == 1
    assert [item.name for item in tmp_path.iterdir()] == ["model"], "nothing is left beside"

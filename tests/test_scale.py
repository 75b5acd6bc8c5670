"""A miniature of how costs grow: every part of bench/scale.py, on two thousand entities."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

SIZE = 2000


@pytest.fixture
def scale(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "bench")
    import scale  # type: ignore[import-not-found]

    monkeypatch.setattr(scale, "QUESTIONS", 5)
    threads = torch.get_num_threads()
    yield scale
    torch.set_num_threads(threads)
    del sys.modules["scale"]


@pytest.mark.slow
def test_every_part_is_measured(scale: ModuleType, tmp_path: Path) -> None:
    scale.made(tmp_path, SIZE, "nations")
    found: dict[str, float] = {}
    for name, part in scale.PARTS.items():
        found |= part(tmp_path, SIZE, 3) if name == "train" else part(tmp_path, SIZE)
    assert found.keys() >= scale.COLUMNS.keys()
    assert found["recall 1p"] > 0.8
    assert found["tables and optimiser"] == pytest.approx(SIZE * 129 * 4 / 2**30, rel=0.1)
    rows = {SIZE: found, 10 * SIZE: {}}
    lines = scale.table(rows).splitlines()
    assert lines[0] == "| | 2,000 | 20,000 |"
    assert len(lines) == 2 + len(scale.COLUMNS)
    scale.draw({SIZE: found}, tmp_path / "grows.svg")
    assert (tmp_path / "grows.svg").read_text().startswith("<?xml")

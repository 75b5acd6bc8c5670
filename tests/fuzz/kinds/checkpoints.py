"""Damaged checkpoints: refused by an error of ours, or gone on with as they were written."""

from __future__ import annotations

import functools
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from fuzz.damage import damage, unusual
from knowledge_sheaves.embedding import model_config
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.training import TrainingConfig
from knowledge_sheaves.training.checkpoint import _digest
from knowledge_sheaves.training.trainer import Run


@functools.cache
def _data() -> Dataset:
    rows = [(f"e{i}", "r", f"e{i * 3 % 7}") for i in range(7)]
    train = KnowledgeGraph.from_triples(rows)
    return Dataset(train, train.with_triples(rows[:2]))


def _run(out: Path, seed: int = 1) -> Run:
    config = TrainingConfig(epochs=3, averaging=1.0, negatives=None, batch_size=4, seed=seed)
    return Run(_data(), model_config("distmult", dim=4), config, out, None)


@functools.cache
def _checkpoint(seed: int) -> Path:
    run = _run(Path(tempfile.mkdtemp(prefix="runs-")) / "model", seed)
    run._keep(0, run._epoch(0))
    return run._checkpoint


def attack(seed: int, place: Path) -> Callable[[], object]:
    """Damage a checkpoint; what is returned goes on with it."""
    chance = random.Random(seed)
    run = _run(place / "model")
    shutil.copy(_checkpoint(chance.choice([1, 1, 1, 1, 2])), run._checkpoint)
    how = chance.random()
    if how < 0.05:
        unusual(run._checkpoint, chance)
    elif how < 0.95:  # one that is whole must be taken
        damage(run._checkpoint, chance)
    liar = run._checkpoint.is_file() and chance.random() < 0.5
    liar = liar and _reseal_checkpoint(run._checkpoint)

    def go_on() -> None:
        run._resume()
        same = _contents(run._checkpoint) == _contents(_checkpoint(1))
        assert liar or same, "a damaged checkpoint was taken for a sound one"

    return go_on


def _contents(path: Path) -> tuple[dict[str, str], dict[str, list[float]]]:
    """What a checkpoint says, and not how its header is laid out."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name).tolist() for name in file.keys()}  # noqa: SIM118
        return dict(file.metadata()), tensors


def _reseal_checkpoint(path: Path) -> bool:
    try:
        with safe_open(path, framework="pt") as file:
            said: dict[str, Any] = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        said.pop("sha256", None)
        save_file(tensors, path, said | {"sha256": _digest(said, tensors)})
    except (OSError, SafetensorError, ValueError, TypeError, RuntimeError, AttributeError):
        return False
    return True

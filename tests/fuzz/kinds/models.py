"""Damaged model folders and checkpoints: refused by an error of ours, and never a mixture."""

from __future__ import annotations

import functools
import json
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from crash.racing import marked, marks
from fuzz.damage import damage, unusual
from knowledge_sheaves.embedding import SheafEmbedding, model_config, storage
from knowledge_sheaves.embedding.check import check_model
from knowledge_sheaves.embedding.folder import CONFIG, METRICS, SEALED, sha256
from knowledge_sheaves.embedding.storage import dataset_of
from knowledge_sheaves.errors import SheafError
from knowledge_sheaves.files import sealed
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.training import TrainingConfig
from knowledge_sheaves.training.checkpoint import _digest
from knowledge_sheaves.training.trainer import Run

FILES = (CONFIG, *SEALED, METRICS)


@functools.cache
def _kept() -> Path:
    return Path(tempfile.mkdtemp(prefix="folders-"))


@functools.cache
def _saved(number: int) -> Path:
    """A model each of whose files says which one it is."""
    marked(number).save(_kept() / str(number))
    return _kept() / str(number)


def damaged_model(seed: int, place: Path) -> Callable[[], object]:
    """Damage a folder; what is returned loads it, asks it, and looks whether it is one model."""
    chance = random.Random(seed)
    folder = Path(shutil.copytree(_saved(1), place / "model"))
    for _ in range(chance.choice([1, 1, 2])):
        name = chance.choice(FILES)
        how = chance.random()
        if how < 0.25:
            shutil.copy(_saved(2) / name, folder)
        elif how < 0.3 and (folder / name).is_file():
            unusual(folder / name, chance)
        elif (folder / name).is_file():
            damage(folder / name, chance)
    # A liar may have made the checksums fit, and a large file may not be hashed on loading.
    liar = chance.random() < 0.4 and _reseal(folder)
    hashed = chance.choice([0, storage.HASHED])
    return lambda: _look(folder, liar, hashed)


def _reseal(folder: Path) -> bool:
    """Make all checksums fit; whether that could be done."""
    if not all((folder / name).is_file() for name in (CONFIG, *SEALED)):
        return False
    try:
        config = json.loads((folder / CONFIG).read_bytes())
        for name in SEALED:
            config["sha256"][name] = sha256(folder / name)
        (folder / CONFIG).write_text(json.dumps(sealed(config)))
        if (folder / METRICS).is_file():
            metrics = json.loads((folder / METRICS).read_bytes())
            (folder / METRICS).write_text(json.dumps(sealed(metrics)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    return True


def _look(folder: Path, liar: bool, hashed: int) -> None:
    usual, storage.HASHED = storage.HASHED, hashed
    try:
        model = SheafEmbedding.load(folder)
        _ask(model)
    except SheafError as error:
        if "\n" in str(error) or len(str(error)) > 1500:
            raise AssertionError(f"more than a sentence: {error}") from error
        raise
    finally:
        storage.HASHED = usual
        found = [finding.problem for finding in check_model(folder) if finding.problem]
    if liar:
        return
    assert found or len(marks(model)) == 1, f"a mixture of {marks(model)}"
    if hashed:
        assert not found, f"loaded, and yet {found}"


def _ask(model: SheafEmbedding) -> None:
    if model.graph.num_entities and model.num_relations:
        model.score_tails(torch.tensor([0]), torch.tensor([0]))
    if model.graph.num_triples:
        model.scores(model.graph.triples)
    dataset_of(model)


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
    run = _run(_kept() / f"run{seed}", seed)
    run._keep(0, run._epoch(0))
    return run._checkpoint


def damaged_checkpoint(seed: int, place: Path) -> Callable[[], object]:
    """Damage a checkpoint; what is returned goes on with it."""
    chance = random.Random(seed)
    run = _run(place / "model")
    shutil.copy(_checkpoint(chance.choice([1, 1, 1, 1, 2])), run._checkpoint)
    if chance.random() < 0.05:
        unusual(run._checkpoint, chance)
    else:
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
    from safetensors.torch import save_file

    try:
        with safe_open(path, framework="pt") as file:
            said: dict[str, Any] = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        said.pop("sha256", None)
        save_file(tensors, path, said | {"sha256": _digest(said, tensors)})
    except (OSError, SafetensorError, ValueError, TypeError, RuntimeError, AttributeError):
        return False
    return True

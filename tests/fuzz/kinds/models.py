"""Damaged model folders: refused by an error of ours, or the model as it was, never a mixture."""

from __future__ import annotations

import functools
import json
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from crash.racing import marked, marks
from fuzz.damage import damage, unusual
from knowledge_sheaves.embedding import SheafEmbedding, storage
from knowledge_sheaves.embedding.check import check_model
from knowledge_sheaves.embedding.folder import CONFIG, METRICS, SEALED, sha256
from knowledge_sheaves.embedding.storage import dataset_of
from knowledge_sheaves.files import sealed

FILES = (CONFIG, *SEALED, METRICS)


@functools.cache
def _kept() -> Path:
    return Path(tempfile.mkdtemp(prefix="folders-"))


@functools.cache
def _saved(number: int) -> Path:
    """A model each of whose files says which one it is."""
    marked(number).save(_kept() / str(number))
    return _kept() / str(number)


def attack(seed: int, place: Path) -> Callable[[], object]:
    """Damage a folder; what is returned loads it, asks it, and looks whether it is one model."""
    chance = random.Random(seed)
    folder = Path(shutil.copytree(_saved(1), place / "model"))
    for _ in range(chance.choice([1, 1, 2])):
        name = chance.choice(FILES)
        how = chance.random()
        if how < 0.25:
            _swap(_saved(2) / name, folder / name)
        elif how < 0.3 and (folder / name).is_file():
            unusual(folder / name, chance)
        elif (folder / name).is_file():
            damage(folder / name, chance)
    # A liar may have made the checksums fit, and a large file may not be hashed on loading.
    liar = chance.random() < 0.4 and _reseal(folder)
    hashed = chance.choice([0, storage.HASHED])
    return lambda: _look(folder, liar, hashed)


def _swap(source: Path, target: Path) -> None:
    """Put a file in the place of another one, or of what stands there and is none."""
    if target.is_dir():
        target.rmdir()
    else:
        target.unlink(missing_ok=True)
    shutil.copy(source, target)


def _reseal(folder: Path) -> bool:
    """Make all checksums fit; whether that could be done: else nothing is changed."""
    if not all((folder / name).is_file() for name in (CONFIG, *SEALED)):
        return False
    try:
        config = json.loads((folder / CONFIG).read_bytes())
        for name in SEALED:
            config["sha256"][name] = sha256(folder / name)
        texts = {CONFIG: json.dumps(sealed(config))}
        if (folder / METRICS).is_file():
            metrics = json.loads((folder / METRICS).read_bytes())
            texts[METRICS] = json.dumps(sealed(metrics))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    for name, text in texts.items():
        (folder / name).write_text(text)
    return True


def _look(folder: Path, liar: bool, hashed: int) -> None:
    usual, storage.HASHED = storage.HASHED, hashed
    try:
        model = SheafEmbedding.load(folder)
        _ask(model)
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

"""Damaged indices: refused by an error of ours, or answers as by an index that is whole."""

from __future__ import annotations

import functools
import json
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from fuzz.damage import damage, unusual
from knowledge_sheaves.embedding import ModelInfo, SheafEmbedding, model_config
from knowledge_sheaves.embedding.about import describe_folder
from knowledge_sheaves.embedding.check import check_model
from knowledge_sheaves.embedding.folder import NEAREST, sha256
from knowledge_sheaves.embedding.search import kept
from knowledge_sheaves.embedding.search.about import ABOUT
from knowledge_sheaves.files import sealed
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.ranking.prediction import Predictor

CODES = "0.safetensors"
SIZE = 60


@functools.cache
def _saved(name: str, seed: int) -> Path:
    """A model with an index; those of one name differ by their numbers alone."""
    torch.manual_seed(seed)
    rows = [(f"e{i}", f"r{i % 2}", f"e{i * 7 % SIZE}") for i in range(SIZE)]
    model = SheafEmbedding(model_config(name, dim=4, init=1.0), KnowledgeGraph.from_triples(rows))
    model.info = ModelInfo.of(Dataset(model.graph), calibration={"tau": 1.0})
    folder = Path(tempfile.mkdtemp(prefix="indices-")) / "model"
    model.save(folder)
    kept.index(SheafEmbedding.load(folder), least=1)
    return folder


def attack(seed: int, place: Path) -> Callable[[], object]:
    """Damage an index; what is returned asks by it, and compares with asking without."""
    chance = random.Random(seed)
    name = chance.choice(["complex", "rotate", "transe"])
    folder = Path(shutil.copytree(_saved(name, 1), place / "model"))
    path = folder / NEAREST / chance.choice([ABOUT, CODES, CODES])
    how = chance.random()
    if how < 0.1:
        shutil.copy(_saved(name, 2) / NEAREST / path.name, path)
    elif how < 0.15:
        unusual(path, chance)
    elif how < 0.95:  # one that is whole must be taken
        damage(path, chance)
    liar = chance.random() < 0.4 and _reseal(folder / NEAREST)
    mode = chance.choice([kept.EXACT, kept.QUICK])
    return lambda: _ask(folder, mode, liar)


def _reseal(folder: Path) -> bool:
    """Make the checksums fit; whether that could be done."""
    if not all((folder / name).is_file() for name in (ABOUT, CODES)):
        return False
    try:
        about = json.loads((folder / ABOUT).read_bytes())
        about["sha256"][CODES] = sha256(folder / CODES)
        text = json.dumps(sealed(about))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    (folder / ABOUT).write_text(text)
    return True


def _ask(folder: Path, mode: str, liar: bool) -> None:
    model = SheafEmbedding.load(folder)
    by_index = _best(model, mode)
    describe_folder(folder)
    if not liar:
        expected = _best(SheafEmbedding.load(folder), kept.FULL)
        assert mode != kept.EXACT or by_index == expected, "exact, and yet another answer"
        found = [finding.problem for finding in check_model(folder) if finding.problem]
        assert not found, f"taken, and yet {found}"


def _best(model: SheafEmbedding, mode: str) -> list[str]:
    found = Predictor(model, search=mode).predict(head="e1", relation="r0", top=5)
    return [each.name for each in found]

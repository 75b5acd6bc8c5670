"""A full disk, a folder that may only be read: one sentence, before the work where it can be known.

Nothing is left that is cut short, and what was there before is still there, whole.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from crash.commands import Commands
from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.embedding.storage import ModelInfo
from knowledge_sheaves.errors import OutputError
from knowledge_sheaves.files import check_place
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers import load

NATIONS = ("train", "nations", "--dim", "32", "--epochs", "2", "--threads", "1")
WRITERS = {
    "train": (*NATIONS, "--out", "new"),
    "train again": (*NATIONS, "--force", "--out", "model"),
    "export parquet": ("export", "model", "--out", "out"),
    "export npy": ("export", "model", "--format", "npy", "--out", "out"),
    "export tsv": ("export", "model", "--format", "tsv", "--out", "out"),
    "index": ("index", "model", "--least", "1"),
    "sum": ("sum", "model", "model", "--out", "new"),
}


def nations() -> Dataset:
    return load("nations")


def save_model(folder: Path) -> None:
    data = nations()
    model = SheafEmbedding(model_config("complex", dim=32), data.train)
    model.info = ModelInfo.of(data, calibration={"tau": 1.0})
    model.save(folder)


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    with Commands(tmp_path_factory.mktemp("prints")) as started:
        yield started


@pytest.fixture
def place(tmp_path: Path) -> Path:
    save_model(tmp_path / "model")
    return tmp_path


def contents(folder: Path) -> dict[str, str]:
    """Every file with its hash: what a failed command must leave as it was."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


@pytest.mark.parametrize("name", [name for name in WRITERS if name != "train"])
def test_a_file_that_cannot_grow_leaves_nothing_cut(
    name: str, place: Path, commands: Commands
) -> None:
    before = contents(place)
    said = commands.run(place, *WRITERS[name], most=1500).sentence
    assert "cannot be written: File too large" in said
    assert contents(place) == before


def fill_up(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 512)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 160 KiB with a model in it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small tmpfs cannot be mounted here")
    try:
        save_model(disk / "model")
        fill_up(disk)
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize(
    "name",
    # The long one is cut short above, by a file that cannot grow.
    [pytest.param(n, marks=[pytest.mark.slow] * (n == "train again")) for n in WRITERS],
)
def test_a_full_disk_leaves_nothing_cut(name: str, small_disk: Path, commands: Commands) -> None:
    before = contents(small_disk)
    said = commands.run(small_disk, *WRITERS[name]).sentence
    if name.startswith(("train", "index")):
        assert "MiB, and its disk has" in said, "known before the work"
    else:
        assert "cannot be written: No space left on device" in said
    assert contents(small_disk) == before
    assert SheafEmbedding.load(small_disk / "model").info is not None


def test_a_disk_that_fills_up_during_the_training_costs_nothing_else(small_disk: Path) -> None:
    (small_disk / "ballast").unlink()
    before = contents(small_disk)
    dataset = nations()
    from knowledge_sheaves.training import Progress, TrainingConfig, train

    def fill(_: Progress) -> None:
        if not (small_disk / "ballast").exists():
            fill_up(small_disk)

    training = TrainingConfig(epochs=2, threads=1)
    config = model_config("complex", dim=32)
    with pytest.raises(OutputError, match="cannot be written: No space left on device"):
        train(dataset, config, training, out=small_disk / "model", on_progress=fill)
    (small_disk / "ballast").unlink()
    assert contents(small_disk) == before


def test_evaluate_shows_what_it_measured_and_says_what_it_did_not_keep(
    small_disk: Path, commands: Commands
) -> None:
    before = contents(small_disk)
    done = commands.run(small_disk, "evaluate", "model", "--json")
    assert done.code == 0, done
    assert '"mrr"' in done.out
    assert "The metrics were not kept: " in done.err
    assert "cannot be written: No space left on device" in done.err
    assert contents(small_disk) == before


OTHERS = {
    **WRITERS,
    "tune": ("tune", "nations", "--trials", "1", "--epochs", "1"),
    "calibrate": ("calibrate", "model", "--sample", "2"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_folder_without_rights_is_told_before_the_work(
    name: str, place: Path, commands: Commands
) -> None:
    for folder in (place, place / "model"):
        folder.chmod(0o555)
    before = contents(place)
    done = commands.run(place, *OTHERS[name], powerless=True)
    assert "cannot be written: Permission denied" in done.sentence
    assert "epoch" not in done.err
    assert "Trial" not in done.err
    place.chmod(0o755)
    assert contents(place) == before


def test_a_model_does_not_take_the_place_of_the_folder_you_work_in(
    tmp_path: Path, commands: Commands
) -> None:
    said = commands.run(tmp_path, *NATIONS, "--out", ".").sentence
    assert "is the folder you work in" in said
    assert list(tmp_path.iterdir()) == []


def test_room_is_counted(tmp_path: Path) -> None:
    check_place(tmp_path / "model", needed=1)
    with pytest.raises(OutputError, match=r"needs up to .* MiB, and its disk has"):
        check_place(tmp_path / "deep" / "model", needed=2**60)
    assert list(tmp_path.iterdir()) == []

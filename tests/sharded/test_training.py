"""Training with TorchRec: alone as the ordinary trainer, together, killed, resumed."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError, OutputError
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.processes import Processes
from knowledge_sheaves.training import TrainingConfig, train
from knowledge_sheaves.training.checkpoint import shards_beside
from knowledge_sheaves.training.sharded import train_sharded
from sharded.worker import CASES, data_of, judged
from sharded_cases import LONG, ROOT, finished, needs_torchrec, sentences, torchrun

pytestmark = [pytest.mark.slow, needs_torchrec]
WORKER = ROOT / "tests" / "sharded" / "worker.py"
TESTS = {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])}
TRAIN = ["-m", "knowledge_sheaves.cli", "train", "nations", "--sharded", "--model", "rotate"]
OPTIONS = ["--dim", "8", "--batch-size", "64", "--negatives", "5", "--patience", "1000"]


@pytest.mark.parametrize("case", CASES)
def test_alone_the_loss_is_that_of_the_ordinary_trainer(case: str, tmp_path: Path) -> None:
    source, model, training = CASES[case]
    data, losses = data_of(source), ([], [])  # type: tuple[Any, tuple[list[float], list[float]]]
    ordinary = train(
        data, model, replace(training, refit=False), on_progress=lambda p: losses[0].append(p.loss)
    )
    with Processes.started() as alone:
        train_sharded(
            alone,
            data,
            model,
            training,
            out=tmp_path / "m",
            on_progress=lambda p: losses[1].append(p.loss),
        )
    assert losses[1] == pytest.approx(losses[0], abs=1e-5)
    assert len(losses[0]) > 4
    found = SheafEmbedding.load(tmp_path / "m").state_dict()
    for name, weights in ordinary.state_dict().items():
        assert torch.allclose(found[name], weights, atol=1e-3), name
    assert not shards_beside(tmp_path / "m").exists(), "what is finished needs no checkpoint"


def check_together(processes: int, folder: Path) -> None:
    """What processes find over their shards is what one finds in the folder that they saved."""
    printed, _ = finished(torchrun(processes, WORKER, folder, env=TESTS))
    found = json.loads(printed.splitlines()[-1])
    for name, (source, *_) in CASES.items():
        data = data_of(source)
        alone = judged(SheafEmbedding.load(folder / name), data)
        assert found[name]["ranks"] == alone["ranks"], name
        for one, two in zip(found[name]["answers"], alone["answers"], strict=True):  # type: ignore[call-overload]
            assert [each[0] for each in one] == [each[0] for each in two]
            for a, b in zip(one, two, strict=True):
                assert a[1:] == pytest.approx(b[1:], abs=2e-4)


def test_two_processes_rank_and_answer_as_one(tmp_path: Path) -> None:
    check_together(2, tmp_path)


def test_a_question_on_the_command_line_is_answered_as_by_one(tmp_path: Path) -> None:
    train(load("nations"), *CASES["lifted"][1:], out=tmp_path / "m")
    asked = "SELECT ?x { :usa :embassy ?y . ?y :embassy ?x }"
    words = ["-m", "knowledge_sheaves.cli", "query", tmp_path / "m", asked, "--json"]
    found = [
        json.loads(finished(torchrun(count, *words, *more, env=TESTS))[0])["results"]["bindings"]
        for count, more in ((1, ()), (2, ("--sharded",)))
    ]
    assert [row["x"] for row in found[0]] == [row["x"] for row in found[1]]
    assert len(found[0]) == 10
    refused = torchrun(2, *words, "--sharded", "--explain", env=TESTS)
    (sentence,) = sentences(refused.communicate(timeout=LONG)[1])
    assert "without reasons" in sentence


def check_killed(processes: int, folder: Path, others: int) -> None:
    """A process is killed in the middle: one sentence, and others go on from the checkpoint."""
    out = folder / "m"
    words = [*TRAIN, *OPTIONS, "--epochs", "100000", "--out", out]
    running = torchrun(processes, *words, env=TESTS)
    wait_for(shards_beside(out) / "checkpoint.json")
    workers = [child for child in psutil.Process(running.pid).children() if child.is_running()]
    workers[-1].send_signal(signal.SIGKILL)
    _, said = running.communicate(timeout=LONG)
    assert running.returncode != 0
    (sentence,) = sentences(said)
    assert "lost" in sentence
    assert "with --resume, on as many processes as you like" in sentence
    assert not out.exists()
    epochs = told(out)["epoch"]
    words = [*TRAIN, *OPTIONS, "--epochs", str(epochs + 1), "--resume", "--out", out, "--json"]
    printed, _ = finished(torchrun(others, *words, env=TESTS))
    assert json.loads(printed)["epochs"] == epochs + 1
    assert SheafEmbedding.load(out).info is not None
    assert sorted(item.name for item in folder.iterdir()) == ["m"]


def wait_for(path: Path) -> None:
    end = time.monotonic() + LONG
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.05)


def told(out: Path) -> dict[str, Any]:
    return dict(json.loads((shards_beside(out) / "checkpoint.json").read_text())["facts"])


def test_a_killed_process_costs_one_sentence_and_another_number_resumes(tmp_path: Path) -> None:
    check_killed(2, tmp_path, 3)


# What is wrong with a checkpoint: found by one process as by several.

MODEL = model_config("rotate", dim=8)
CONFIG = TrainingConfig(epochs=1, batch_size=256, negatives=5, optimiser="rowwise-adagrad")


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A run that was stopped after its first epoch: where its model is to be."""
    out = tmp_path / "m"

    class StopError(Exception):
        pass

    def stop(progress: Any) -> None:
        if progress.epoch == 1:
            raise StopError

    def begin() -> None:
        with Processes.started() as alone:
            longer = replace(CONFIG, epochs=5)
            train_sharded(alone, load("nations"), MODEL, longer, out=out, on_progress=stop)

    with pytest.raises(StopError):
        begin()
    assert told(out)["epoch"] == 1
    return out


def resume(out: Path, model: Any = MODEL, data: str = "nations", **options: Any) -> None:
    with Processes.started() as alone:
        config = replace(CONFIG, epochs=2, **options)
        train_sharded(alone, load(data), model, config, out=out, resume=True)


def test_a_shard_that_is_missing_or_changed_is_named(stopped: Path) -> None:
    shard = shards_beside(stopped) / "rows-00000.safetensors"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-4])
    with pytest.raises(InputError, match=r"rows-00000.safetensors was changed or cut short"):
        resume(stopped)
    shard.unlink()
    with pytest.raises(InputError, match=r"rows-00000.safetensors is missing, and the run cannot"):
        resume(stopped)
    shard.write_bytes(whole)
    resume(stopped)
    assert SheafEmbedding.load(stopped).info is not None


def test_a_checkpoint_of_another_run_is_refused(stopped: Path) -> None:
    with pytest.raises(InputError, match="had other settings for dim"):
        resume(stopped, model_config("rotate", dim=12))
    with pytest.raises(InputError, match="had other settings for data"):
        resume(stopped, data="kinships")
    with pytest.raises(InputError, match="had other settings for optimiser"):
        resume(stopped, optimiser="adagrad")
    manifest = shards_beside(stopped) / "checkpoint.json"
    manifest.write_text(manifest.read_text().replace('"epoch": 1', '"epoch": 2'))
    with pytest.raises(InputError, match="was changed after it was written"):
        resume(stopped)
    shutil.rmtree(shards_beside(stopped))
    with pytest.raises(InputError, match=r"There is no run to resume: .*m.checkpoint is missing"):
        resume(stopped)


def test_a_full_disk_keeps_the_last_checkpoint(stopped: Path) -> None:
    before = {item.name: item.read_bytes() for item in shards_beside(stopped).iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, limits[1]))
    try:
        with pytest.raises(OutputError, match="cannot be written: File too large"):
            resume(stopped)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert {i.name: i.read_bytes() for i in shards_beside(stopped).iterdir()} == before
    assert [item.name for item in stopped.parent.iterdir()] == ["m.checkpoint"]

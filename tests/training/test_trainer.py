"""Whole runs on small data: learning, stopping, resuming after a kill."""

from __future__ import annotations

import csv
import importlib.util
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import EntityType, KnowledgeGraph, Schema
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.ranking import RankMetrics, rank_triples
from knowledge_sheaves.training import Progress, TrainingConfig, train
from knowledge_sheaves.training.trainer import Run

SCRIPT = """
import sys
from knowledge_sheaves.embedding import model_config
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.training import TrainingConfig, train

def say(progress):
    if progress.metrics:
        print("epoch", progress.epoch, flush=True)

out, resume = sys.argv[1], sys.argv[2] == "resume"
config = TrainingConfig(
    epochs=12, batch_size=512, negatives=60, dropout=0.1, patience=50, threads=1, seed=5,
    averaging=2.0,
)
model = model_config("rote", dim=16)
train(load("nations"), model, config, out=out, resume=resume, on_progress=say)
"""


@pytest.fixture(scope="module")
def nations() -> Dataset:
    return load("nations")


def ring(size: int = 30) -> Dataset:
    """next and after-next around a ring, some of it held out."""
    rows = [(i, 0, (i + 1) % size) for i in range(size)] + [
        (i, 1, (i + 2) % size) for i in range(size)
    ]
    held = [row for row in rows if row[1] == 1 and row[0] % 5 == 0]
    known = [row for row in rows if row not in held]
    schema = Schema.single(["next", "after next"])
    graph = KnowledgeGraph.from_arrays(*np.array(known).T, schema=schema, num_entities=size)
    return Dataset(graph, valid=graph.with_triples(np.array(held)))


def mrr(model: SheafEmbedding, data: Dataset) -> float:
    assert data.valid is not None
    ranks = rank_triples(model, data.valid.triples, [data.train, data.valid])
    return RankMetrics.of(ranks.sides["both"]).mrr


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_a_ring_is_learned_and_composed(loss: str) -> None:
    """Rotations put a ring on circles; the held-out steps of two follow from those of one."""
    data = ring()
    config = TrainingConfig.from_dict(
        {"epochs": 200, "batch_size": 64, "loss": loss, "margin": 1.0, "patience": 200}
    )
    model = train(data, model_config("rotate", dim=16, init=0.3), config)
    assert mrr(model, data) > 0.8
    assert mrr(SheafEmbedding(model.config, data.train), data) < 0.4


@pytest.mark.slow
def test_the_paper_settings_learn_too() -> None:
    """Margin ranking, Adam, unit vectors, one corrupted triple per triple."""
    data = ring()
    options = {
        "epochs": 300,
        "batch_size": 16,
        "loss": "margin",
        "optimiser": "adam",
        "learning_rate": 0.02,
        "normalise": True,
        "patience": 300,
    }
    model = train(data, model_config("se", dim=8), TrainingConfig.from_dict(options))
    lengths = torch.stack([model.vector(name) for name in data.train.entities]).norm(dim=1)
    torch.testing.assert_close(lengths, torch.ones(30), atol=1e-5, rtol=0)
    assert mrr(model, data) > 0.5


def test_typed_graphs_train_with_tables_of_their_own() -> None:
    rng = np.random.default_rng(0)
    rows = [(f"p{i}", "likes", f"f{i % 7}") for i in range(40)]
    rows += [(f"f{i}", "set in", f"c{i % 3}") for i in range(7)]
    rows += [(f"p{i}", "likes", f"c{rng.integers(3)}") for i in range(20)]
    kinds = {"p": "Person", "f": "Film", "c": "City"}
    types = {name: kinds[name[0]] for row in rows for name in (row[0], row[2])}
    schema = KnowledgeGraph.from_triples(rows, types=types).schema
    dims = [EntityType(t.name, 8 if t.name == "Person" else 4) for t in schema.types]
    sized = Schema(dims, schema.relations)
    graph = KnowledgeGraph.from_triples(rows, types=types, schema=sized)
    model = train(Dataset(graph), model_config("translational"), TrainingConfig(epochs=60))
    ranks = rank_triples(model, graph.triples, [graph])
    assert RankMetrics.of(ranks.sides["both"]).mrr > 0.9


@pytest.mark.parametrize("every", [1, 3])
def test_the_best_validated_epoch_is_kept_and_patience_ends_the_run(
    every: int, nations: Dataset, tmp_path: Path
) -> None:
    seen: list[Progress] = []
    config = TrainingConfig(
        epochs=60,
        batch_size=128,
        learning_rate=0.5,
        patience=2,
        validate_every=every,
        seed=1,
    )
    model = train(
        nations,
        model_config("complex", dim=16),
        config,
        out=tmp_path / "m",
        on_progress=seen.append,
    )
    epochs = [p.metrics for p in seen if p.metrics]
    curve = [row["mrr"] for row in epochs if "mrr" in row]
    assert len(epochs) < 60
    assert max(curve) not in curve[-2:]
    assert mrr(model, nations) == pytest.approx(max(curve), abs=1e-6)
    steps = [p for p in seen if not p.metrics]
    assert steps[-1].step == steps[-1].steps
    with (tmp_path / "m" / "training.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["mrr"]) for row in rows if row["mrr"]] == pytest.approx(curve)
    assert not list(tmp_path.glob("*checkpoint*"))
    again = SheafEmbedding.load(tmp_path / "m")
    assert mrr(again, nations) == pytest.approx(max(curve), abs=1e-6)
    assert again.info is not None
    assert again.info.training["epochs_run"] == len(epochs)


def test_without_validation_triples_the_last_epoch_counts(nations: Dataset) -> None:
    alone = Dataset(nations.train)
    one, three = (
        train(alone, model_config("transe", dim=8), TrainingConfig(epochs=e)) for e in (1, 3)
    )
    assert not torch.equal(one.entities.tables[0], three.entities.tables[0])
    again = train(alone, model_config("transe", dim=8), TrainingConfig(epochs=3))
    assert torch.equal(again.entities.tables[0], three.entities.tables[0])


def test_ctrl_c_keeps_the_best_model_so_far(nations: Dataset, tmp_path: Path) -> None:
    def stop(progress: Progress) -> None:
        if progress.epoch == 3:
            raise KeyboardInterrupt

    config = TrainingConfig(epochs=50)
    model = train(
        nations, model_config("complex", dim=8), config, out=tmp_path / "m", on_progress=stop
    )
    assert model.info is not None
    assert model.info.training["interrupted"]
    saved = SheafEmbedding.load(tmp_path / "m")
    assert torch.equal(saved.entities.tables[0], model.entities.tables[0])


def run(folder: Path, mode: str = "fresh") -> subprocess.Popen[str]:
    script = folder.parent / "script.py"
    script.write_text(SCRIPT)
    return subprocess.Popen(
        [sys.executable, str(script), str(folder), mode], stdout=subprocess.PIPE, text=True
    )


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(SheafEmbedding.load(folder).state_dict())


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_weights(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole")
    broken = run(tmp_path / "broken")
    assert broken.stdout is not None
    for line in broken.stdout:
        if line.startswith("epoch 2"):
            time.sleep(0.05)  # somewhere within the next epoch, or its checkpoint
            broken.send_signal(signal.SIGKILL)
            break
    broken.wait(60)
    assert not (tmp_path / "broken").exists()
    resumed = run(tmp_path / "broken", "resume")
    assert resumed.wait(120) == 0
    assert whole.wait(120) == 0
    first, second = weights(tmp_path / "whole"), weights(tmp_path / "broken")
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_resume_refuses_other_settings_and_damaged_checkpoints(
    nations: Dataset, tmp_path: Path
) -> None:
    def stop(progress: Progress) -> None:
        if progress.epoch == 1 and not progress.metrics:
            raise KeyboardInterrupt

    out, model = tmp_path / "m", model_config("transe", dim=8)
    with pytest.raises(InputError, match="There is no run to resume"):
        train(nations, model, TrainingConfig(), out=out, resume=True)
    with pytest.raises(InputError, match="no run to resume"):
        train(nations, model, TrainingConfig(), resume=True)
    train(nations, model, TrainingConfig(), out=out, on_progress=stop)
    with pytest.raises(InputError, match="other settings for learning_rate"):
        train(nations, model, TrainingConfig(learning_rate=0.2), out=out, resume=True)
    with pytest.raises(InputError, match="belongs to another model"):
        train(nations, model_config("transe", dim=16), TrainingConfig(), out=out, resume=True)
    checkpoint = tmp_path / "m.checkpoint.safetensors"
    with safe_open(checkpoint, "pt") as file:
        facts = json.loads(file.metadata()["facts"])
    tensors = load_file(checkpoint)
    del facts["settings"]["averaging"]  # as if from before there was such an option
    del facts["sealed"]  # nor a seal
    save_file(tensors, checkpoint, {"facts": json.dumps(facts)})
    with pytest.raises(InputError, match="other settings for averaging"):
        train(nations, model, TrainingConfig(averaging=2), out=out, resume=True)
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    with pytest.raises(InputError, match="cannot be read"):
        train(nations, model, TrainingConfig(), out=out, resume=True)


def test_the_average_of_the_weights_is_what_is_kept(nations: Dataset) -> None:
    config = TrainingConfig(epochs=3, batch_size=1024, averaging=1.5, seed=2)
    run = Run(nations, model_config("complex", dim=4), config, None, None)
    table, step = run.model.entities.tables[0], run.optimiser.step
    seen: list[torch.Tensor] = []

    def remembering(closure: None = None) -> float | None:
        loss = step(closure)
        seen.append(table.detach().clone())
        return loss

    run.optimiser.step = remembering  # type: ignore[method-assign]
    best = run.go(resume=False)
    expected, steps = torch.zeros_like(table), len(run.batches)
    for place, weights in enumerate(seen, start=1):
        share = min(1.0, max(1 / (1.5 * steps), 4 / place))
        expected += share * (weights - expected)
    assert len(seen) == 3 * steps
    assert run.curve[-1]["mrr"] == run.best_mrr, "the last epoch is the best one in this run"
    torch.testing.assert_close(best.entities.tables[0].detach(), expected)
    assert not torch.allclose(expected, seen[-1], atol=1e-3)


def test_a_loss_that_explodes_is_explained(nations: Dataset) -> None:
    config = TrainingConfig(epochs=3, learning_rate=1e30, optimiser="adam")
    with pytest.raises(InputError, match="try a smaller learning_rate"):
        train(nations, model_config("distmult", dim=8, init=1.0), config)


def test_nothing_to_learn_from() -> None:
    empty = KnowledgeGraph.from_triples([], schema=Schema.single(["r"]), entities=["a"])
    with pytest.raises(InputError, match="no triples"):
        train(Dataset(empty), model_config("transe"))


def test_an_unknown_device_is_refused(nations: Dataset) -> None:
    with pytest.raises(InputError, match="'quantum' cannot be used"):
        train(nations, model_config("transe", dim=8), TrainingConfig(device="quantum"))


def test_tensorboard_gets_the_curve(nations: Dataset, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    config = TrainingConfig(epochs=2, logger="tensorboard")
    train(nations, model_config("transe", dim=8), config, out=tmp_path / "m")
    assert any(path.name.startswith("events") for path in tmp_path.rglob("*"))


def test_mlflow_gets_the_curve_or_says_what_to_install(nations: Dataset, tmp_path: Path) -> None:
    config = TrainingConfig(epochs=1, logger="mlflow")
    if importlib.util.find_spec("mlflow") is None:
        with pytest.raises(InputError, match=r"pip install 'knowledge-sheaves\[mlflow\]'"):
            train(nations, model_config("transe", dim=8), config, out=tmp_path / "m")
    else:
        train(nations, model_config("transe", dim=8), config, out=tmp_path / "m")
        assert list(tmp_path.rglob("mlflow.db"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs must be a whole number of at least 1"),
        ({"loss": "hinge"}, "loss must be one of softmax"),
        ({"learning_rate": 0}, "learning_rate must be above 0"),
        ({"dropout": 1.0}, "dropout must be below 1"),
        ({"n3": "much"}, "n3 must be a number"),
        ({"negatives": 0}, "negatives must be a whole number"),
        ({"epoch": 3}, "did you mean 'epochs'"),
        ([], "must be a list of options"),
    ],
)
def test_bad_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TrainingConfig.from_dict(options)


def test_options_come_from_files(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("epochs: 3\nloss: margin\n")
    assert TrainingConfig.load(path) == TrainingConfig(epochs=3, loss="margin")
    as_json = tmp_path / "a.json"
    as_json.write_text(json.dumps({"epochs": 3}))
    assert TrainingConfig.load(as_json).epochs == 3
    path.write_text("epochs: [")
    with pytest.raises(InputError, match=r"a\.yaml, line 1: not valid YAML"):
        TrainingConfig.load(path)
    path.write_text("loss: hinge")
    with pytest.raises(InputError, match=r"a\.yaml: loss must be one of"):
        TrainingConfig.load(path)
    with pytest.raises(InputError, match="cannot be read"):
        TrainingConfig.load(tmp_path / "missing.yaml")


def test_a_flipped_byte_in_a_checkpoint_is_found(nations: Dataset, tmp_path: Path) -> None:
    model, out = model_config("distmult", dim=4), tmp_path / "m"
    checkpoint = tmp_path / "m.checkpoint.safetensors"
    run = Run(nations, model, TrainingConfig(epochs=2), out, None)
    run._keep(0, run._epoch(0))
    sound = checkpoint.read_bytes()
    for place in (-1, len(sound) // 2, sound.index(b'"sha256'[:4]) + 2, sound.index(b"best_mrr")):
        data = bytearray(sound)
        data[place] ^= 1
        checkpoint.write_bytes(data)
        with pytest.raises(InputError, match="delete it to start afresh"):
            train(nations, model, TrainingConfig(epochs=2), out=out, resume=True)
    checkpoint.write_bytes(sound)
    train(nations, model, TrainingConfig(epochs=2), out=out, resume=True)

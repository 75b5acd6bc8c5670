"""Model folders: what is saved comes back, damage is told, and a kill costs nothing."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_sheaves.embedding import CATALOGUE, SheafConfig, SheafEmbedding, model_config
from knowledge_sheaves.embedding.folder import SEALED
from knowledge_sheaves.embedding.storage import ModelInfo, dataset_of, save_metrics
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.files import sealed as with_seal
from knowledge_sheaves.graph import EntityType, KnowledgeGraph, Relation, Schema
from knowledge_sheaves.graph.dataset import Dataset


def films() -> Dataset:
    """A typed data set with stalks of two widths, labels and held-out facts."""
    schema = Schema(
        [EntityType("Person", 6), EntityType("Film", 4)],
        [Relation("friends", "Person", "Person"), Relation("likes", "Person", "Film", dim=2)],
    )
    train = KnowledgeGraph.from_triples(
        [("Julia", "likes", "Fargo"), ("Julia", "friends", "Sachin"), ("Anja", "likes", "Primer")],
        types={"Julia": "Person", "Sachin": "Person", "Anja": "Person"}
        | {"Fargo": "Film", "Primer": "Film"},
        schema=schema,
        labels={"Fargo": "Fargo (1996)"},
    )
    test = train.with_triples([("Sachin", "likes", "Fargo")])
    return Dataset(train, test=test, name="films", source="by hand", notes=("small",))


def film_model(seed: int = 0) -> SheafEmbedding:
    data = films()
    model = SheafEmbedding(model_config("se", dim=4), data.train, seed=seed)
    model.info = ModelInfo.of(
        data,
        training={"epochs": 3},
        seconds=1.5,
        peak_memory=10**6,
        calibration={"tau": 0.5},
        metrics={"test": {"mrr": 0.5}},
    )
    return model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    film_model().save(tmp_path / "model")
    return tmp_path / "model"


def equal_weights(a: SheafEmbedding, b: SheafEmbedding) -> bool:
    mine, yours = a.state_dict(), b.state_dict()
    return mine.keys() == yours.keys() and all(torch.equal(mine[k], yours[k]) for k in mine)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_model_scores_the_same_after_a_round_trip(name: str, tmp_path: Path) -> None:
    graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "s", "c"), ("c", "r", "a")])
    model = SheafEmbedding(model_config(name), graph, seed=3)
    model.save(tmp_path / "model")
    loaded = SheafEmbedding.load(tmp_path / "model")
    queries = torch.tensor([0, 1, 2]), torch.tensor([0, 1, 0])
    assert loaded.config == model.config
    assert torch.equal(loaded.score_tails(*queries), model.score_tails(*queries))


def test_all_that_is_known_of_a_model_comes_back(folder: Path) -> None:
    model, loaded = film_model(), SheafEmbedding.load(folder)
    assert model.info is not None
    assert loaded.info is not None
    loaded.info.created = model.info.created
    assert loaded.info == model.info
    assert equal_weights(model, loaded)
    assert loaded.graph.schema == model.graph.schema
    assert loaded.graph.labels == {loaded.graph.entities.id("Fargo"): "Fargo (1996)"}
    assert np.array_equal(loaded.graph.triples, model.graph.triples)
    assert dataset_of(loaded).hash == films().hash == loaded.info.data_hash


def test_the_folder_holds_text_that_a_person_can_read(folder: Path) -> None:
    assert (folder / "entities.tsv").read_text().splitlines()[:3] == [
        "name\ttype\tlabel",
        "Julia\tPerson\t",
        "Fargo\tFilm\tFargo (1996)",
    ]
    assert Schema.load(folder / "schema.json") == films().train.schema
    assert json.loads((folder / "config.json").read_text())["info"]["counts"]["test"] == 1
    assert json.loads((folder / "metrics.json").read_text())["test"] == {"mrr": 0.5}


def test_who_may_read_one_file_may_read_all(folder: Path) -> None:
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1


def test_double_precision_survives(tmp_path: Path) -> None:
    model = film_model().double()
    model.save(tmp_path / "model")
    assert equal_weights(SheafEmbedding.load(tmp_path / "model"), model)


@settings(max_examples=50)
@given(
    st.lists(st.text(max_size=6) | st.sampled_from(["\t", "\\t", "\n", '"', "'", "\\", "\r\n"]))
    .map(lambda names: list(dict.fromkeys(names)))
    .filter(bool),
    st.text(min_size=1, max_size=6),
    st.text(min_size=1, max_size=6),
)
def test_any_names_survive(names: list[str], relation: str, label: str) -> None:
    graph = KnowledgeGraph.from_triples(
        [(name, relation, names[0]) for name in names], labels={names[-1]: label}
    )
    with tempfile.TemporaryDirectory() as folder:
        SheafEmbedding(SheafConfig(dim=1), graph).save(Path(folder, "model"))
        loaded = SheafEmbedding.load(Path(folder, "model")).graph
    assert list(loaded.entities) == list(graph.entities)
    assert loaded.schema == graph.schema
    assert loaded.labels == graph.labels


# Damage, one kind each: what to do to the folder, and the words that the sentence must have.
def edit(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / name
        path.write_bytes(change(path.read_bytes()))

    return damage


def edit_config(
    change: Callable[[dict[str, object]], object], seal: bool
) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        change(config)
        if seal:
            config = with_seal(config)
        (folder / "config.json").write_text(json.dumps(config))

    return damage


def other_weights(folder: Path) -> None:
    """Another model's weights, with their own checksum."""
    graph = KnowledgeGraph.from_triples([("a", "r", "b")])
    SheafEmbedding(model_config("transe", dim=4), graph).save(folder.with_name("other"))
    shutil.copy(folder.with_name("other") / "weights.safetensors", folder)
    theirs = json.loads((folder.with_name("other") / "config.json").read_text())["sha256"]
    name = "weights.safetensors"
    edit_config(lambda c: c["sha256"].update({name: theirs[name]}), seal=True)(folder)


DAMAGE: dict[str, tuple[Callable[[Path], None], tuple[str, ...]]] = {
    "no folder": (shutil.rmtree, ("no such folder", "sheaves train")),
    "a file": (lambda f: (shutil.rmtree(f), f.write_text("x")), ("it is a file",)),
    "an empty folder": (lambda f: (shutil.rmtree(f), f.mkdir()), ("no config.json",)),
    "config is not JSON": (edit("config.json", lambda b: b[:50]), ("config.json, line",)),
    "config is not text": (edit("config.json", lambda _: b"\xff\xfe\xfa"), ("config.json",)),
    "config is a list": (edit("config.json", lambda _: b"[]"), ("config.json", "format")),
    "no format": (edit_config(lambda c: c.pop("format"), seal=True), ("config.json", "format")),
    "a newer format": (edit_config(lambda c: c.update(format=3), seal=True), ("install a newer",)),
    "config changed": (
        edit_config(lambda c: c["info"].update(name="x"), seal=False),
        ("config.json", "checksum"),
    ),
    "config without checksums": (
        edit_config(lambda c: c.update(sha256={}), seal=True),
        ("entities.tsv", "checksum"),
    ),
    "unknown option": (
        edit_config(lambda c: c["model"].update(colour="red"), seal=True),
        ("config.json", "colour"),
    ),
    "impossible option": (
        edit_config(lambda c: c["model"].update(dim=0), seal=True),
        ("config.json", "dim must be"),
    ),
    "weights of another model": (other_weights, ("weights.safetensors", "generations differ")),
    "weights of another model of version 0.1": (
        lambda f: (
            other_weights(f),
            edit_config(lambda c: c.pop("generation"), seal=True)(f),
            (f / "metrics.json").unlink(),
        ),
        ("weights.safetensors", "do not fit"),
    ),
    "configuration of another model": (
        edit_config(lambda c: c["model"].update(biases=True), seal=True),
        ("weights.safetensors", "'biases'"),
    ),
    "metrics are a list": (edit("metrics.json", lambda _: b"[]"), ("metrics.json", "no mapping")),
    "metrics changed": (
        edit("metrics.json", lambda b: b.replace(b"0.5", b"0.9")),
        ("metrics.json", "checksum"),
    ),
    "metrics of another model": (
        lambda f: (
            film_model(seed=3).save(f.with_name("other")),
            shutil.copy(f.with_name("other") / "metrics.json", f),
        ),
        ("metrics.json", "generations differ"),
    ),
    "a size that the weights do not bear out": (
        edit_config(lambda c: c["model"].update(sections=10**9), seal=True),
        ("weights.safetensors", "do not fit"),
    ),
    "metrics are not JSON": (edit("metrics.json", lambda _: b"{"), ("metrics.json, line",)),
}
for sealed in SEALED:
    DAMAGE[f"no {sealed}"] = (lambda f, n=sealed: (f / n).unlink(), (sealed, "is missing"))
    DAMAGE[f"{sealed} cut short"] = (edit(sealed, lambda b: b[:-3]), (sealed, "cut short"))
    DAMAGE[f"{sealed} changed"] = (
        edit(sealed, lambda b: b[:-1] + bytes([b[-1] ^ 1])),
        (sealed, "changed"),
    )


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_told_in_one_sentence(kind: str, folder: Path) -> None:
    damage, words = DAMAGE[kind]
    damage(folder)
    with pytest.raises(InputError) as refused:
        SheafEmbedding.load(folder)
    assert "\n" not in str(refused.value)
    assert str(folder) in str(refused.value)
    assert all(word in str(refused.value) for word in words), str(refused.value)


def test_metrics_may_be_absent_and_may_change(folder: Path) -> None:
    save_metrics({"valid": {"mrr": 0.25}}, folder)
    loaded = SheafEmbedding.load(folder).info
    assert loaded is not None
    assert loaded.metrics == {"valid": {"mrr": 0.25}}
    (folder / "metrics.json").unlink()
    loaded = SheafEmbedding.load(folder).info
    assert loaded is not None
    assert loaded.metrics == {}


def test_saving_replaces_the_model_and_keeps_its_companions(folder: Path) -> None:
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "last.pt").write_text("state")
    with (folder / "training.csv").open("w") as log:
        log.write("epoch\n")
        model = film_model(seed=7)
        assert model.info is not None
        model.info.metrics = {}
        model.save(folder)
        log.write("1\n")  # a log that is open goes on
    assert equal_weights(SheafEmbedding.load(folder), model)
    assert (folder / "training.csv").read_text() == "epoch\n1\n"
    assert (folder / "checkpoints" / "last.pt").read_text() == "state"
    assert not (folder / "metrics.json").exists(), "the old model's metrics are not the new one's"
    assert [item.name for item in folder.parent.iterdir()] == ["model"]


def test_what_is_no_model_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match=r"is not a model \(it holds 'thesis.tex'\)"):
        film_model().save(tmp_path)
    with pytest.raises(InputError, match="is a file"):
        film_model().save(tmp_path / "thesis.tex")
    assert [item.name for item in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_failed_save_leaves_the_old_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(OSError, match="No space left"):
        film_model(seed=7).save(folder)
    assert equal_weights(SheafEmbedding.load(folder), film_model())
    assert [item.name for item in folder.parent.iterdir()] == ["model"]


def test_a_model_that_stepped_aside_loads_and_is_replaced(folder: Path) -> None:
    folder.rename(folder.with_name(".model.old"))
    assert equal_weights(SheafEmbedding.load(folder), film_model())
    film_model(seed=7).save(folder)
    assert equal_weights(SheafEmbedding.load(folder), film_model(seed=7))
    assert [item.name for item in folder.parent.iterdir()] == ["model"]


SAVER = """
import os, sys
from knowledge_sheaves.embedding import SheafEmbedding
first, second = (SheafEmbedding.load(path) for path in sys.argv[1:3])
print("ready", flush=True)
for _ in sys.stdin:
    saver = os.fork()
    while saver == 0:
        second.save(sys.argv[3])
        first.save(sys.argv[3])
    print(saver, flush=True)
    os.waitpid(saver, 0)
    print("killed", flush=True)
"""


@pytest.mark.slow
def test_a_kill_while_saving_leaves_a_model(tmp_path: Path) -> None:
    models = [film_model(seed=seed) for seed in (1, 2)]
    paths = [tmp_path / name for name in ("first", "second", "target")]
    for model, path in zip([*models, models[0]], paths, strict=True):
        model.save(path)
    wait = random.Random(0)
    seen = set()
    with subprocess.Popen(
        [sys.executable, "-c", SAVER, *map(str, paths)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        for attempt in range(40):
            print("go", file=server.stdin, flush=True)
            saver = int(server.stdout.readline())
            # Longer and longer: a busy machine may take a while to save even once.
            time.sleep(wait.uniform(0.001, 0.06) * (1 + attempt / 8))
            SheafEmbedding.load(paths[2])  # also while it is being replaced
            os.kill(saver, signal.SIGKILL)
            assert server.stdout.readline() == "killed\n"
            loaded = SheafEmbedding.load(paths[2])
            (found,) = (n for n, model in enumerate(models) if equal_weights(model, loaded))
            seen.add((found, paths[2].exists()))
        server.stdin.close()
    assert {found for found, _ in seen} == {0, 1}, "the saver did replace the model"

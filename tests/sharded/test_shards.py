"""Rows that are spread, files of rows, ranks and answers over them: one process, no TorchRec."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.embedding.row_files import RowFile, frame, scattered, write_at
from knowledge_sheaves.embedding.shard_folder import load_shards, save_shards
from knowledge_sheaves.embedding.shards import OwnRows, draw
from knowledge_sheaves.errors import InputError, OutputError, SheafError
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.processes import Processes
from knowledge_sheaves.query.asking import Asker
from knowledge_sheaves.query.language.names import sparql_name
from knowledge_sheaves.query.options import Options
from knowledge_sheaves.ranking import Predictor, rank_triples
from knowledge_sheaves.training import TrainingConfig, train
from sharded_cases import answered, typed

SHEAVES = [sys.executable, "-m", "knowledge_sheaves.cli"]


@pytest.fixture
def processes() -> Iterator[Processes]:
    with Processes.started() as found:
        yield found


@pytest.fixture(scope="module", params=["one type", "two widths"])
def trained(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Dataset]:
    """An ordinary model in its folder."""
    out = tmp_path_factory.mktemp("model") / "m"
    data, model = {
        "one type": (load("nations"), model_config("rote", dim=8, biases="by-end")),
        "two widths": (typed(), model_config("translational", dim=8, biases=True)),
    }[request.param]
    train(data, model, TrainingConfig(epochs=2, batch_size=256, negatives=5), out=out)
    return out, data


def part(rank: int, count: int) -> Processes:
    """One of several processes, which has nobody to speak to."""
    return Processes(rank, count)


@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("shape", [(3, 5), (5, 16), (41, 7), (700, 3001)])
def test_processes_draw_what_one_would(shape: tuple[int, int], uniform: bool) -> None:
    """Whoever has a row draws its first values; the next draw is the same for all."""
    alone = torch.Generator().manual_seed(3)
    whole = 0.5 * (torch.rand if uniform else torch.randn)(*shape, generator=alone)
    after = torch.randn(4, generator=alone)
    found = []
    for rank in range(3):
        generator = torch.Generator().manual_seed(3)
        table = OwnRows(part(rank, 3), "table", *shape)
        draw(table, generator, 0.5, uniform)
        found.append(table.own)
        assert torch.equal(torch.randn(4, generator=generator), after)
    assert torch.equal(torch.cat(found), whole)


def test_files_of_rows_are_ordinary_ones(tmp_path: Path) -> None:
    path, table, radius = tmp_path / "rows.safetensors", torch.randn(7, 3), torch.tensor(2.5)
    places = frame(path, {"table": (7, 3), "none": (0, 2), "radius": ()}, {"made": "by hand"})
    write_at(path, {places["radius"]: radius})
    for rows in (torch.tensor([5, 0, 1]), torch.tensor([6, 2, 4, 3])):
        write_at(path, scattered(places["table"], rows, table[rows]))
    found = load_file(path)
    assert torch.equal(found["table"], table)
    assert found["radius"] == radius
    assert found["none"].shape == (0, 2)
    read = RowFile(path)
    assert read.metadata == {"made": "by hand"}
    assert torch.equal(read.rows("table", 2, 5), table[2:5])


def test_a_model_is_saved_shard_by_shard_as_an_ordinary_one(
    trained: tuple[Path, Dataset], processes: Processes, tmp_path: Path
) -> None:
    folder, _ = trained
    before = SheafEmbedding.load(folder)
    save_shards(load_shards(folder, processes), tmp_path / "copy")
    after = SheafEmbedding.load(tmp_path / "copy")
    assert after.config == before.config
    for name, weights in before.state_dict().items():
        assert torch.equal(after.state_dict()[name], weights), name


def test_ranks_and_answers_are_those_of_an_ordinary_model(
    trained: tuple[Path, Dataset], processes: Processes
) -> None:
    folder, data = trained
    whole, spread = SheafEmbedding.load(folder), load_shards(folder, processes)
    known = [data.train, cast("Any", data.valid)]
    rows = np.concatenate([known[1].triples[:40], data.train.triples[:40]])
    for side, ranks in rank_triples(whole, rows, known).sides.items():
        found = rank_triples(spread, rows, known).sides[side]
        assert np.array_equal(found.optimistic, ranks.optimistic)
        assert np.array_equal(found.pessimistic, ranks.pessimistic)
        assert np.array_equal(found.candidates, ranks.candidates)
    head, edge, tail = data.train.decode(data.train.triples[:1])[0]
    for asked in ({"relation": edge}, {"head": head}, {"tail": tail}):
        given = {"head": head, "relation": edge, "tail": tail} | dict.fromkeys(asked)
        for new in (False, True):
            one, two = (Predictor(m).predict(**given, new=new, top=5) for m in (whole, spread))
            assert [each.name for each in one] == [each.name for each in two]
            for a, b in zip(one, two, strict=True):
                assert (a.energy, a.probability) == pytest.approx((b.energy, b.probability), 1e-5)


def test_questions_are_answered_as_by_an_ordinary_model(
    trained: tuple[Path, Dataset], processes: Processes
) -> None:
    folder, data = trained
    whole, spread = SheafEmbedding.load(folder), load_shards(folder, processes)
    for one, two in zip(answered(whole, data, 5), answered(spread, data, 5), strict=True):
        assert [name for name, *_ in one] == [name for name, *_ in two]
        for a, b in zip(one, two, strict=True):
            assert a[1:] == pytest.approx(b[1:], 1e-5)


def test_what_several_processes_cannot_answer_is_said(
    trained: tuple[Path, Dataset], processes: Processes
) -> None:
    folder, data = trained
    asker = Asker(load_shards(folder, processes))
    relation = data.train.schema.relation_names[0]
    joint = f"SELECT ?x ?y {{ ?x {sparql_name(relation)} ?y }}"
    with pytest.raises(InputError, match="one target at a time: use the solver chaining"):
        asker.answer(joint, solver="harmonic")
    exact = Asker(asker.model, Options("harmonic", search="exact"))
    with pytest.raises(InputError, match="each compares all of its entities: search=full"):
        exact.answer(joint.replace("?x ?y {", "?x {"))
    assert len(asker.answer(joint, solver="chaining", top=3)) == 3


@pytest.mark.parametrize("tables", ["fp16", "int8"])
def test_vectors_in_fewer_bits_are_not_spread(
    trained: tuple[Path, Dataset], processes: Processes, tmp_path: Path, tables: str
) -> None:
    run = [*SHEAVES, "narrow", trained[0], "--tables", tables, "--out", tmp_path / "narrow"]
    subprocess.run(run, check=True, capture_output=True)
    with pytest.raises(InputError, match="fewer bits, and such ones are not spread"):
        load_shards(tmp_path / "narrow", processes)


def test_a_disk_that_is_full_loses_nothing(
    trained: tuple[Path, Dataset], processes: Processes, tmp_path: Path
) -> None:
    model = load_shards(trained[0], processes)
    save_shards(model, tmp_path / "m")
    before = (tmp_path / "m" / "weights.safetensors").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400, limits[1]))
    try:
        with pytest.raises(OutputError, match="m cannot be written: File too large"):
            save_shards(model, tmp_path / "m")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "m" / "weights.safetensors").read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["m"]


def test_what_fails_for_one_fails_for_all(processes: Processes) -> None:
    with pytest.raises(InputError, match="so it is"), processes.together():
        raise InputError("so it is.")
    with pytest.raises(OutputError, match="Process 0 cannot write: no"), processes.together():
        raise OSError("no")
    with pytest.raises(OutputError, match="before"):
        processes.led(lambda _: (_ for _ in ()).throw(OutputError("before.")), lambda _: None)


def test_a_process_that_waits_in_vain_says_who_is_missing() -> None:
    """Nobody else comes: the first of two says that the second is missing, and ends."""
    program = (
        "from knowledge_sheaves.processes import Processes\n"
        "from knowledge_sheaves.errors import SheafError\n"
        "try:\n"
        "    with Processes.started(patience=1): pass\n"
        "except SheafError as error: print(error)\n"
    )
    alone = {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        env=os.environ | alone,
    )
    assert "found nobody to work with in 1 seconds" in done.stdout, done.stderr


@pytest.mark.parametrize("rank", [0, 1])
def test_torchrun_without_sharded_is_refused_once(rank: int, tmp_path: Path) -> None:
    several = {"WORLD_SIZE": "2", "RANK": str(rank)}
    command = [*SHEAVES, "train", "nations", "--out", str(tmp_path / "m")]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | several)
    assert done.returncode == 2
    said = "sheaves: torchrun started 2 processes, which would all do the same: say --sharded"
    assert done.stderr.startswith(said) if rank == 0 else not done.stderr


def test_without_torchrec_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from knowledge_sheaves.training.sharded import check_shardable, engine

    monkeypatch.setattr(engine, "NEEDED", ("no_such_package",))
    with pytest.raises(InputError, match="no_such_package cannot be found here: run make sharded"):
        check_shardable(TrainingConfig(optimiser="adagrad"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"optimiser": "adam"}, "cannot do optimiser: adam"),
        ({"device": "meta"}, "cannot do device: meta"),
        ({"averaging": 1.0}, "cannot do averaging"),
        ({"normalise": True}, "cannot do normalise"),
        ({"negatives": None}, "such as --negatives 2048"),
    ],
)
def test_what_cannot_be_spread_is_refused(
    options: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from knowledge_sheaves.training.sharded import check_shardable, engine

    monkeypatch.setattr(engine, "NEEDED", ())
    with pytest.raises(SheafError, match=said):
        check_shardable(TrainingConfig.from_dict(options))

"""Checkpoints of a run on several processes: a folder in which each has written its rows.

checkpoint.json       what the run knows, which rows are in which file, checksums
common.safetensors    what every process has: maps, translations, and what the optimiser keeps
rows-….safetensors    of every table some rows, what the optimiser keeps of them, and the best ones

Any number of processes can go on from it: each reads the rows that are to be its own from the files
that hold them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from knowledge_sheaves.embedding.folder import read_file, read_json, sha256
from knowledge_sheaves.embedding.row_files import RowFile, frame, write_at
from knowledge_sheaves.embedding.shards import ShardedEmbedding
from knowledge_sheaves.embedding.storage import tensors_written
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.files import as_json, encoded, is_sealed, replacing, sealed
from knowledge_sheaves.training.checkpoint import MANIFEST, check_known, fitting, optimiser_state
from knowledge_sheaves.training.optimisers import RowOptimiser
from knowledge_sheaves.training.sharded.engine import TrainedRows

COMMON = "common.safetensors"
ROWS, STATE, BEST = "rows", "state", "best"


class Snapshot(NamedTuple):
    """A model as it was: this process's rows by table, and what all processes have."""

    rows: dict[str, Tensor]
    common: dict[str, Tensor]

    @classmethod
    def of(cls, model: ShardedEmbedding) -> Snapshot:
        return cls(
            {table.name: table.own.clone() for table in model.entities.all},
            {name: value.clone() for name, value in model.state_dict().items()},
        )

    def restore(self, model: ShardedEmbedding) -> None:
        for table in model.entities.all:
            table.own.copy_(self.rows[table.name])
        model.load_state_dict(self.common)


def save_sharded(
    path: Path,
    model: ShardedEmbedding,
    optimiser: RowOptimiser,
    best: Snapshot | None,
    facts: Mapping[str, Any],
) -> None:
    """Write a checkpoint, all or nothing: every process its rows, the first what all have."""

    def lead(share: Callable[[Path], list[dict[str, Any]]]) -> None:
        old = [item.name for item in path.iterdir()] if path.is_dir() else []
        with replacing(path, old) as new:
            with tensors_written():
                save_file(_common(model, optimiser, best), new / COMMON)
            shards = share(new)
            told = {"facts": facts, "shards": shards, COMMON: sha256(new / COMMON)}
            plain = json.loads(json.dumps(told))
            (new / MANIFEST).write_bytes(encoded(as_json(sealed(plain))))

    def write(new: Path) -> dict[str, Any]:
        file = new / f"rows-{model.processes.rank:05}.safetensors"
        tensors = _own(model, best)
        places = frame(file, {name: tuple(t.shape) for name, t in tensors.items()}, {})
        write_at(file, {places[name]: tensor for name, tensor in tensors.items()})
        first = {table.name: table.first for table in model.entities.all}
        return {"file": file.name, "first": first, "sha256": sha256(file)}

    model.processes.led(lead, write)


def load_sharded(
    path: Path, model: ShardedEmbedding, optimiser: RowOptimiser, check: Callable[[Any], None]
) -> tuple[dict[str, Any], Snapshot | None]:
    """Bring a model and an optimiser back; returns what the run knows, and its best model.

    ``check`` refuses the settings of another run, before anything is read.
    """
    with model.processes.together():
        told = read_file(path / MANIFEST, read_json)
        if not isinstance(told, dict) or not is_sealed(told):
            raise InputError(
                f"The checkpoint {path} was changed after it was written (its checksum is wrong): "
                "delete it to start afresh."
            )
        facts = check_known(told.get("facts"), path)
        check(facts["settings"])
        _check_files(path, told, model.processes.rank, model.processes.count)
    with model.processes.together(), fitting(path):
        best = _read(path, told, model, optimiser)
    return facts, best


def _check_files(path: Path, told: Mapping[str, Any], rank: int, count: int) -> None:
    """Refuse files that are missing or changed; the processes share the work."""
    sums = {each["file"]: each["sha256"] for each in told["shards"]} | {COMMON: told[COMMON]}
    for number, (name, expected) in enumerate(sums.items()):
        if not (path / name).is_file():
            raise InputError(
                f"{path / name} is missing, and the run cannot go on without it: put it back, or "
                f"delete {path} to start afresh."
            )
        if number % count == rank and read_file(path / name, sha256) != expected:
            raise InputError(
                f"{path / name} was changed or cut short after it was written (its checksum is "
                f"wrong): put back a copy, or delete {path} to start afresh."
            )


def _read(
    path: Path, told: Mapping[str, Any], model: ShardedEmbedding, optimiser: RowOptimiser
) -> Snapshot | None:
    common = load_file(path / COMMON)
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "best": {}, "optimiser": {}}
    for key, value in common.items():
        part, _, name = key.partition("/")
        parts[part][name] = value
    files = [(RowFile(path / each["file"]), each["first"]) for each in told["shards"]]
    best: dict[str, Tensor] = {}
    for table in model.entities.all:
        assert isinstance(table, TrainedRows), "what is trained has a state"
        _fill(files, table, ROWS, table.own)
        _fill(files, table, STATE, table.state.view(len(table.own), -1))
        if parts["best"]:
            best[table.name] = torch.empty_like(table.own)
            _fill(files, table, BEST, best[table.name])
    model.load_state_dict(parts["model"])
    with torch.no_grad():
        for name, value in optimiser_state(optimiser).items():
            value.copy_(parts["optimiser"][name])
    return Snapshot(best, parts["best"]) if parts["best"] else None


def _fill(
    files: list[tuple[RowFile, Mapping[str, int]]], table: TrainedRows, what: str, into: Tensor
) -> None:
    """Read this process's rows of a table from the files that have them."""
    name, low, high = f"{table.name}/{what}", table.first, table.first + len(into)
    total = 0
    for file, first in files:
        rows, *width = file.shapes[name]
        total += rows
        start = first[table.name]
        begin, end = max(low, start), min(high, start + rows)
        if begin < end:
            if width != [into.shape[1]]:
                raise ValueError("rows of another width")
            into[begin - low : end - low] = file.rows(name, begin - start, end - start)
    if total != table.rows:
        raise ValueError("another number of rows")


def _own(model: ShardedEmbedding, best: Snapshot | None) -> dict[str, Tensor]:
    """What this process writes: nothing is copied for it."""
    tensors = {}
    for table in model.entities.all:
        assert isinstance(table, TrainedRows), "what is trained has a state"
        tensors[f"{table.name}/{ROWS}"] = table.own
        tensors[f"{table.name}/{STATE}"] = table.state.view(len(table.own), -1)
        if best is not None:
            tensors[f"{table.name}/{BEST}"] = best.rows[table.name]
    return tensors


def _common(
    model: ShardedEmbedding, optimiser: RowOptimiser, best: Snapshot | None
) -> dict[str, Tensor]:
    parts = {"model": model.state_dict(), "optimiser": optimiser_state(optimiser)}
    if best is not None:
        parts["best"] = best.common
    return {
        f"{part}/{name}": value.detach().contiguous().clone()
        for part, each in parts.items()
        for name, value in each.items()
    }

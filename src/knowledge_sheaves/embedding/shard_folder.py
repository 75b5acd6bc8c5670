"""An ordinary model folder, written and read by processes that each have some of the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import torch

from knowledge_sheaves.embedding.model import SheafEmbedding
from knowledge_sheaves.embedding.numbers import not_numbers
from knowledge_sheaves.embedding.row_files import RowFile, frame, scattered, write_at
from knowledge_sheaves.embedding.shards import ShardedEmbedding
from knowledge_sheaves.embedding.storage import load, save
from knowledge_sheaves.embedding.weights import check_shapes
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.processes import Processes

BIASES = "biases"


def save_shards(
    model: ShardedEmbedding, folder: Path, companions: Mapping[str, str] | None = None
) -> None:
    """Write a model as one process would, every process its rows: no one holds all of them."""
    processes = model.processes
    with processes.together():
        problem = not_numbers({table.name: table.own for table in model.entities.all})
        if problem:
            raise InputError(
                f"The model's weights are damaged ({problem}): train it again, with a smaller "
                "learning_rate."
            )

    def lead(share: Callable[[Path], list[None]]) -> None:
        def write(_: SheafEmbedding, path: Path, header: dict[str, str]) -> None:
            places = frame(path, _shapes(model), header)
            common = model.state_dict()
            write_at(path, {places[name]: tensor for name, tensor in common.items()})
            share(path)

        save(model, folder, companions, write=write)

    processes.led(lead, partial(_write_own, model))


def load_shards(folder: Path, processes: Processes) -> ShardedEmbedding:
    """Read a model of which this process is to have its share of the rows."""

    return load(partial(ShardedEmbedding, processes=processes), folder, _fill)


def _shapes(model: ShardedEmbedding) -> dict[str, tuple[int, ...]]:
    """All tensors of the ordinary model."""
    tables = model.entities
    shapes = {table.name: (table.rows, table.width) for table in tables.vectors}
    if tables.biases:
        shapes[BIASES] = (model.graph.num_entities, tables.biases[0].width)
    return {name: tuple(t.shape) for name, t in model.state_dict().items()} | shapes


def _write_own(model: ShardedEmbedding, path: Path) -> None:
    file, tables = RowFile(path), model.entities
    for table in tables.vectors:
        start = file.begin + file.header[table.name]["data_offsets"][0]
        write_at(path, {start + 4 * table.first * table.width: table.own})
    if tables.biases:
        start = file.begin + file.header[BIASES]["data_offsets"][0]
        own = torch.cat([table.own for table in tables.biases])
        write_at(path, scattered(start, model.own_in_rows(), own))


def _fill(model: ShardedEmbedding, path: Path) -> None:
    file, tables = RowFile(path), model.entities
    if any(file.header[t.name]["dtype"] != "F32" for t in tables.vectors if t.name in file.header):
        raise InputError(
            "the vectors are kept in fewer bits, and such ones are not spread over processes: take "
            "the model that it was narrowed from, or leave out --sharded."
        )
    check_shapes({name: list(shape) for name, shape in _shapes(model).items()}, file.shapes)
    state = {name: torch.from_numpy(file.tensor(name).copy()) for name in model.state_dict()}
    model.load_state_dict(state)
    for table in tables.vectors:
        table.own.copy_(file.rows(table.name, table.first, table.first + len(table.own)))
    if tables.biases:
        own = torch.from_numpy(file.tensor(BIASES)[model.own_in_rows().numpy()])
        for table, part in zip(
            tables.biases, own.split([len(table.own) for table in tables.biases]), strict=True
        ):
            table.own.copy_(part)

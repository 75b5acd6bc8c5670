"""Tables that TorchRec spreads over processes, row by row, and updates while it goes backwards.

A step asks for some thousand rows; they come from the processes that have them and their gradients
go back there (two exchanges of all with all), where the optimiser is part of the backward pass.
"""

from __future__ import annotations

import importlib.util
import logging
import math
import warnings
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from knowledge_sheaves.embedding.shards import OwnRows
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.processes import Processes

NEEDED = ("torchrec", "fbgemm_gpu")
OPTIMISERS = {"adagrad": "Adagrad", "rowwise-adagrad": "RowWiseAdagrad"}
"""Ours by TorchRec's names: those of its optimisers that it has for processors."""
EPS = 1e-10
UNIT = 4
"""The kernels take rows of so many numbers and multiples of it."""


def check_engine() -> None:
    """Refuse to start where TorchRec is not installed, and say how to install it."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"--sharded needs TorchRec, and {' and '.join(missing)} cannot be found here: run "
            "make sharded, or the two lines of pip in docs/sharded.md."
        )


@cache
def _torchrec() -> Any:
    """The parts of TorchRec that are used here; importing it takes some seconds."""
    logging.getLogger("torch.fx._symbolic_trace").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchrec import EmbeddingCollection, EmbeddingConfig, KeyedJaggedTensor, optim
        from torchrec.distributed.embedding import EmbeddingCollectionSharder
        from torchrec.distributed.embedding_types import EmbeddingComputeKernel
        from torchrec.distributed.sharding_plan import construct_module_sharding_plan, row_wise
        from torchrec.distributed.types import ShardingEnv
        from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward
    return SimpleNamespace(
        apply=apply_optimizer_in_backward,
        collection=EmbeddingCollection,
        fused=EmbeddingComputeKernel.FUSED.value,
        jagged=KeyedJaggedTensor,
        optimisers=optim,
        plan=construct_module_sharding_plan,
        row_wise=row_wise,
        sharder=EmbeddingCollectionSharder,
        surroundings=ShardingEnv,
        table=EmbeddingConfig,
    )


class TrainedRows(OwnRows):
    """The rows of a table that TorchRec keeps and trains, this process's part of them."""

    def __init__(
        self,
        processes: Processes,
        name: str,
        rows: int,
        width: int,
        optimiser: str,
        learning_rate: float,
    ) -> None:
        self.key = name.replace(".", "_")
        self._wide = -(-width // UNIT) * UNIT
        # The mean square of a row's gradient is taken over the columns that fill it up, too.
        rate = learning_rate
        if optimiser == "rowwise-adagrad":
            rate *= math.sqrt(width / self._wide)
        self._collection = self._shard(processes, rows, optimiser, rate)
        super().__init__(processes, name, rows, width)

    def _shard(self, processes: Processes, rows: int, optimiser: str, rate: float) -> Any:
        engine = _torchrec()
        table = engine.table(
            name=self.key,
            num_embeddings=rows,
            embedding_dim=self._wide,
            feature_names=[self.key],
        )
        tables = engine.collection(tables=[table], device=torch.device("meta"))
        kind = getattr(engine.optimisers, OPTIMISERS[optimiser])
        engine.apply(kind, tables.parameters(), {"lr": rate, "eps": EPS})
        sharder = engine.sharder()
        plan = engine.plan(
            tables,
            {self.key: engine.row_wise(compute_kernel=engine.fused)},
            sharder,
            local_size=processes.count,
            world_size=processes.count,
            device_type="cpu",
        )
        group = engine.surroundings.from_process_group(dist.GroupMember.WORLD)
        return sharder.shard(tables, plan, group, torch.device("cpu"))

    def _make(self, rows: int) -> Tensor:
        (spread,) = self._collection.state_dict().values()
        whole = self._local(spread, (0, self._wide))
        assert len(whole) == rows, "rows are dealt out as `Processes.own` says"
        whole.zero_()
        return whole[:, : self.width]

    @property
    def state(self) -> Tensor:
        """What the optimiser keeps of this process's rows."""
        (kept,) = self._collection.fused_optimizer.state_dict()["state"].values()
        (spread,) = kept.values()
        return self._local(spread, (0,))

    @staticmethod
    def _local(spread: Any, nothing: tuple[int, ...]) -> Tensor:
        parts = spread.local_shards()
        return parts[0].tensor.detach() if parts else torch.zeros(nothing)

    def fetch(self, rows: Tensor) -> Tensor:
        asked = _torchrec().jagged(keys=[self.key], values=rows, lengths=torch.tensor([len(rows)]))
        found = self._collection(asked)[self.key].values()
        return found[:, : self.width]

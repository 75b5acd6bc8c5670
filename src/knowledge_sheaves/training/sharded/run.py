"""A training run whose entity tables are spread over processes; all else is as in `Run`."""

from __future__ import annotations

import shutil
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from knowledge_sheaves.embedding import SheafConfig, SheafEmbedding
from knowledge_sheaves.embedding.shard_folder import save_shards
from knowledge_sheaves.embedding.shards import ShardedEmbedding
from knowledge_sheaves.embedding.storage import check_target
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.files import check_place
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.processes import Processes
from knowledge_sheaves.training.batches import Batch
from knowledge_sheaves.training.checkpoint import MANIFEST, shards_beside
from knowledge_sheaves.training.config import TrainingConfig
from knowledge_sheaves.training.loggers import curve_text
from knowledge_sheaves.training.losses import LOSSES
from knowledge_sheaves.training.sharded.checkpoint import Snapshot, load_sharded, save_sharded
from knowledge_sheaves.training.sharded.engine import OPTIMISERS, TrainedRows, check_engine
from knowledge_sheaves.training.trainer import OnProgress, Run

ROWWISE = "rowwise-adagrad"


def train_sharded(
    processes: Processes,
    dataset: Dataset,
    model: SheafConfig,
    training: TrainingConfig | None = None,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    on_progress: OnProgress | None = None,
) -> ShardedEmbedding:
    """Train a model of which every process has some of the entities, and return the best one met.

    Every process calls it with the same data and settings. With ``out``, a folder on a disk that
    all of them see, the model is saved there as an ordinary one, each process writing its rows. It
    is trained once, also where the split is ours. Unless an optimiser is given, it is row-wise
    Adagrad.
    """
    usual = TrainingConfig(optimiser=ROWWISE)
    settings = replace(training or usual, refit=False)
    place = Path(out) if out else None
    return ShardedRun(processes, dataset, model, settings, place, on_progress).train(resume)


def check_shardable(training: TrainingConfig) -> None:
    """Refuse, with the reason, what cannot be done where nobody has all of a table."""
    check_engine()
    refused = {
        f"optimiser: {training.optimiser}": training.optimiser not in OPTIMISERS,
        f"device: {training.device}": training.device != "cpu",
        "averaging": bool(training.averaging),
        "normalise": training.normalise,
    }
    for name, given in refused.items():
        if given:
            raise InputError(
                f"--sharded cannot do {name}: it trains on processors, with optimiser "
                f"{' or '.join(OPTIMISERS)}, without averaging and normalise."
            )
    if training.negatives is None and LOSSES[training.loss].against == "candidates":
        raise InputError(
            "--sharded compares facts with candidates that are drawn, not with all entities: say "
            "how many, such as --negatives 2048."
        )


def averaged(objective: nn.Module) -> nn.Module:
    """The same, with the gradients of what every process has averaged over all of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # the new name is not in all versions
        return DistributedDataParallel(
            objective,
            # A group of its own: its exchanges and those of the tables overlap in any order.
            process_group=dist.new_group(backend="gloo"),
            broadcast_buffers=False,
            find_unused_parameters=True,
        )


class ShardedRun(Run):
    """One process's part of a run."""

    model: ShardedEmbedding

    def __init__(
        self,
        processes: Processes,
        dataset: Dataset,
        model: SheafConfig,
        training: TrainingConfig,
        out: Path | None,
        on_progress: OnProgress | None,
    ) -> None:
        check_shardable(training)
        self.processes = processes
        self._rank, self._processes = processes.rank, processes.count
        super().__init__(dataset, model, training, out, on_progress)
        if len(self.batches) < processes.count:
            raise InputError(
                f"An epoch has {len(self.batches)} batches, and there are {processes.count} "
                "processes: choose a smaller batch_size, or fewer processes."
            )
        self._kept: Snapshot | None = None
        self._forward: nn.Module = averaged(self.objective) if self.learned else self.objective

    def train(self, resume: bool) -> ShardedEmbedding:
        """Go, and return the best model."""
        self.processes.advice = self._advice
        self.go(resume)
        return self.model

    def _advice(self) -> str:
        """How to go on when a process was lost."""
        if self.out is None or not (self._checkpoint / MANIFEST).is_file():
            return "Start it again."
        return f"Go on from {self._checkpoint} with --resume, on as many processes as you like."

    def _make_model(self, model: SheafConfig) -> SheafEmbedding:
        training = self.training
        make = partial(
            TrainedRows, optimiser=training.optimiser, learning_rate=training.learning_rate
        )
        known = model, self.dataset.train, training.seed
        return ShardedEmbedding(*known, processes=self.processes, make_rows=make)

    def _check_place(self, out: Path) -> None:
        spread = sum(table.rows * (2 * table.width + 1) for table in self.model.entities.all)
        with self.processes.together():
            if self._first:
                check_target(out)
                check_place(out, 2 * 4 * spread)

    def _step(self, batch: Batch) -> float:
        self.optimiser.zero_grad(set_to_none=True)
        # One exchange brings all that the batch looks at; going back, tables are updated.
        with self.model.entities.fetched(self.objective.entities(batch)):
            loss = self._forward(batch)
            loss.backward()
        self.optimiser.step()
        return float(loss.detach())

    def _mean(self, value: float) -> float:
        return self.processes.mean(value)

    def _keep_best(self) -> None:
        self.best, self._kept = self.model, Snapshot.of(self.model)

    def _write_checkpoint(self, facts: dict[str, Any]) -> None:
        save_sharded(self._checkpoint, self.model, self.optimiser, self._kept, facts)

    def _read_checkpoint(self) -> dict[str, Any]:
        asked = self._checkpoint, self.model, self.optimiser, self._check_settings
        facts, self._kept = load_sharded(*asked)
        self.best = None if self._kept is None else self.model
        return facts

    @property
    def _checkpoint(self) -> Path:
        assert self.out is not None, "only runs with an output folder have checkpoints"
        return shards_beside(self.out)

    def _finish(self) -> SheafEmbedding:
        if self._kept is not None:
            self._kept.restore(self.model)
        return super()._finish()

    def _save(self, best: SheafEmbedding, out: Path) -> None:
        assert isinstance(best, ShardedEmbedding), "the best model is spread as all of them"
        save_shards(best, out, {"training.csv": curve_text(self._shown)})
        if self._first and not self.interrupted:
            shutil.rmtree(self._checkpoint, ignore_errors=True)

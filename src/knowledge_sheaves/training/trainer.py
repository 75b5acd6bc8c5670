"""The training loop: batches, steps, validation, checkpoints, and the best model at the end."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from knowledge_sheaves.embedding import Pairs, Scoring, SheafConfig, SheafEmbedding
from knowledge_sheaves.embedding.storage import ModelInfo, check_target, save
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.files import check_place
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.memory import keeping_freed, peak_memory
from knowledge_sheaves.ranking import RankMetrics, fit_temperature, rank_triples, ranked_side
from knowledge_sheaves.training.batches import Batch, Batches
from knowledge_sheaves.training.checkpoint import (
    checkpoint_beside,
    fitting,
    load_checkpoint,
    mapped_copy,
    room_needed,
    save_checkpoint,
)
from knowledge_sheaves.training.config import TrainingConfig
from knowledge_sheaves.training.contrast import Contrast, total_score
from knowledge_sheaves.training.loggers import curve_text, make_log
from knowledge_sheaves.training.objective import Objective
from knowledge_sheaves.training.optimisers import OPTIMISERS, RowOptimiser
from knowledge_sheaves.training.room import check_room

# How often an epoch's weights enter their average: those of neighbouring steps hardly differ.
LOOKS = 20
MAPPED = 1 << 30
"""So large a model is not kept twice in memory."""
MANY_ENTITIES = 1_000_000
"""From more entities on validation ranks among some of them, unless it is told otherwise."""
INDIFFERENT = ("epochs", "minutes", "threads", "checkpoint_every", "logger", "patience", "refit")
"""What may change between the parts of one run without changing how its epochs come out."""


@dataclass(frozen=True)
class Progress:
    """Where a run stands: after a step (``metrics`` is empty) or at the end of an epoch.

    ``refit`` is the second run, on all facts.
    """

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    seconds: float
    best: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    refit: bool = False


OnProgress = Callable[[Progress], None]


class Run:
    """One training run and its state; where another follows, ``followed``, it can be resumed."""

    def __init__(
        self,
        dataset: Dataset,
        model: SheafConfig,
        training: TrainingConfig,
        out: Path | None,
        on_progress: OnProgress | None,
        followed: bool = False,
        pairs: Pairs | None = None,
        scoring: Scoring = total_score,
    ) -> None:
        if dataset.train.num_triples == 0:
            raise InputError("There is nothing to learn from: the training graph has no triples.")
        self.followed = followed
        check_room(model, dataset.train, self._processes)
        if training.threads:
            torch.set_num_threads(training.threads)
        self.dataset, self.training, self.out = dataset, training, out
        self.on_progress = on_progress
        self.device = _device(training.device)
        torch.manual_seed(training.seed)
        self.model = self._make_model(model).to(self.device)
        known = self.model, dataset.train, training
        self.contrast = Contrast(*known, pairs, dataset.false, scoring)
        self.batches = Batches(*known, self._rank, self._processes, self.contrast)
        self.objective = Objective(*known, scoring)
        self.learned = [p for p in self.model.parameters() if p.numel()]
        make = OPTIMISERS[training.optimiser]
        learned = [{"params": self.learned}]  # which may be none, where tables are elsewhere
        self.optimiser: RowOptimiser = make(learned, lr=training.learning_rate)
        self.average = copy.deepcopy(self.model) if training.averaging else None
        self.best: SheafEmbedding | None = None
        self.best_mrr: float | None = None
        self.stale = 0
        self.curve: list[dict[str, float]] = []
        self.seconds = 0.0
        self.spent = 0.0  # with the time of validation
        self.interrupted = False

    # What one process does by itself; several do it together (`training.sharded`).

    _rank, _processes = 0, 1

    def _make_model(self, model: SheafConfig) -> SheafEmbedding:
        return SheafEmbedding(model, self.dataset.train, self.training.seed)

    def _check_place(self, out: Path) -> None:
        check_target(out)
        others = {"best": self.model, "average": self.average}
        check_place(out, room_needed(self.model, self.optimiser, others))

    def _step(self, batch: Batch) -> float:
        """Learn from a batch, and return what it cost."""
        self.optimiser.zero_grad(set_to_none=True)
        loss = self.objective(batch)
        loss.backward()
        self.optimiser.step()
        return float(loss.detach())

    def _mean(self, value: float) -> float:
        """The mean of a number over all processes."""
        return value

    def _keep_best(self) -> None:
        self.best = self._copy_of(self.judged)

    def _write_checkpoint(self, facts: dict[str, Any]) -> None:
        others = {"best": self.best, "average": self.average}
        save_checkpoint(self._checkpoint, self.model, self.optimiser, others, facts)

    def _read_checkpoint(self) -> dict[str, Any]:
        """Bring the weights back, and return what is known of the run."""
        facts, others = load_checkpoint(self._checkpoint, self.model, self.optimiser)
        self._check_settings(facts["settings"])
        with fitting(self._checkpoint):
            if "best" in others:
                self.best = copy.deepcopy(self.model)
                self.best.load_state_dict(others["best"])
            if self.average is not None:
                self.average.load_state_dict(others["average"])
        return facts

    def _save(self, best: SheafEmbedding, out: Path) -> None:
        save(best, out, {"training.csv": curve_text(self._shown)})
        self._best_file.unlink(missing_ok=True)
        if not self.interrupted and not self.followed:
            self._checkpoint.unlink(missing_ok=True)

    # The run.

    @property
    def _large(self) -> bool:
        """Whether the vectors of a batch's triples and of their negatives pass glibc's limit."""
        model = self.model
        numbers = model.n_blocks * max(model.widths) * model.config.sections
        return 2 * self.training.batch_size * numbers * model.radius.element_size() > 1 << 25

    def go(self, resume: bool) -> SheafEmbedding:
        start = self._resume() if resume else 0
        if self.out is not None:
            self._check_place(self.out)
        settings = self.model.config.to_dict() | self.training.to_dict()
        log = make_log(self.training.logger, self.out or Path(), settings) if self._first else None
        try:
            with keeping_freed() if self._large else nullcontext():
                for epoch in range(start, self.training.epochs):
                    if self._over:
                        break
                    numbers = self._epoch(epoch)
                    if log:
                        log(epoch, numbers)
                    self._keep(epoch, numbers)
        except KeyboardInterrupt:
            if self.best is None:  # not one epoch done: there is nothing worth keeping
                raise
            self.interrupted = True
        return self._finish()

    @property
    def _first(self) -> bool:
        return self._rank == 0

    def _epoch(self, epoch: int) -> dict[str, float]:
        started = time.perf_counter()
        numbers = {"epoch": epoch + 1.0, "loss": self.pass_over(epoch)}
        # All processes go by one clock, so that they stop after the same epoch.
        numbers["seconds"] = took = round(self._mean(time.perf_counter() - started), 3)
        self.seconds += took
        due = (epoch + 1) % self.training.validate_every == 0 or epoch + 1 == self.training.epochs
        if due or self._late(self.spent + took, took):
            numbers |= self._validate()
        self.spent += self._mean(time.perf_counter() - started)
        return numbers

    def pass_over(self, epoch: int) -> float:
        """Take a step for every batch of an epoch, and return the mean loss."""
        started = time.perf_counter()
        losses, count, steps = 0.0, 0, max(1, len(self.batches) // self._processes)
        self.objective.train()
        # Dropout draws from the global generator: seeded by epoch, so that a resumed run repeats.
        torch.manual_seed(self.training.seed * 7919 + epoch)
        for batch in self.batches.epoch(epoch):
            loss = self._step(batch)
            if self.training.normalise:
                self._normalise()
            self._average(epoch * steps + count + 1, steps)
            losses, count = losses + self._mean(loss), count + 1
            if not np.isfinite(losses):
                raise InputError(
                    f"The loss is no longer a number in epoch {epoch + 1}: try a smaller "
                    f"learning_rate than {self.training.learning_rate:g}."
                )
            self._report(epoch, count, steps, losses / count, started)
        self.judged.refresh()
        return losses / max(1, count)

    @property
    def _over(self) -> bool:
        """Whether more epochs would not help, or not be in time."""
        late = bool(self.curve) and self._late(self.spent, self.curve[-1]["seconds"])
        return late or self.stale >= self.training.patience

    def _late(self, spent: float, pace: float) -> bool:
        """Whether the time is over, to the nearest whole epoch of ``pace`` seconds."""
        limit = self.training.minutes
        return limit is not None and spent + pace / 2 >= 60 * limit

    def _report(self, epoch: int, step: int, steps: int, loss: float, started: float) -> None:
        if self.on_progress and self._first:
            spent = self.seconds + time.perf_counter() - started
            self.on_progress(
                Progress(epoch, self.training.epochs, step, steps, loss, spent, self.best_mrr)
            )

    @torch.no_grad()
    def _normalise(self) -> None:
        """Unit length for every section of every entity that the step has moved."""
        for table in self.model.entities.tables:
            if table.grad is None:
                continue
            sparse = table.grad.is_sparse
            rows = table.grad._indices()[0].unique() if sparse else torch.arange(len(table))
            vectors = table.index_select(0, rows).unflatten(1, (-1, self.model.config.sections))
            # torch's own norm along an axis that is not the last takes twice as long.
            vectors.div_(vectors.square().sum(1, keepdim=True).sqrt_().clamp_(min=1e-12))
            table.index_copy_(0, rows, vectors.flatten(1))

    @property
    def judged(self) -> SheafEmbedding:
        """What is validated and kept: the average of the weights, or the weights as they are."""
        return self.model if self.average is None else self.average

    @torch.no_grad()
    def _average(self, step: int, steps: int) -> None:
        """Draw the average towards the weights: by little late in a run, by much at its start."""
        every = max(1, steps // LOOKS)
        if self.average is None or step % every:
            return
        share = every / min(self.training.averaging * steps, step / 4)
        for mine, theirs in zip(self.average.parameters(), self.model.parameters(), strict=True):
            mine.lerp_(theirs, min(1.0, share))

    def _validate(self) -> dict[str, float]:
        valid = self.dataset.valid
        if valid is None or valid.num_triples == 0:
            return {}
        self.objective.eval()
        metrics = validation_metrics(self.judged, self.dataset, valid, self.training)
        return {"mrr": metrics.mrr, "hits_at_10": metrics.hits_at_10}

    def _keep(self, epoch: int, numbers: dict[str, float]) -> None:
        """Remember the best model, and write down where the run stands."""
        self.curve.append(numbers)
        mrr = numbers.get("mrr")
        # Until an epoch is validated the last one counts; then those that are not are passed over.
        improved = self.best_mrr is None or (mrr is not None and mrr > self.best_mrr)
        if mrr is not None:
            self.stale = 0 if improved else self.stale + 1
        if improved:
            self.best_mrr = mrr
            self._keep_best()
        if self.on_progress and self._first:
            count = len(self.batches)
            self.on_progress(
                Progress(
                    epoch,
                    self.training.epochs,
                    count,
                    count,
                    numbers["loss"],
                    self.seconds,
                    self.best_mrr,
                    numbers,
                )
            )
        if self.out is not None:
            last = epoch + 1 == self.training.epochs or self._over
            if (epoch + 1) % self.training.checkpoint_every == 0 or last:
                facts = {
                    "epoch": epoch + 1,
                    "best_mrr": self.best_mrr,
                    "stale": self.stale,
                    "curve": self.curve,
                    "seconds": self.seconds,
                    "spent": self.spent,
                    "settings": self._settings(),
                    "asked": self.model.config.to_dict() | self.training.to_dict(),
                }
                self._write_checkpoint(facts)

    def _copy_of(self, model: SheafEmbedding) -> SheafEmbedding:
        """The model as it is now: in memory, or, where it is large, in a file that is mapped."""
        size = sum(p.numel() * p.element_size() for p in model.parameters())
        if self.out is None or size < MAPPED or self.device.type != "cpu" or os.name == "nt":
            return copy.deepcopy(model)
        return mapped_copy(model, self._best_file)

    @property
    def _best_file(self) -> Path:
        return self._checkpoint.with_suffix(".best.safetensors")

    @property
    def _checkpoint(self) -> Path:
        assert self.out is not None, "only runs with an output folder have checkpoints"
        return checkpoint_beside(self.out)

    def _settings(self) -> dict[str, Any]:
        settings = self.model.config.to_dict() | self.training.to_dict()
        for name in INDIFFERENT:
            settings.pop(name)
        return settings | {"data": self.dataset.hash, "pairs": self.contrast.key}

    def _resume(self) -> int:
        if self.out is None or not self._checkpoint.exists():
            where = "an output folder" if self.out is None else str(self._checkpoint)
            raise InputError(
                f"There is no run to resume: {where} is missing. Train without resume."
            )
        facts = self._read_checkpoint()
        self.best_mrr, self.stale = facts.get("best_mrr"), facts["stale"]
        self.curve, self.seconds = facts["curve"], facts["seconds"]
        self.spent = facts.get("spent", self.seconds)
        return int(facts["epoch"])

    def _check_settings(self, told: dict[str, Any]) -> None:
        """Refuse to go on with a run that was asked for otherwise."""
        # A run that is older than an option had it as by default.
        before = TrainingConfig().to_dict() | told
        changed = [k for k, v in self._settings().items() if before.get(k, v) != v]
        if changed:
            raise InputError(
                f"The run in {self._checkpoint} had other settings for {', '.join(changed)}: use "
                f"the same ones, or train without resume."
            )

    def _finish(self) -> SheafEmbedding:
        best = self.best if self.best is not None else self.judged
        best = best.to("cpu")
        best.refresh()
        best.info = self._info(best)
        if self.out is not None:
            self._save(best, self.out)
        return best

    @property
    def _shown(self) -> list[dict[str, float]]:
        return self.curve

    def _info(self, best: SheafEmbedding) -> ModelInfo:
        return run_info(self, best)

    @property
    def best_epoch(self) -> int:
        """How many epochs made the best model."""
        if self.best_mrr is None:
            return len(self.curve)
        return next(n for n, each in enumerate(self.curve, 1) if each.get("mrr") == self.best_mrr)


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError):
        found = (
            torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        )
        there = "cpu" if found is None else f"cpu and {found.type}"
        raise InputError(
            f"The device {name!r} cannot be used: this PyTorch finds {there} here."
        ) from None
    return device


def run_info(run: Run, best: SheafEmbedding) -> ModelInfo:
    """What the model folder says of the run."""
    valid = run.dataset.valid
    calibration = {}
    if valid is not None and valid.num_triples:
        calibration["tau"] = fit_temperature(best, valid, run.dataset.train, side=ranked_side(best))
    return ModelInfo.of(
        run.dataset,
        training=run.training.to_dict()
        | {
            "epochs_run": len(run.curve),
            "best_epoch": run.best_epoch,
            "interrupted": run.interrupted,
        },
        seconds=round(run.seconds, 1),
        peak_memory=peak_memory(),
        calibration=calibration,
        metrics={} if run.best_mrr is None else {"validation_mrr": run.best_mrr} | _among(run),
    )


def _among(run: Run) -> dict[str, int]:
    """Among how many entities validation ranked, where it was not all."""
    drawn = drawn_candidates(run.training, run.dataset.train.num_entities)
    return {} if drawn is None else {"validation_candidates": drawn}


def drawn_candidates(config: TrainingConfig, num_entities: int) -> int | None:
    """How many entities validation draws to rank among; None: it ranks among all."""
    wanted = config.validation_candidates
    if wanted is None and num_entities > MANY_ENTITIES:
        wanted = MANY_ENTITIES // 10
    return wanted if wanted is not None and wanted < num_entities else None


def validation_metrics(
    model: SheafEmbedding, dataset: Dataset, valid: KnowledgeGraph, config: TrainingConfig
) -> RankMetrics:
    """Filtered ranks of a fixed sample of the validation triples.

    In a large graph they are among a fixed sample of its entities, and the answers.
    """
    triples: Any = valid.triples
    if len(triples) > config.validation_triples:
        rng = np.random.default_rng(config.seed)
        triples = triples[rng.choice(len(triples), config.validation_triples, replace=False)]
    side, among = ranked_side(model), None
    drawn = drawn_candidates(config, valid.num_entities)
    if drawn is not None:
        some = np.random.default_rng(config.seed + 1).integers(valid.num_entities, size=drawn)
        among = np.concatenate([some, triples[:, 0], triples[:, 2]])
    known = [dataset.train, valid]
    return RankMetrics.of(rank_triples(model, triples, known, side, among=among).sides[side])

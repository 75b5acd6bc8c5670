"""A training as a user asks for it: one run to choose and to measure by, and one on all facts.

Where the split is ours, the facts held out of the first run are facts like all others to the user.
So the final model learns them too, for as many epochs as were best without them. Of how good it is
they can say nothing: judged by it they all look found. That is said by the model of the first run,
which goes with it (`embedding.storage.measured`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from knowledge_sheaves.embedding import ModelInfo, Pairs, Scoring, SheafConfig, SheafEmbedding
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.training.checkpoint import checkpoint_beside
from knowledge_sheaves.training.config import TrainingConfig
from knowledge_sheaves.training.contrast import total_score
from knowledge_sheaves.training.trainer import OnProgress, Progress, Run, run_info


def train(
    dataset: Dataset,
    model: SheafConfig,
    training: TrainingConfig | None = None,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    on_progress: OnProgress | None = None,
    pairs: Pairs | None = None,
    scoring: Scoring = total_score,
) -> SheafEmbedding:
    """Train a model on a data set and return the best one met, by validation MRR.

    Where the split is ours (``dataset.drawn``), a second run learns all facts for as many epochs,
    and that model is returned. With ``out`` the model is saved there, along with a checkpoint from
    which ``resume`` goes on. Without validation triples the last model counts as the best.
    Ctrl-C ends the training early and keeps the best model of the first run so far. ``pairs`` of
    true and false subgraphs are learned from as well, by the function ``scoring`` on them.

    >>> import torch
    >>> from knowledge_sheaves.embedding import model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([("a", "next", "b"), ("b", "next", "c")])
    >>> config = TrainingConfig(epochs=2)
    >>> model = train(Dataset(graph), model_config("rotate", dim=4), config)
    >>> model.score_tails(torch.tensor([0]), torch.tensor([0])).shape
    torch.Size([1, 3])
    """
    training = training or TrainingConfig()
    twice = training.refit and dataset.drawn and len(dataset.splits) > 1
    place = Path(out) if out else None
    first = Run(dataset, model, training, place, on_progress, twice, pairs, scoring)
    chosen = first.go(resume)
    return Refit(first, chosen).follow(resume) if twice and not first.interrupted else chosen


class Refit(Run):
    """The run on all facts that follows one by which was chosen for how long."""

    def __init__(self, first: Run, chosen: SheafEmbedding) -> None:
        self.first_run, self.chosen = first, chosen
        epochs = max(1, first.best_epoch)
        training = replace(first.training, epochs=epochs, minutes=None, logger="none")
        told = _as_refit(first.on_progress)
        learned = first.contrast.given, first.contrast.scoring
        whole = first.dataset.whole
        super().__init__(whole, chosen.config, training, first.out, told, False, *learned)

    def follow(self, resume: bool) -> SheafEmbedding:
        """The final model; stopped early, the one of the first run."""
        try:
            found = self.go(resume and self.out is not None and self._checkpoint.exists())
        except KeyboardInterrupt:  # in its first epoch; the model of the first run is whole
            self.interrupted = True
            return self._finish()
        if self.out is not None and not self.interrupted:
            checkpoint_beside(self.out).unlink(missing_ok=True)
        return found

    @property
    def _checkpoint(self) -> Path:
        assert self.out is not None, "only runs with an output folder have checkpoints"
        return checkpoint_beside(self.out.with_name(f"{self.out.name}.refit"))

    def _finish(self) -> SheafEmbedding:
        if not self.interrupted:
            return super()._finish()
        assert self.chosen.info is not None, "a run says how it went"
        self.chosen.info.training["interrupted"] = True
        return self.chosen

    @property
    def _shown(self) -> list[dict[str, float]]:
        return self.first_run.curve  # it says how the number of epochs was chosen

    def _info(self, best: SheafEmbedding) -> ModelInfo:
        mine, known = run_info(self, best), self.chosen.info
        assert known is not None, "a run says how it went"
        held_out = sum(map(len, known.held_out.values()))
        return replace(
            mine,
            counts=mine.counts | {"held_out": held_out},
            drawn=True,
            seconds=round(self.first_run.seconds + self.seconds, 1),
            calibration=dict(known.calibration),
            metrics=dict(known.metrics),
            measured=self.chosen,
        )


def _as_refit(tell: OnProgress | None) -> Callable[[Progress], None] | None:
    return None if tell is None else lambda progress: tell(replace(progress, refit=True))

"""A search for good settings, judged by validation MRR; a study goes on where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowledge_sheaves.embedding import SheafConfig
from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.training.config import TrainingConfig
from knowledge_sheaves.training.settings import as_settings
from knowledge_sheaves.training.trainer import Progress, Run

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

SETTINGS, GIVEN = "settings", "as given"
"""What is written down of a trial: its settings, and that they are those the search starts from."""
USUAL_N3 = 0.05
PASSING = ("epochs", "minutes")
"""Settings that a recipe chooses by the speed of the moment; they do not make a start a new one."""


@dataclass(frozen=True)
class TriedSettings:
    """One trial: what was drawn, and the validation MRR; None where it was stopped early.

    The first trial draws nothing: it has the settings that the search starts from.
    """

    number: int
    drawn: dict[str, Any]
    mrr: float | None


@dataclass(frozen=True)
class Tuned:
    """The best settings so far, as a settings file has them, and how many trials the study has."""

    settings: dict[str, Any]
    mrr: float
    trials: int


def tune(
    dataset: Dataset,
    model: SheafConfig,
    training: TrainingConfig | None = None,
    *,
    fixed: Collection[str] = (),
    study: Path | None = None,
    trials: int = 20,
    report: Callable[[TriedSettings], object] | None = None,
) -> Tuned:
    """Search for settings with the best validation MRR; those in ``fixed`` stay as they are.

    The first trial has the settings as they are given, others are drawn around them: what is found
    is never worse. ``study`` is a file that keeps the trials: a search with the same file goes on.
    Hopeless trials stop early. Ctrl-C keeps what was found.

    >>> from knowledge_sheaves.embedding import model_config
    >>> from knowledge_sheaves.graph.readers import load
    >>> data, model = load("nations"), model_config("rotate", dim=8)
    >>> found = tune(data, model, TrainingConfig(epochs=1), fixed=["dim"], trials=1)
    >>> found.settings["model"], found.settings["dim"], found.trials
    ('rotate', 8, 1)
    """
    import optuna

    training = training or TrainingConfig()
    if dataset.valid is None or not dataset.valid.num_triples:
        raise InputError(f"{dataset.source}: tuning needs validation facts, and there are none.")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    search = Search(dataset, model, training, frozenset(fixed))
    found = _open(study, f"{model.name} on {dataset.hash[:12]}")
    # One that goes on with the same seed would draw the trials of its beginning once more.
    found.sampler = optuna.samplers.TPESampler(seed=training.seed + len(found.trials))
    start = {name: v for name, v in as_settings(model, training).items() if name not in PASSING}
    if not any(trial.user_attrs.get(GIVEN) == start for trial in found.trials):
        found.enqueue_trial({}, user_attrs={GIVEN: start})

    def tell(_: Study, trial: FrozenTrial) -> None:
        if report is not None:
            settings = trial.user_attrs.get(SETTINGS, {})
            drawn = {name: settings.get(name, 0) for name in trial.params}
            # One that was stopped has a value too, its last; it is not what the trial came to.
            ended = trial.state == optuna.trial.TrialState.COMPLETE
            report(TriedSettings(trial.number + 1, drawn, trial.value if ended else None))

    found.optimize(search, n_trials=trials, callbacks=[tell])
    if not found.get_trials(states=[optuna.trial.TrialState.COMPLETE]):
        raise SheafError("No trial came to its end, so there are no best settings yet; run more.")
    best = found.best_trial.user_attrs[SETTINGS]
    return Tuned(best, found.best_value, len(found.trials))


@dataclass(frozen=True)
class Search:
    """Trains with the settings of a trial; what is ``fixed`` by the user is not searched."""

    dataset: Dataset
    model: SheafConfig
    training: TrainingConfig
    fixed: frozenset[str]

    def __call__(self, trial: Trial) -> float:
        """Train once and return the best validation MRR; stop early where it looks hopeless."""
        import optuna

        given = GIVEN in trial.user_attrs
        model, training = (self.model, self.training) if given else self.suggest(trial)
        trial.set_user_attr(SETTINGS, as_settings(model, training))

        def watch(report: Progress) -> None:
            if "mrr" in report.metrics:
                trial.report(report.metrics["mrr"], report.epoch)
                if not given and trial.should_prune():
                    raise optuna.TrialPruned

        try:
            trained = Run(self.dataset, model, training, None, watch).go(resume=False)
        except SheafError as error:  # a learning rate may be too large: a fact about it, no failure
            raise optuna.TrialPruned(str(error)) from None
        assert trained.info is not None, "a trained model knows how it came about"
        told = trained.info.training
        if told.get("interrupted"):
            trial.study.stop()
            raise optuna.TrialPruned
        # The clock ends the epochs of a trial; as settings they are counted, to be the same again.
        ended = replace(training, epochs=told["epochs_run"]) if training.minutes else training
        trial.set_user_attr(SETTINGS, as_settings(model, replace(ended, minutes=None)))
        return float(trained.info.metrics["validation_mrr"])

    def suggest(self, trial: Trial) -> tuple[SheafConfig, TrainingConfig]:
        """Draw what is not fixed, around what the search starts from."""
        model, training = self.model, self.training
        block = model.block or 1

        def times(name: str, *factors: float) -> float:
            return float(trial.suggest_categorical(name, factors))

        def about(name: str) -> float:
            return trial.suggest_float(name, 0.2, 5.0, log=True)

        ranges: dict[str, Callable[[str], Any]] = {
            "dim": lambda name: max(1, round(model.dim * times(name, 0.5, 1, 2) / block)) * block,
            "batch_size": lambda name: round(training.batch_size * times(name, 0.5, 1, 2)) or 1,
            "learning_rate": lambda name: training.learning_rate * about(name),
            "dropout": lambda name: times(name, 0.0, 0.1, 0.3),
        }
        if not model.energy.bounded:
            # Bilinear models overfit without a weight on their size; distances are bounded by 0.
            ranges["n3"] = lambda name: (training.n3 or USUAL_N3) * about(name)
            ranges["relation_weight"] = lambda name: times(name, 0.0, 0.1, 1.0)
        drawn = {name: draw(name) for name, draw in ranges.items() if name not in self.fixed}
        dim = drawn.pop("dim", model.dim)
        return model.with_options(dim=dim), replace(training, **drawn)


def _open(path: Path | None, name: str) -> Study:
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    try:
        return optuna.create_study(
            storage=None if path is None else f"sqlite:///{path}",
            study_name=f"{name}, around a start",  # those of version 0.1 had other ranges
            load_if_exists=True,
            direction="maximize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=3, n_warmup_steps=1),
        )
    except (SQLAlchemyError, RuntimeError) as error:
        reason = " ".join(str(getattr(error, "orig", error)).split())
        raise InputError(f"{path} cannot be used as a study file ({reason}).") from None

"""`sheaves tune`: a search for good settings, judged by validation MRR."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowledge_sheaves.cli.data import Data, DataOptions, Labels, SchemaFile, Types
from knowledge_sheaves.cli.output import AsJson, print_json, print_table
from knowledge_sheaves.cli.settings import (
    Config,
    Dim,
    Epochs,
    ModelName,
    Seed,
    Set,
    Threads,
    make_settings,
)

if TYPE_CHECKING:
    from optuna import Study, Trial

    from knowledge_sheaves.embedding import SheafConfig
    from knowledge_sheaves.graph.dataset import Dataset
    from knowledge_sheaves.training import Progress as Report
    from knowledge_sheaves.training import TrainingConfig

DIMS = (64, 128, 256, 512)
SETTINGS = "settings"


def tune(
    data: Data,
    study: Annotated[
        Path, typer.Option(help="The file of the study; an existing one goes on.")
    ] = Path("study.db"),
    trials: Annotated[int, typer.Option(min=1, help="How many more settings to try.")] = 20,
    out: Annotated[
        Path, typer.Option(help="Where to write the best settings, for sheaves train --config.")
    ] = Path("best.yaml"),
    model: ModelName = None,
    dim: Dim = None,
    epochs: Epochs = None,
    seed: Seed = None,
    threads: Threads = None,
    config: Config = None,
    settings: Set = None,
    types: Types = None,
    schema: SchemaFile = None,
    labels: Labels = None,
    as_json: AsJson = False,
) -> None:
    """Search for settings with the best validation MRR, and write them to a file.

    What you give is held fixed; the rest is searched. Hopeless trials stop early. Ctrl-C keeps
    what was found, and the same command goes on with the study.

    \b
    Example:
      sheaves tune nations --trials 2 --epochs 3 --study nations.db --out nations.yaml
    """
    import optuna
    import yaml

    from knowledge_sheaves.errors import InputError, SheafError
    from knowledge_sheaves.files import check_place, write_text

    for place in (out, study):
        check_place(place)
    options = {"model": model, "dim": dim, "epochs": epochs, "seed": seed, "threads": threads}
    chosen, training = make_settings(config, options, settings)
    fixed = {name for name, value in options.items() if value is not None}
    fixed |= {text.partition("=")[0].strip().replace("-", "_") for text in settings or ()}
    fixed |= _names_in(config)
    dataset = DataOptions(types, schema, labels).load(data, training.seed)
    if dataset.valid is None or not dataset.valid.num_triples:
        raise InputError(f"{data}: tuning needs validation facts, and there are none.")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    search = Search(dataset, chosen, training, frozenset(fixed))
    found = _open(study, f"{chosen.name} on {dataset.hash[:12]}", training.seed)
    found.optimize(search, n_trials=trials, callbacks=[_tell])
    if not found.get_trials(states=[optuna.trial.TrialState.COMPLETE]):
        raise SheafError("No trial came to its end, so there are no best settings yet; run more.")
    best = found.best_trial.user_attrs[SETTINGS]
    write_text(out, yaml.safe_dump(best, sort_keys=False))
    if as_json:
        print_json({"validation_mrr": found.best_value, "settings": best, "file": str(out)})
        return
    print_table("Best settings", [{"setting": n, "value": str(v)} for n, v in best.items()])
    typer.echo(f"Validation MRR {found.best_value:.4f} in {len(found.trials)} trials.")
    typer.echo(f"Train with them:  sheaves train {data} --config {out} --out model/")


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

        from knowledge_sheaves.errors import SheafError
        from knowledge_sheaves.training import train

        def watch(report: Report) -> None:
            if "mrr" in report.metrics:
                trial.report(report.metrics["mrr"], report.epoch)
                if trial.should_prune():
                    raise optuna.TrialPruned

        model, training = self.suggest(trial)
        trial.set_user_attr(SETTINGS, _as_file(model, training))
        try:
            trained = train(self.dataset, model, training, on_progress=watch)
        except SheafError as error:  # a learning rate may be too large: a fact about it, no failure
            raise optuna.TrialPruned(str(error)) from None
        assert trained.info is not None, "a trained model knows how it came about"
        if trained.info.training.get("interrupted"):
            trial.study.stop()
            raise optuna.TrialPruned
        return float(trained.info.metrics["validation_mrr"])

    def suggest(self, trial: Trial) -> tuple[SheafConfig, TrainingConfig]:
        """Draw what is not fixed, from ranges that suit the model."""
        block = self.model.block or 1
        dims = [d - d % block for d in DIMS] if self.model.block else [16, 32, 64]
        drawn: dict[str, Any] = {}
        ranges: dict[str, Any] = {
            "dim": lambda name: trial.suggest_categorical(name, dims),
            "learning_rate": lambda name: trial.suggest_float(name, 0.01, 0.5, log=True),
            "batch_size": lambda name: trial.suggest_categorical(name, [256, 512, 1024, 2048]),
            "dropout": lambda name: trial.suggest_float(name, 0.0, 0.5),
        }
        if self.model.lifted:
            # Bilinear models overfit without a weight on their size; distances are bounded by 0.
            ranges["n3"] = lambda name: trial.suggest_float(name, 1e-3, 0.3, log=True)
            ranges["relation_weight"] = lambda name: trial.suggest_categorical(
                name, [0.0, 0.1, 1.0]
            )
        for name, draw in ranges.items():
            if name not in self.fixed:
                drawn[name] = draw(name)
        dim = drawn.pop("dim", self.model.dim)
        return self.model.with_options(dim=dim), replace(self.training, **drawn)


def _as_file(model: SheafConfig, training: TrainingConfig) -> dict[str, Any]:
    """Settings as a settings file has them: what differs from the defaults."""
    from knowledge_sheaves.embedding import CATALOGUE, SheafConfig
    from knowledge_sheaves.training import TrainingConfig

    known = CATALOGUE.get(model.name)
    start = {} if known is None else {"model": model.name}
    base = (known or SheafConfig()).to_dict()
    usual = TrainingConfig().to_dict()
    differs = {name: value for name, value in model.to_dict().items() if value != base[name]}
    trained = {name: value for name, value in training.to_dict().items() if value != usual[name]}
    return start | differs | trained


def _names_in(config: Path | None) -> set[str]:
    from knowledge_sheaves.files import read_data

    return set() if config is None else set(read_data(config))


def _open(path: Path, name: str, seed: int) -> Study:
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    from knowledge_sheaves.errors import InputError

    try:
        return optuna.create_study(
            storage=f"sqlite:///{path}",
            study_name=name,
            load_if_exists=True,
            direction="maximize",
            sampler=optuna.samplers.TPESampler(seed=seed),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=3),
        )
    except (SQLAlchemyError, RuntimeError) as error:
        reason = " ".join(str(getattr(error, "orig", error)).split())
        raise InputError(f"{path} cannot be used as a study file ({reason}).") from None


def _tell(study: Study, trial: Any) -> None:
    value = "stopped early" if trial.value is None else f"validation MRR {trial.value:.4f}"
    params = ", ".join(
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in trial.params.items()
    )
    typer.echo(f"Trial {trial.number + 1}: {value} ({params})", err=True)

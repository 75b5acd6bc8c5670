"""`sheaves tune`: a search for good settings, judged by validation MRR."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knowledge_sheaves.cli.data import Data, DataOptions, about_data
from knowledge_sheaves.cli.output import AsJson, print_json, print_table, say
from knowledge_sheaves.cli.settings import (
    Config,
    Dim,
    Epochs,
    Minutes,
    ModelName,
    Recipe,
    Seed,
    Set,
    Threads,
)

if TYPE_CHECKING:
    from knowledge_sheaves.training.tuning import TriedSettings


@about_data
def tune(
    data: Data,
    study: Annotated[
        Path, typer.Option(help="The file of the study; an existing one goes on.")
    ] = Path("study.db"),
    trials: Annotated[int, typer.Option(min=1, help="How many more settings to try.")] = 20,
    out: Annotated[
        Path, typer.Option(help="Where to write the best settings, for sheaves train --config.")
    ] = Path("best.yaml"),
    recipe: Recipe = None,
    minutes: Minutes = None,
    model: ModelName = None,
    dim: Dim = None,
    epochs: Epochs = None,
    seed: Seed = None,
    threads: Threads = None,
    config: Config = None,
    settings: Set = None,
    force: Annotated[
        bool, typer.Option("--force", help="Take data that look wrong as they are.")
    ] = False,
    *,
    about: DataOptions,
    as_json: AsJson = False,
) -> None:
    """Search for settings with the best validation MRR, and write them to a file.

    The first trial is the recipe, and what is found is never below it. What you give is held fixed;
    the rest is searched around the recipe. Hopeless trials stop early. Ctrl-C keeps what was found,
    and the same command goes on with the study.

    \b
    Example:
      sheaves tune nations --trials 2 --epochs 3 --study nations.db --out nations.yaml
    """
    import yaml

    from knowledge_sheaves.files import check_place, write_text
    from knowledge_sheaves.training.recipes import QUICK
    from knowledge_sheaves.training.recipes import plan as choose
    from knowledge_sheaves.training.settings import checked_settings
    from knowledge_sheaves.training.tuning import tune as search

    for place in (out, study):
        check_place(place)
    options = {
        "minutes": minutes,
        "model": model,
        "dim": dim,
        "epochs": epochs,
        "seed": seed,
        "threads": threads,
    }
    given = checked_settings(config, options, settings, whole=False)
    dataset = about.load(data, int(given.get("seed", 0)), force)
    plan = choose(dataset, recipe or QUICK, given)
    say(f"{dataset}\nEach of {trials} trials is like the first: {plan}", err=True)
    found = search(
        dataset,
        plan.model,
        plan.training,
        fixed=given,
        study=study,
        trials=trials,
        report=_tell,
    )
    write_text(out, yaml.safe_dump(found.settings, sort_keys=False))
    if as_json:
        print_json({"validation_mrr": found.mrr, "settings": found.settings, "file": str(out)})
        return
    rows = [{"setting": name, "value": str(value)} for name, value in found.settings.items()]
    print_table("Best settings", rows)
    typer.echo(f"Validation MRR {found.mrr:.4f} in {found.trials} trials.")
    say(f"Train with them:  sheaves train {data} --config {out} --out model/")


def _tell(trial: TriedSettings) -> None:
    value = "stopped early" if trial.mrr is None else f"validation MRR {trial.mrr:.4f}"
    drawn = ", ".join(
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in trial.drawn.items()
    )
    typer.echo(f"Trial {trial.number}: {value} ({drawn or 'as the recipe says'})", err=True)

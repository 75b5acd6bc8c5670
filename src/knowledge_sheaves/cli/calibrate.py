"""`sheaves calibrate`: choose how a model answers queries, on validation queries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from knowledge_sheaves.cli.models import Folder, load_model
from knowledge_sheaves.cli.output import AsJson, print_json, print_table

if TYPE_CHECKING:
    from knowledge_sheaves.evaluation.query_calibration import QueryCalibration, Report, Trial


def calibrate(
    model: Folder,
    queries: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="A folder of the BetaE benchmark with validation queries; else they are drawn.",
        ),
    ] = None,
    sample: Annotated[int, typer.Option(min=1, help="How many queries of each type.")] = 100,
    half: Annotated[
        Literal["first", "second"] | None,
        typer.Option(help="Draw them from one half of the folder's; benchmark on the other."),
    ] = None,
    tau: Annotated[
        Literal["queries", "facts"],
        typer.Option(help="What the temperature of queries is fitted on."),
    ] = "queries",
    facts: Annotated[
        Literal["remembered", "ignored"],
        typer.Option(help="Whether chaining may use what is known."),
    ] = "remembered",
    only: Annotated[
        str | None,
        typer.Option(help="Choose these alone, such as tau,softness; the others stay as they are."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws the same queries again.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Choose temperature, softness, focus, kappa, k, strength by the MRR of validation queries.

    The temperature makes probabilities of energies, softness says how much all candidates of an
    unknown count in chaining beside the best, focus how many times colder edges to unknowns are,
    kappa how hard a negation bites, k how many candidates chaining keeps, strength how strong
    harmonic's prior on unknowns is. They go into the model's folder, and queries are answered with
    them from then on.

    \b
    Examples:
      sheaves calibrate model/ --sample 5
      sheaves calibrate model/ --sample 5 --only tau,softness
    """
    from knowledge_sheaves.embedding.numbers import check_weights
    from knowledge_sheaves.embedding.storage import measured, save_calibration
    from knowledge_sheaves.errors import InputError
    from knowledge_sheaves.evaluation.query_calibration import calibrate as choose
    from knowledge_sheaves.evaluation.query_calibration import drawn_queries, folder_queries
    from knowledge_sheaves.evaluation.trust import keep_trust
    from knowledge_sheaves.files import check_place

    loaded = load_model(model)
    check_weights(loaded)
    judge = measured(loaded)  # what was held out must not have been learned
    if loaded.info and judge.info:  # what is not chosen stays as it is
        judge.info.calibration = dict(loaded.info.calibration)
    check_place(model / "config.json")
    if queries is None and half is not None:
        raise InputError("A half is one of a folder's queries: give it with --queries FOLDER.")
    if queries is None:
        asked = drawn_queries(judge, sample, seed)
    else:
        asked = folder_queries(judge, queries, sample, seed, half)
    with _display() as bar:
        names = None if only is None else only.split(",")
        found = choose(judge, asked, tau=tau, facts=facts, only=names, report=bar)
    save_calibration(found.values, model, loaded.info.generation if loaded.info else None)
    if loaded.info:  # what was measured with other settings says nothing of these
        loaded.info.calibration = dict(found.values)
        keep_trust(loaded, model)
    if as_json:
        print_json(found.to_dict())
        return
    _show(found, model)


@contextmanager
def _display() -> Iterator[Report]:
    """A bar that counts trials for a person, a line per trial for a log file."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    watched = console.is_terminal
    with Progress(console=console, disable=not watched, transient=True) as bar:
        task = bar.add_task("drawing queries", total=None)

        def show(trial: Trial, left: int) -> None:
            said = f"{trial.parameter} = {trial.value:.4g}: MRR {trial.mrr:.3f}"
            done = bar.tasks[0].completed + 1
            bar.update(task, description=said, completed=done, total=done + left)
            if not watched:
                console.print(said, highlight=False)

        yield show


def _show(found: QueryCalibration, folder: Path) -> None:
    rows = [
        {
            "parameter": trial.parameter,
            "value": f"{trial.value:.4g}",
            "solver": trial.solver,
            "queries": trial.queries,
            "MRR": trial.mrr,
            "seconds": f"{trial.seconds:.1f}",
            "chosen": found.chosen(trial),
        }
        for trial in found.trials
    ]
    values = ", ".join(f"{name} {value:.4g}" for name, value in found.values.items())
    notes = [*found.notes, f"Stored in {folder}: {values}."]
    print_table("Mean over types of the MRR of hard answers", rows, "\n".join(notes))

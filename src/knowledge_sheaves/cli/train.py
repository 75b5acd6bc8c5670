"""`sheaves train`: from data to a model folder."""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowledge_sheaves.cli.data import Data, DataOptions, about_data, check_meant
from knowledge_sheaves.cli.output import AsJson, print_facts, print_json, say
from knowledge_sheaves.cli.settings import (
    Config,
    Device,
    Dim,
    Epochs,
    Force,
    Minutes,
    ModelName,
    Recipe,
    Seed,
    Set,
    Threads,
)
from knowledge_sheaves.errors import InputError

if TYPE_CHECKING:
    from knowledge_sheaves.embedding import SheafEmbedding

INTERRUPTED = 130


@about_data
def train(
    data: Data,
    out: Annotated[Path, typer.Option(help="The folder for the model.")],
    recipe: Recipe = None,
    minutes: Minutes = None,
    model: ModelName = None,
    dim: Dim = None,
    epochs: Epochs = None,
    batch_size: Annotated[int | None, typer.Option(help="Facts in one step.")] = None,
    negatives: Annotated[
        int | None, typer.Option(help="Entities that a batch compares its answers with.")
    ] = None,
    lr: Annotated[float | None, typer.Option(help="The learning rate.")] = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop after this many validations without a better MRR.")
    ] = None,
    seed: Seed = None,
    threads: Threads = None,
    device: Device = None,
    config: Config = None,
    settings: Set = None,
    no_refit: Annotated[
        bool,
        typer.Option("--no-refit", help="Of a file: do not train once more, on all of its facts."),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was stopped.")
    ] = False,
    force: Force = False,
    *,
    about: DataOptions,
    as_json: AsJson = False,
) -> None:
    """Train a model on a knowledge graph; the best one by validation MRR is saved.

    Without --model and --config the settings are chosen for your graph and this machine, so that
    training takes about two minutes; what you give wins.

    Of a file, which has no split, up to a tenth of the facts is held out to choose and to measure
    by; the model that is saved then learns all of them, and the one that was measured is kept in
    its folder. Ctrl-C stops early and keeps the best model so far.

    \b
    Examples:
      sheaves train umls --minutes 0.1 --out quick/
      sheaves train umls --model complex --dim 64 --epochs 5 --out small/
      sheaves train umls --model rotate --dim 32 --epochs 3 --set dropout=0.1 --out rotate/
    """
    from knowledge_sheaves.embedding.storage import check_target
    from knowledge_sheaves.training.settings import checked_settings

    options = {
        "minutes": minutes,
        "model": model,
        "dim": dim,
        "epochs": epochs,
        "batch_size": batch_size,
        "negatives": negatives,
        "learning_rate": lr,
        "patience": patience,
        "seed": seed,
        "threads": threads,
        "device": device,
        "refit": False if no_refit else None,
    }
    # What can be refused is refused before hours of training.
    check_target(out, force or resume)
    given = checked_settings(config, options, settings, whole=recipe is None)
    dataset = about.load(data, int(given.get("seed", 0)))
    check_meant(dataset, force)
    from knowledge_sheaves.cli.progress import Display
    from knowledge_sheaves.evaluation.trust import keep_trust
    from knowledge_sheaves.training import train as run
    from knowledge_sheaves.training.recipes import settle

    plan = settle(dataset, given, recipe, resumed=out if resume else None)
    say(f"{dataset}\n{plan}", err=True)
    with Display(dataset.train.num_triples) as display:
        trained = run(
            dataset, plan.model, plan.training, out=out, resume=resume, on_progress=display
        )
    keep_trust(trained, out)
    _report(trained, out, as_json)


def _report(model: SheafEmbedding, out: Path, as_json: bool) -> None:
    from knowledge_sheaves.embedding.about import validated

    assert model.info is not None, "a trained model knows how it came about"
    info = model.info
    interrupted = bool(info.training.get("interrupted"))
    summary: dict[str, Any] = {
        "model": str(out),
        "parameters": model.num_parameters,
        "epochs": info.training.get("epochs_run"),
        "seconds": info.seconds,
        "interrupted": interrupted,
        **info.metrics,
        **validated(model),
    }
    if as_json:
        print_json(summary)
    else:
        if interrupted:
            say(f"Interrupted: the best model so far is in {out}; go on with --resume.")
        named = ((name.replace("_", " "), value) for name, value in summary.items())
        print_facts("Trained", named)
        say(f"Ask it:  {_next_command(model, out)}")
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def _next_command(model: SheafEmbedding, out: Path) -> str:
    from knowledge_sheaves.graph.labels import said
    from knowledge_sheaves.graph.names import Place, find_entity, find_relation

    graph = model.graph
    head, edge, _ = graph.triples[0].tolist()
    relation = graph.schema.labelled_names[graph.schema.edge_names[edge]]
    by_label = said(relation), said(graph.name(head))
    words = str(relation), graph.entities[head]
    with suppress(InputError):  # a label that several things have is no name to ask by
        meant = find_relation(graph, by_label[0])
        if find_entity(graph, by_label[1], [Place(meant, "head")]) == head:
            words = by_label
    asked = ["sheaves", "predict", str(out), "--head", words[1], "--relation", words[0]]
    return shlex.join(asked)

"""`sheaves train`: from data to a model folder."""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowledge_sheaves.cli.data import Data, DataOptions, about_data
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
from knowledge_sheaves.cli.together import Sharded, taking_part
from knowledge_sheaves.errors import InputError

if TYPE_CHECKING:
    from knowledge_sheaves.embedding import SheafEmbedding
    from knowledge_sheaves.graph.dataset import Dataset
    from knowledge_sheaves.processes import Processes
    from knowledge_sheaves.ranking.trust import Trust
    from knowledge_sheaves.training.recipes import Plan

INTERRUPTED = 130
HINTS = 50
"""Among so many facts is one sought that can be asked about by labels."""


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
    sharded: Sharded = False,
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
    with taking_part(sharded) as processes:
        from knowledge_sheaves.embedding.storage import check_target
        from knowledge_sheaves.training.settings import checked_settings

        # What can be refused is refused before hours of training.
        check_target(out, force or resume)
        given = checked_settings(config, options, settings, whole=recipe is None)
        if processes is not None:
            _check_sharded(given, resume)
        dataset = about.load(data, int(given.get("seed", 0)), force)
        trained = _train(dataset, given, recipe, out, resume, processes)
        if processes is None:
            from knowledge_sheaves.cli.steps import steps
            from knowledge_sheaves.evaluation.trust import keep_trust

            say("Measuring how far to trust its answers, on facts that were held out.", err=True)
            with steps() as tell:
                keep_trust(trained, out, tell=tell)
        _report(trained, out, as_json)


def _check_sharded(given: dict[str, Any], resume: bool) -> None:
    """Refuse early what cannot be done by several; one number a row is kept unless said otherwise.

    A run that is resumed has the optimiser that it had.
    """
    from knowledge_sheaves.training.settings import configs
    from knowledge_sheaves.training.sharded import ROWWISE, check_shardable

    if not resume:
        given.setdefault("optimiser", ROWWISE)
    check_shardable(configs(given | {"optimiser": given.get("optimiser", ROWWISE)})[1])


def _train(
    dataset: Dataset,
    given: dict[str, Any],
    recipe: str | None,
    out: Path,
    resume: bool,
    processes: Processes | None,
) -> SheafEmbedding:
    from knowledge_sheaves.cli.progress import Display
    from knowledge_sheaves.training import train as run
    from knowledge_sheaves.training.recipes import settle

    def chosen() -> Plan:
        of = out if resume else None
        return settle(dataset, given, recipe, resumed=of, sharded=processes is not None)

    if processes is None:
        plan = chosen()
        say(f"{dataset}\n{plan}", err=True)
        with Display(dataset.train.num_triples) as display:
            return run(
                dataset, plan.model, plan.training, out=out, resume=resume, on_progress=display
            )
    from knowledge_sheaves.training.sharded import train_sharded

    # Plans go by how fast a machine is; all have to go by one.
    plan = processes.from_first(chosen() if processes.first else None)
    say(f"{dataset}\n{plan}\nSpread over {processes.count} processes.", err=True)
    if plan.training.refit and dataset.drawn:
        say("The model is trained once and does not learn the facts that are held out.", err=True)
    told = plan.model, plan.training
    with Display(dataset.train.num_triples) as display:
        return train_sharded(processes, dataset, *told, out=out, resume=resume, on_progress=display)


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
    from knowledge_sheaves.ranking.trust import trust_of

    graph = model.graph
    some = graph.triples[:: max(1, graph.num_triples // HINTS)]
    ids = [(head, graph.schema.edge_names[edge]) for head, edge, _ in some.tolist()]
    trust = trust_of(model)
    if trust is not None:  # what was learned best makes the best first impression
        found = [_found(trust, name) for name in graph.schema.relation_names]
        ids.sort(key=lambda pair: -found[pair[1]])

    def by_label(head: int, name: int) -> tuple[str, str] | None:
        words = said(graph.name(head)), said(graph.schema.labelled_names[name])
        with suppress(InputError):  # a label that several things have is no name to ask by
            meant = find_relation(graph, words[1])
            if find_entity(graph, words[0], [Place(meant, "head")]) == head:
                return words
        return None

    named = next(filter(None, (by_label(*pair) for pair in ids)), None)
    first = graph.entities[ids[0][0]], graph.schema.relation_names[ids[0][1]]
    head, relation = named or first
    return shlex.join(["sheaves", "predict", str(out), "--head", head, "--relation", relation])


def _found(trust: Trust, relation: str) -> float:
    """How often missing tails of a relation are among the first answers."""
    record = trust.record(relation)
    return 0.0 if record is None else record.found(side="tail")

"""`sheaves evaluate`: how well a model ranks facts that it was not trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from knowledge_sheaves.cli.models import Folder, load_model
from knowledge_sheaves.cli.output import (
    AsJson,
    named,
    print_json,
    print_rich,
    print_table,
    without_empty,
)
from knowledge_sheaves.cli.together import Sharded, taking_part
from knowledge_sheaves.errors import InputError

if TYPE_CHECKING:
    from knowledge_sheaves.embedding import SheafEmbedding
    from knowledge_sheaves.evaluation import LinkPredictionReport
    from knowledge_sheaves.graph.dataset import Dataset
    from knowledge_sheaves.ranking import Side

ONE_SIDE = "Tails only: a lifted model without reciprocal relations is not trained to rank heads."

LEARNED = "Measured by the model that never saw these facts (measured/): the one that answers did."


def evaluate(
    model: Folder,
    split: Annotated[Literal["test", "valid"], typer.Option(help="Which facts.")] = "test",
    side: Annotated[
        Literal["head", "tail", "both"] | None,
        typer.Option(help="Which end to guess; both if not given, where the model ranks heads."),
    ] = None,
    by: Annotated[
        Literal["relation", "pattern"] | None, typer.Option(help="Show only this breakdown.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Take the split from this data set instead."),
    ] = None,
    negatives: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Tell true facts from the false ones of valid_negatives and test_negatives here.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Judge the probabilities on test facts, and draw what they promise and hold.",
        ),
    ] = None,
    questions: Annotated[
        str | None,
        typer.Option(metavar="2p,2i", help="With --plot: judge these types of questions too."),
    ] = None,
    sharded: Sharded = False,
    as_json: AsJson = False,
) -> None:
    """Rank held-out facts among all that could stand in their place, known ones left out.

    MRR, mean rank, Hits@1/3/10 and the adjusted mean rank index; ties count as the expected rank.
    What is measured on the model's own splits is kept in its folder and shown by `sheaves info`.
    With --negatives facts are classified instead: true up to a threshold of their relation on the
    calibrated energy, which is fitted on the validation facts and false ones.

    \b
    Examples:
      sheaves evaluate model/
      sheaves evaluate model/ --split valid --side tail --by pattern
    """
    if sharded and plot is not None:
        raise InputError("--plot asks questions of a whole model: leave out --sharded.")
    with taking_part(sharded) as processes:
        from knowledge_sheaves.embedding.numbers import check_weights
        from knowledge_sheaves.embedding.storage import measured

        loaded = load_model(model, processes)
        judge = measured(loaded)
        if judge is not loaded:
            typer.echo(LEARNED, err=True)
        check_weights(judge)
        if negatives is not None:
            _classify(judge, negatives, data, as_json)
            return
        if plot is not None:
            _judge(loaded, model, plot, questions, as_json)
            return
        report, usual = _rank(judge, _facts(judge, split, data), split, side)
        if data is None and usual and (processes is None or processes.first):
            _remember(loaded, model, split, report)
        if data is None and usual and processes is None:
            _measure_trust(loaded, model)
        _print(report, by, as_json)


def _rank(
    judge: SheafEmbedding, facts: Dataset, split: str, side: Side | None
) -> tuple[LinkPredictionReport, bool]:
    """The ranks, and whether they are of the sides that a model is judged by."""
    from knowledge_sheaves.evaluation import evaluate as rank
    from knowledge_sheaves.ranking import ranked_side

    able = ranked_side(judge)
    if side is None and able != "both":
        typer.echo(ONE_SIDE, err=True)
    side = side or able
    return rank(judge, facts, split, side), side == able


def _print(report: LinkPredictionReport, by: str | None, as_json: bool) -> None:
    if as_json:
        print_json(report.to_dict())
        return
    if by is not None:
        print_table(report.protocol, _rows(report, by))
        return
    print_rich(report.table())


def _classify(model: SheafEmbedding, folder: Path, data: str | None, as_json: bool) -> None:
    from knowledge_sheaves.evaluation.classification import Labelled, classify, known_names
    from knowledge_sheaves.graph.readers.negatives import read_negatives

    given = {}
    for split in ("valid", "test"):
        false = read_negatives(folder, split)
        kept = known_names(model.graph, false)
        _tell_dropped(len(false) - len(kept), len(false))
        graph = _facts(model, split, data).splits[split]
        given[split] = Labelled.of(model.graph, graph.triples, kept)
    report = classify(model, given["valid"], given["test"])
    if as_json:
        print_json(report.to_dict())
        return
    largest_first = sorted(report.by_relation.items(), key=lambda pair: -pair[1].count)
    rows = [
        named("relation", name)
        | {
            "facts": of.count,
            "accuracy": of.accuracy,
            "F1": of.f1,
            "precision": of.precision,
            "recall": of.recall,
        }
        for name, of in [*largest_first, ("all", report.overall)]
    ]
    print_table("Test facts and false ones, told apart", without_empty(rows))


def _tell_dropped(dropped: int, count: int) -> None:
    if dropped:
        typer.echo(f"{dropped} of {count} facts have names that the model lacks.", err=True)


def _facts(model: SheafEmbedding, split: str, source: str | None) -> Dataset:
    """What the model knows, with the split of another data set in the place of its own.

    All other facts that the data set has are known, too.
    """
    from knowledge_sheaves.embedding.storage import dataset_of
    from knowledge_sheaves.evaluation.matching import with_splits
    from knowledge_sheaves.graph.readers import load

    known = dataset_of(model)
    if source is None:
        if split not in known.splits:
            raise InputError(
                f"The model has no {split} facts in its folder: give the data with --data DATA."
            )
        return known
    given = load(source)
    if split not in given.splits:
        raise InputError(f"{source}: there is no {split} split to evaluate on.")
    return with_splits(known, given, split, _tell_dropped)


def _rows(report: LinkPredictionReport, by: str) -> list[dict[str, Any]]:
    parts = report.by_relation if by == "relation" else report.by_pattern
    total = list(report.overall)[-1]
    measured = {name: sides[total] for name, sides in parts.items()}
    largest_first = sorted(measured.items(), key=lambda pair: -pair[1].count)
    rows = [
        named(by, name)
        | {
            "ranks": of.count,
            "MRR": of.mrr,
            "H@1": of.hits_at_1,
            "H@3": of.hits_at_3,
            "H@10": of.hits_at_10,
            "mean rank": of.mean_rank,
            "AMRI": of.amri,
        }
        for name, of in [*largest_first, ("all", report.overall[total])]
    ]
    return without_empty(rows)


def _judge(
    model: SheafEmbedding, folder: Path, picture: Path, questions: str | None, as_json: bool
) -> None:
    """Whether probabilities hold what they promise."""
    from knowledge_sheaves.cli.output import say
    from knowledge_sheaves.evaluation.reliability import plot, reliability
    from knowledge_sheaves.files import check_place

    check_place(picture)
    _measure_trust(model, folder)
    asked = [] if questions is None else [name.strip() for name in questions.split(",")]
    report = reliability(model, questions=asked)
    plot(report, picture)
    say(f"Wrote {picture}", err=True)
    if as_json:
        print_json(report.to_dict())
        return
    print_table("What probabilities promise, and what was right", [a.row() for a in report.answers])
    print_table("Sets that should hold the missing answer", [c.row() for c in report.covered])


def _measure_trust(model: SheafEmbedding, folder: Path) -> None:
    """Of a model that was saved before this was measured, or by an earlier version."""
    from knowledge_sheaves.cli.steps import steps
    from knowledge_sheaves.errors import SheafError
    from knowledge_sheaves.evaluation.trust import keep_trust
    from knowledge_sheaves.query.questions import QUESTIONS, are_current
    from knowledge_sheaves.ranking.trust import trust_of

    if model.info is None:
        return
    if trust_of(model) is not None and are_current(model.info.trust.get(QUESTIONS, {})):
        return
    try:
        with steps() as tell:
            keep_trust(model, folder, tell=tell)
    except SheafError as error:
        typer.echo(f"How far to trust the model was not kept: {error}", err=True)


def _remember(
    model: SheafEmbedding, folder: Path, split: str, report: LinkPredictionReport
) -> None:
    from knowledge_sheaves.embedding.storage import save_metrics
    from knowledge_sheaves.errors import SheafError

    if model.info is None:
        return
    metrics = model.info.metrics | {split: list(report.overall.values())[-1].to_dict()}
    try:
        save_metrics(metrics, folder, model.info.generation)
    except SheafError as error:  # a folder that may only be read is no reason not to measure
        typer.echo(f"The metrics were not kept: {error}", err=True)

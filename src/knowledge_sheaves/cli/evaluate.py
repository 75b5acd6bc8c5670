"""`sheaves evaluate`: how well a model ranks facts that it was not trained on."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from knowledge_sheaves.cli.models import Folder, load_model
from knowledge_sheaves.cli.output import AsJson, print_json, print_table

if TYPE_CHECKING:
    from knowledge_sheaves.embedding import SheafEmbedding
    from knowledge_sheaves.evaluation import LinkPredictionReport
    from knowledge_sheaves.graph.dataset import Dataset


def evaluate(
    model: Folder,
    split: Annotated[Literal["test", "valid"], typer.Option(help="Which facts.")] = "test",
    side: Annotated[
        Literal["head", "tail", "both"], typer.Option(help="Which end to guess.")
    ] = "both",
    by: Annotated[
        Literal["relation", "pattern"] | None, typer.Option(help="Show only this breakdown.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Take the split from this data set instead."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Rank held-out facts among all that could stand in their place, known ones left out.

    MRR, mean rank, Hits@1/3/10 and the adjusted mean rank index; ties count as the expected rank.
    What is measured on the model's own splits is kept in its folder and shown by `sheaves info`.

    \b
    Examples:
      sheaves evaluate model/
      sheaves evaluate model/ --split valid --side tail --by pattern
    """
    from knowledge_sheaves.evaluation import evaluate as rank

    loaded = load_model(model)
    report = rank(loaded, _facts(loaded, split, data), split, side)
    if data is None and side == "both":
        _remember(loaded, model, split, report)
    if as_json:
        print_json(report.to_dict())
        return
    if by is not None:
        print_table(report.protocol, _rows(report, by))
        return
    from rich.console import Console

    Console().print(report.table())


def _facts(model: SheafEmbedding, split: str, source: str | None) -> Dataset:
    """What the model knows, with the split of another data set in the place of its own."""
    from dataclasses import replace

    from knowledge_sheaves.embedding.storage import dataset_of
    from knowledge_sheaves.errors import InputError
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
    graph = given.splits[split]
    entities, relations = model.graph.entities, set(model.graph.schema.relation_names)
    rows = graph.decode(graph.triples)
    kept = [row for row in rows if row[0] in entities and row[2] in entities]
    kept = [row for row in kept if row[1] in relations]
    if len(kept) < len(rows):
        dropped = len(rows) - len(kept)
        typer.echo(f"{dropped} of {len(rows)} facts have names that the model lacks.", err=True)
    facts = model.graph.with_triples(kept)
    return replace(known, test=facts) if split == "test" else replace(known, valid=facts)


def _rows(report: LinkPredictionReport, by: str) -> list[dict[str, Any]]:
    parts = report.by_relation if by == "relation" else report.by_pattern
    total = list(report.overall)[-1]
    measured = {name: sides[total] for name, sides in parts.items()}
    largest_first = sorted(measured.items(), key=lambda pair: -pair[1].count)
    return [
        {
            by: name,
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


def _remember(
    model: SheafEmbedding, folder: Path, split: str, report: LinkPredictionReport
) -> None:
    from knowledge_sheaves.embedding.storage import save_metrics

    if model.info is None:
        return
    metrics = model.info.metrics | {split: report.overall["both"].to_dict()}
    with suppress(OSError):  # a folder that may only be read is no reason not to measure
        save_metrics(metrics, folder)

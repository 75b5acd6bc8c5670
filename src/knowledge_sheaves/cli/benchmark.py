"""`sheaves benchmark`: how well a model answers the queries of the BetaE benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from knowledge_sheaves.cli.models import Folder, load_model
from knowledge_sheaves.cli.output import AsJson, print_json, print_rich, say
from knowledge_sheaves.cli.solvers import Set, SolverName, make_options

if TYPE_CHECKING:
    from knowledge_sheaves.evaluation.benchmark import BenchmarkProgress
    from knowledge_sheaves.evaluation.benchmark_report import BenchmarkReport, TypeResult
    from knowledge_sheaves.evaluation.queries import QueryMetrics

DRAWN = 200
"""How many queries of each type --from-graph draws, unless --sample says otherwise."""
TABLE_WIDTH = 136
"""What the table of all types needs; where lines are shorter, it is still better not cut."""


def benchmark(
    model: Folder,
    queries: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="A folder in the layout of the BetaE benchmark."),
    ] = None,
    from_graph: Annotated[
        bool,
        typer.Option("--from-graph", help="Draw the queries from the model's own held-out facts."),
    ] = False,
    split: Annotated[Literal["test", "valid"], typer.Option(help="Which queries.")] = "test",
    types: Annotated[
        str | None, typer.Option(help="Only these types, such as 1p,2p,2in; all if not given.")
    ] = None,
    solver: SolverName = "auto",
    told: Set = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="So many queries of each type, drawn by --seed.")
    ] = None,
    half: Annotated[
        Literal["first", "second"] | None,
        typer.Option(help="One half of each type's queries; calibrate on the other."),
    ] = None,
    answers: Annotated[
        Literal["hard", "easy", "hard-alone"],
        typer.Option(help="Hard ones with all others filtered, or one set by itself."),
    ] = "hard",
    one_answer: Annotated[
        bool, typer.Option("--one-answer", help="Rank one answer of each query, drawn by --seed.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Draws samples.")] = 0,
    check: Annotated[
        bool, typer.Option("--check", help="Hold the files' answers against the triples first.")
    ] = False,
    memory: Annotated[
        float, typer.Option(min=0.01, help="How many GiB solving may use beyond the model.")
    ] = 1.0,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the results as JSON; a run that was stopped goes on."
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the results: SVG, PNG or PDF.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Answer the queries of the BetaE benchmark and rank their answers, type by type.

    Every hard answer is ranked among all entities without the query's other answers; ties count as
    the expected rank. A query counts as the mean over its answers, a type as the mean over its
    queries. Published results on the same data stand beside. With --out what is finished is kept
    in a file beside the results, and reused as long as model, options and queries are the same.
    What the solver is not told with --set is as `sheaves calibrate` left it in the model.

    \b
    Examples:
      sheaves benchmark model/ --from-graph --sample 20
      sheaves benchmark model/ --queries queries/
      sheaves benchmark model/ --queries queries/ --types 1p,2p --solver harmonic --sample 3
      sheaves benchmark model/ --queries queries/ --types 2p --sample 3 --set facts=ignored
    """
    from knowledge_sheaves.embedding.numbers import check_weights
    from knowledge_sheaves.embedding.storage import measured
    from knowledge_sheaves.errors import InputError
    from knowledge_sheaves.evaluation.benchmark import Protocol
    from knowledge_sheaves.evaluation.benchmark import benchmark as measure
    from knowledge_sheaves.evaluation.benchmark_report import check_picture
    from knowledge_sheaves.evaluation.benchmark_report import plot as draw
    from knowledge_sheaves.evaluation.own_queries import OwnQueries
    from knowledge_sheaves.files import check_place

    if (queries is None) != from_graph:
        raise InputError("Give one of --queries FOLDER and --from-graph.")
    options = make_options(solver, told, memory_limit=int(memory * 2**30))
    if plot is not None:
        check_picture(plot)
    for place in (out, plot):
        if place is not None:
            check_place(place)
    loaded = measured(load_model(model))
    check_weights(loaded)
    with _display() as display:
        report = measure(
            loaded,
            OwnQueries(loaded, split, sample or DRAWN, seed) if queries is None else queries,
            split,
            types=None if types is None else [name.strip() for name in types.split(",")],
            options=options,
            protocol=Protocol(answers, one_answer, sample, seed, half),
            check=check,
            state=None if out is None else out.with_suffix(".state.json"),
            progress=display,
        )
    if out is not None:
        _write(out, report.to_dict())
    if plot is not None:
        draw([report], plot)
        say(f"Wrote {plot}", err=True)
    if as_json:
        print_json(report.to_dict())
    else:
        _show(report)


def _write(path: Path, document: dict[str, Any]) -> None:
    from knowledge_sheaves.files import write_json

    write_json(path, document)
    say(f"Wrote {path}", err=True)


def _show(report: BenchmarkReport) -> None:
    from knowledge_sheaves.evaluation.benchmark_report import comparison

    print_rich(comparison([report]), report.details(), *report.notes(), width=TABLE_WIDTH)


@contextmanager
def _display() -> Iterator[Callable[[BenchmarkProgress], None]]:
    """A bar for a person, a line per type for a log file; call it with progress."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    off = not console.is_terminal
    with Progress(*columns, console=console, disable=off, transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(now: BenchmarkProgress) -> None:
            bar.update(task, description=now.type, completed=now.done, total=now.queries)
            if now.result is not None and now.result.metrics is not None:
                console.print(_line(now.result, now.result.metrics), highlight=False)

        yield show


def _line(result: TypeResult, metrics: QueryMetrics) -> str:
    how = "kept" if result.resumed else f"{result.milliseconds:.1f} ms a query"
    return f"{result.name:4} {metrics.queries:6,} queries  MRR {metrics.mrr:.3f}  {how}"

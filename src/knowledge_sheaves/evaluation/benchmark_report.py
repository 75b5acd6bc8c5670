"""What a benchmark found: for programs as a dictionary, for people beside what was published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.evaluation.betae import GROUPS, TYPES
from knowledge_sheaves.evaluation.published import PublishedRow, mean_of, published_rows
from knowledge_sheaves.evaluation.queries import AnswerRanks, QueryMetrics, interval
from knowledge_sheaves.files import writing
from knowledge_sheaves.notebook import Framed
from knowledge_sheaves.plain import for_matplotlib, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOTHING = "–"
PICTURES = (".svg", ".png", ".pdf")


@dataclass(frozen=True)
class TypeResult:
    """The ranks of one type's answers, and the time that solving and ranking took."""

    name: str
    queries: int
    ranks: AnswerRanks
    seconds: float
    resumed: bool = False

    @cached_property
    def metrics(self) -> QueryMetrics | None:
        """What sums up the ranks; None where no query has an answer to rank."""
        return QueryMetrics.of(self.ranks) if len(self.ranks.ranks) else None

    @property
    def milliseconds(self) -> float:
        """The time for one query."""
        return 1e3 * self.seconds / self.queries


@dataclass(frozen=True)
class BenchmarkReport(Framed):
    """One row of the benchmark's table: a model, a solver, and the types that it was asked.

    ``label`` is what the row is called, ``query_set`` the published queries that these are.
    """

    solver: str
    label: str
    data: str
    entities: int
    relations: int
    split: str
    options: Mapping[str, Any]
    protocol: Mapping[str, Any]
    parameters: int
    types: Mapping[str, TypeResult]
    refused: Mapping[str, str]
    seconds: float
    peak_memory: int
    query_set: str = ""

    @cached_property
    def mrr(self) -> dict[str, float]:
        """The MRR of each type that was measured."""
        return {name: of.metrics.mrr for name, of in self.types.items() if of.metrics}

    def mean(self, group: str) -> float | None:
        """The mean MRR of the nine positive types, or of the five with negation, if all are there.

        ``group`` is "positive" or "negative".
        """
        return mean_of(self.mrr, group)

    @property
    def title(self) -> str:
        """What was measured, in words."""
        answers = str(self.protocol["answers"])
        ranked = "one answer a query" if self.protocol["one_answer"] else "all answers"
        sample = self.protocol["sample"]
        half = self.protocol["half"]
        part = f", {half} half of the queries" if half else ""
        drawn = f", {sample:,} sampled queries a type" if sample else ""
        return f"{self.data}, {self.split}: MRR × 100 of {answers} answers, {ranked}{part}{drawn}"

    def published(self) -> list[PublishedRow]:
        """What others have reported on the same queries under the same protocol."""
        return published_rows(self.query_set, str(self.protocol["answers"]))

    def name(self, row: PublishedRow) -> str:
        """What a published row is called: it is of test queries, whatever ours are of."""
        return row.name if self.split == "test" else f"{row.name} (test)"

    def to_dict(self) -> dict[str, Any]:
        """Return plain dictionaries and numbers, as written to JSON."""
        return {
            "title": self.title,
            "solver": self.solver,
            "data": self.data,
            "split": self.split,
            "options": dict(self.options),
            "protocol": dict(self.protocol),
            "parameters": self.parameters,
            "seconds": self.seconds,
            "peak_memory": self.peak_memory,
            "types": {name: _plain(of) for name, of in self.types.items()},
            "means": {group: self._mean_with_interval(group) for group in GROUPS},
            "refused": dict(self.refused),
            "published": [row.to_dict() for row in self.published()],
        }

    def rows(self) -> list[dict[str, Any]]:
        """A row for every type that has answers to rank."""
        found = ((name, of.metrics) for name, of in self.types.items())
        return [{"type": name} | of.to_dict() for name, of in found if of is not None]

    def _mean_with_interval(self, group: str) -> dict[str, float] | None:
        mean = self.mean(group)
        if mean is None:
            return None
        low, high = interval([self.types[name].ranks.reciprocal for name in GROUPS[group]])
        return {"mrr": mean, "low": low, "high": high}

    def details(self) -> Table:
        """A row for every type: metrics, the interval of the MRR, and the time."""
        table = Table(box=SIMPLE_HEAD)
        columns = ("queries", "MRR", "95 %", "Hits@1", "Hits@3", "Hits@10", "ms a query")
        table.add_column("type")
        for name in columns:
            table.add_column(name, justify="right", no_wrap=True)
        for name, result in self.types.items():
            of = result.metrics
            if of is None:
                table.add_row(name, "0", *[NOTHING] * 6)
                continue
            shares = (f"{share:.3f}" for share in (of.hits_at_1, of.hits_at_3, of.hits_at_10))
            spread = f"{of.low:.3f}–{of.high:.3f}"
            time = f"{result.milliseconds:.1f}{' *' if result.resumed else ''}"
            table.add_row(name, f"{of.queries:,}", f"{of.mrr:.3f}", spread, *shares, time)
        return table

    def notes(self) -> list[str]:
        """What a careful reader would want to know, a sentence each."""
        found = [f"{NOTHING} at {name}: {reason}" for name, reason in _once(self.refused)]
        if any(of.resumed for of in self.types.values()):
            found.append("* measured by an earlier run.")
        if self.published() and (self.split != "test" or self.protocol["sample"]):
            found.append("The published rows are of all test queries.")
        minutes, memory = self.seconds / 60, self.peak_memory / 2**30
        return [*found, f"{minutes:.1f} minutes, at most {memory:.1f} GiB of memory."]


def _plain(result: TypeResult) -> dict[str, Any]:
    metrics = result.metrics.to_dict() if result.metrics else {"queries": 0}
    return {**metrics, "seconds": result.seconds, "resumed": result.resumed}


def _once(refused: Mapping[str, str]) -> list[tuple[str, str]]:
    """Each reason with all the types that it is given for."""
    reasons = dict.fromkeys(refused.values())
    return [
        (", ".join(name for name, why in refused.items() if why == reason), reason)
        for reason in reasons
    ]


def comparison(reports: Sequence[BenchmarkReport]) -> Table:
    """Runs on the same queries, a row each, below what was published."""
    first = reports[0]
    table = Table(
        title=Text(printable(first.title)), title_justify="left", box=SIMPLE_HEAD, padding=(0, 0)
    )
    table.add_column("", no_wrap=True, min_width=24)
    for name in (*GROUPS["positive"], "mean", *GROUPS["negative"], "mean", "parameters"):
        width = 11 if name == "parameters" else 5
        table.add_column(name, justify="right", no_wrap=True, min_width=width)
    for row in first.published():
        means = [row.mean(group) for group in GROUPS]
        table.add_row(
            Text(printable(first.name(row))), *_cells(row.mrr, means), _size(row.parameters)
        )
    table.add_section()
    for report in reports:
        mrr = {name: 100 * value for name, value in report.mrr.items()}
        means = [mean_of(mrr, group) for group in GROUPS]
        table.add_row(Text(printable(report.label)), *_cells(mrr, means), _size(report.parameters))
    return table


def _cells(mrr: Mapping[str, float], means: Sequence[float | None]) -> list[str]:
    positive, negative = ([_cell(mrr.get(name)) for name in names] for names in GROUPS.values())
    return [*positive, _cell(means[0]), *negative, _cell(means[1])]


def _cell(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1f}"


def _size(parameters: int | None) -> str:
    return "" if parameters is None else f"{parameters / 1e6:.1f} M"


def check_picture(path: str | Path) -> None:
    """Refuse what is no name of a picture, before the work that it would show."""
    if Path(path).suffix.lower() not in PICTURES:
        raise InputError(f"{path}: pictures are written as {', '.join(PICTURES)}.")


def plot(reports: Sequence[BenchmarkReport], path: str | Path) -> None:
    """Draw a dot for every type and row, ours with their intervals, into an SVG, PNG or PDF."""
    check_picture(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.5), layout="constrained")
    axes = figure.add_subplot()
    asked = [name for name in TYPES if any(name in report.types for report in reports)]
    rows = [row for row in reports[0].published() if set(row.mrr) & set(asked)]
    _draw(axes, reports, rows, asked)
    axes.set_title(for_matplotlib(reports[0].title), loc="left", fontsize=10)
    axes.set_ylabel("MRR × 100")
    axes.set_ylim(bottom=0)
    axes.set_xticks(range(len(asked)), asked)
    axes.set_xlim(-0.6, len(asked) - 0.4)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if len(rows) + len(reports) > 1:
        figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    with writing(Path(path)) as beside:
        figure.savefig(beside, dpi=150)


def _draw(
    axes: Axes, reports: Sequence[BenchmarkReport], rows: Sequence[PublishedRow], asked: list[str]
) -> None:
    """Side by side within a type: open marks for what was published, filled ones for ours."""
    step = 0.8 / (len(rows) + len(reports))
    marks = "osD^v<>ph"
    for number, row in enumerate(rows):
        places = [place for place, name in enumerate(asked) if name in row.mrr]
        axes.plot(
            [place - 0.4 + (number + 0.5) * step for place in places],
            [row.mrr[asked[place]] for place in places],
            marks[number % len(marks)],
            color="#777777",
            fillstyle="none",
            markersize=5,
            label=for_matplotlib(reports[0].name(row)),
        )
    for number, report in enumerate(reports):
        found = {name: of.metrics for name, of in report.types.items() if of.metrics}
        places = [place for place, name in enumerate(asked) if name in found]
        of = [found[asked[place]] for place in places]
        axes.errorbar(
            [place - 0.4 + (len(rows) + number + 0.5) * step for place in places],
            [100 * each.mrr for each in of],
            yerr=[
                [100 * (each.mrr - each.low) for each in of],
                [100 * (each.high - each.mrr) for each in of],
            ],
            fmt=marks[number % len(marks)],
            color=f"C{number}",
            markersize=6,
            capsize=2,
            label=for_matplotlib(report.label),
        )
    for place in range(1, len(asked)):
        axes.axvline(place - 0.5, color="#dddddd", linewidth=0.6, zorder=0)

"""The figures of *Knowledge Sheaves* once more: stalks, sections and their weight, on easy answers.

python experiments/paper_figures.py --data DATA --sets NELL-betae FB15k-237-betae \
    --out build/figures --epochs 10 --minutes 120

DATA is a folder of BetaE folders. A cell of the grid is a model, the dimensions d_s and d_r of the
stalks of entities and relations, the number of sections, and the weight α that makes sections
orthogonal. Cells are trained and measured once, in an order in which the first ones tell most; no
new one is begun when the minutes are over, and a second call goes on from there. With --minutes 0
it only draws. The numbers of all cells are in OUT/paper-figures-SET.csv; the pictures, drawn from
the cells that there are, in OUT/paper-{sections,dimension,alpha}-SET.svg and .png.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import polars as pl
from _common import trained, write_figure, write_text
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.evaluation.benchmark import Protocol, benchmark
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.query import Options
from knowledge_sheaves.ranking import RankMetrics, rank_triples
from knowledge_sheaves.training.settings import make_settings

SETTINGS = Path(__file__).parent / "paper"
MODELS = ("se", "se-orthogonal", "translational", "transe")
DIMS = (8, 16, 32, 64)
SECTIONS = (1, 16, 32)
ALPHAS = (0.0, 0.01, 0.1, 1.0)
TYPES = ("1p", "2p", "3p", "2i", "3i", "ip", "pi")
PANELS = ("test", *TYPES)
COLOURS = dict(zip(MODELS, ("C0", "C1", "C2", "C3"), strict=True))
# Of the numbers of sections; TransE, which has one d_r, is told by its marks alone.
STYLES: tuple[dict[str, Any], ...] = (
    {"linestyle": "-", "marker": "o"},
    {"linestyle": "--", "marker": "s"},
    {"linestyle": ":", "marker": "^"},
)


@dataclass(frozen=True)
class Cell:
    """One model of the grid."""

    model: str
    dim: int
    relation_dim: int
    sections: int
    alpha: float

    @property
    def slug(self) -> str:
        return f"{self.model}-{self.dim}-{self.relation_dim}-{self.sections}-{self.alpha:g}"

    def settings(self) -> dict[str, Any]:
        """What differs from the paper's settings; TransE has no relation stalks of its own."""
        own = {} if self.model == "transe" else {"relation_dim": self.relation_dim}
        numbers = {"sections": self.sections, "section_weight": self.alpha}
        return {"dim": self.dim, **own, **numbers}


@dataclass(frozen=True)
class Grid:
    """The values that vary; lines are drawn at the ``base`` dimension, the paper's tables' 32."""

    models: Sequence[str] = MODELS
    dims: Sequence[int] = DIMS
    sections: Sequence[int] = SECTIONS
    alphas: Sequence[float] = ALPHAS

    @property
    def base(self) -> int:
        return 32 if 32 in self.dims else max(self.dims)

    def cells(self) -> list[Cell]:
        """Every cell once, those that the pictures need first, few sections before many."""
        first = [cell for sections in self.sections for cell in self._drawn(sections)]
        return list(dict.fromkeys([*first, *self._all()]))

    def _drawn(self, sections: int) -> Iterator[Cell]:
        """The lines over d_r, then the boxes over α, then those over d_s."""
        base, least = self.base, min(self.alphas)
        yield from self._of([base], self.dims, sections, [least])
        yield from self._of([base], [base], sections, self.alphas)
        for dim in self.dims:
            yield from self._of([dim], [dim], sections, [least])

    def _all(self) -> Iterator[Cell]:
        for sections in self.sections:
            yield from self._of(self.dims, self.dims, sections, self.alphas)

    def _of(
        self, dims: Sequence[int], others: Sequence[int], sections: int, alphas: Sequence[float]
    ) -> Iterator[Cell]:
        """Cells that exist: d_r ≤ d_s, for TransE d_r = d_s, and one section has no α."""
        for dim in dims:
            for other in others:
                for alpha in alphas if sections > 1 else [min(self.alphas)]:
                    for model in self.models:
                        if other == dim or (other < dim and model != "transe"):
                            yield Cell(model, dim, other, sections, alpha)


class Bench:
    """One set: where the cells of its grid are trained and measured."""

    def __init__(self, folder: Path, out: Path, epochs: int, sample: int) -> None:
        self.folder, self.out = folder, out / folder.name
        self.epochs, self.sample = epochs, sample
        self.split = "test" if (folder / "test-queries.pkl").exists() else "valid"
        self.data: Dataset = load(folder)
        self.out.mkdir(parents=True, exist_ok=True)

    def known(self, cell: Cell) -> dict[str, Any] | None:
        """What an earlier call found."""
        file = self.out / f"{cell.slug}.json"
        if not file.exists():
            return None
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if found["epochs"] != self.epochs or found["sample"] != self.sample:
            raise InputError(
                f"{file} has {found['epochs']} epochs and samples of {found['sample']}: give the "
                "same --epochs and --sample, or another --out."
            )
        return found

    def measure(self, cell: Cell, keep: bool) -> dict[str, Any]:
        """Train a cell and measure it; its numbers stay, its model only if it is to be kept."""
        run = {"epochs": self.epochs, "checkpoint_every": self.epochs}
        file = SETTINGS / f"{cell.model}.yaml"
        config, training = make_settings(file, cell.settings() | run, None)
        folder = self.out / cell.slug
        # The last model counts, so nothing is validated on the way.
        model = trained(replace(self.data, valid=None), config, training, folder)
        assert model.info is not None, "a trained model knows how it came about"
        found = asdict(cell) | {
            "epochs": self.epochs,
            "sample": self.sample,
            "split": self.split,
            "parameters": model.num_parameters,
            "seconds": model.info.seconds,
            "test": self._link_prediction(model),
            **self._queries(model),
        }
        write_text(f"{cell.slug}.json", json.dumps(found, indent=1), self.out)
        if not keep:
            shutil.rmtree(folder)
        return found

    def _link_prediction(self, model: SheafEmbedding) -> float:
        """MRR of the tails of test triples, by the model's own scores.

        The sets hold both directions of every triple, so that tails are all there is to rank.
        """
        assert self.data.test is not None, "a set of the benchmark has test triples"
        triples = self.data.test.triples
        rng = np.random.default_rng(0)
        drawn = rng.choice(len(triples), min(self.sample, len(triples)), replace=False)
        known = list(self.data.splits.values())
        ranks = rank_triples(model, triples[drawn], known, "tail")
        return RankMetrics.of(ranks.sides["tail"]).mrr

    def _queries(self, model: SheafEmbedding) -> dict[str, float]:
        report = benchmark(
            model,
            self.folder,
            self.split,
            types=TYPES,
            options=Options(solver="harmonic", strength=0.0),
            protocol=Protocol("easy", sample=self.sample),
        )
        return report.mrr

    def frame(self, grid: Grid) -> pl.DataFrame:
        """All cells that were measured, in the order of the grid."""
        rows = [found for cell in grid.cells() if (found := self.known(cell)) is not None]
        return pl.DataFrame(rows, infer_schema_length=None)


def lines(frame: pl.DataFrame, grid: Grid) -> Figure | None:
    """MRR over d_r at the base dimension, without α: a line for every model and section count."""
    chosen = frame.filter(dim=grid.base, alpha=min(grid.alphas))
    if chosen.is_empty():
        return None
    styles: dict[Any, dict[str, Any]] = dict(zip(grid.sections, cycle(STYLES), strict=False))

    def panel(axes: Axes, name: str) -> None:
        for (model, sections), part in chosen.sort("relation_dim").group_by(
            "model", "sections", maintain_order=True
        ):
            style = styles[sections] | {"color": COLOURS[str(model)], "markersize": 4}
            axes.plot(part["relation_dim"], part[name], **style)
        axes.set_xscale("log", base=2)
        shown = sorted(chosen["relation_dim"].unique())
        axes.set_xticks(shown, [str(dim) for dim in shown])

    figure = panels(panel, chosen, "$d_r$, dimension of the edge stalks")
    figure.suptitle(f"{_title(chosen)}, $d_s$ = {grid.base}", x=0.01, ha="left", fontsize=10)
    of_sections = [
        Line2D([], [], color="black", label=f"{count} section{'s'[: count > 1]}", **styles[count])
        for count in sorted(chosen["sections"].unique())
    ]
    figure.legend(handles=[*_of_models(chosen), *of_sections], **LEGEND)
    return figure


def boxes(frame: pl.DataFrame, axis: str, alike: Sequence[str], label: str) -> Figure | None:
    """Boxes over models along an axis: of settings that were measured at every value of it.

    Otherwise two boxes could differ by what they are made of.
    """
    if frame.is_empty():
        return None
    values = sorted(frame[axis].unique())
    chosen = frame.filter(pl.len().over(alike) == len(values))
    if chosen.is_empty() or len(values) == 1:  # one box compares nothing
        return None

    def panel(axes: Axes, name: str) -> None:
        parts = [chosen.filter(pl.col(axis) == value) for value in values]
        axes.boxplot(
            [part[name].to_list() for part in parts],
            positions=range(len(values)),
            widths=0.6,
            showfliers=False,
            medianprops={"color": "black"},
            boxprops={"color": "#777777"},
        )
        for model, colour in COLOURS.items():
            points = [
                (place, mrr)
                for place, part in enumerate(parts)
                for mrr in part.filter(model=model)[name]
            ]
            axes.plot(*np.array(points).reshape(-1, 2).T, ".", color=colour, markersize=5)
        axes.set_xticks(range(len(values)), [f"{value:g}" for value in values])

    figure = panels(panel, chosen, label)
    figure.suptitle(_title(chosen), x=0.01, ha="left", fontsize=10)
    figure.legend(handles=_of_models(chosen, linestyle="", marker="."), **LEGEND)
    return figure


LEGEND: dict[str, Any] = {"loc": "outside lower center", "ncols": 7, "frameon": False}


def panels(draw: Callable[[Axes, str], None], frame: pl.DataFrame, label: str) -> Figure:
    """One panel for link prediction and one for every query type."""
    figure, grid = plt.subplots(2, 4, figsize=(12, 6), sharex=True, layout="constrained")
    for axes, name in zip(grid.flat, PANELS, strict=True):
        draw(axes, name)
        axes.set_title("test triples" if name == "test" else name, fontsize=10)
        axes.set_ylim(0, max(1e-3, 1.08 * frame[name].to_numpy().max()))
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in grid[:, 0]:
        axes.set_ylabel("MRR")
    for axes in grid[-1]:
        axes.set_xlabel(label, fontsize=9)
    return figure


def _title(frame: pl.DataFrame) -> str:
    first = frame.row(0, named=True)
    return (
        f"{first['data']}, easy answers of {first['sample']:,} {first['split']} queries a type, "
        f"{first['epochs']} epochs, {len(frame)} models"
    )


def _of_models(frame: pl.DataFrame, **style: Any) -> list[Line2D]:
    there = set(frame["model"])
    return [
        Line2D([], [], color=colour, label=model, **style)
        for model, colour in COLOURS.items()
        if model in there
    ]


def figures(frame: pl.DataFrame, grid: Grid) -> dict[str, Figure]:
    """The pictures for which there are cells."""
    square = frame.filter(pl.col("dim") == pl.col("relation_dim"))
    several = frame.filter(pl.col("sections") > 1)
    found = {
        "sections": lines(frame, grid),
        "dimension": boxes(
            square, "dim", ("model", "sections", "alpha"), "$d_s$, dimension of the vertex stalks"
        ),
        "alpha": boxes(
            several,
            "alpha",
            ("model", "dim", "relation_dim", "sections"),
            "α, weight of orthogonal sections",
        ),
    }
    return {name: figure for name, figure in found.items() if figure is not None}


def fill(benches: Sequence[Bench], grid: Grid, minutes: float, keep: bool) -> None:
    """Measure what is missing, cell by cell on all sets, until the time is over."""
    deadline = time.monotonic() + 60 * minutes
    missing = [(b, cell) for cell in grid.cells() for b in benches if b.known(cell) is None]
    for done, (bench, cell) in enumerate(missing):
        if time.monotonic() >= deadline:
            print(f"The time is over: {len(missing) - done} cells are left.", flush=True)
            return
        started = time.monotonic()
        found = bench.measure(cell, keep)
        spent = (time.monotonic() - started) / 60
        shown = f"test {found['test']:.3f}, 2p {found['2p']:.3f}"
        print(f"{bench.folder.name}, {cell.slug}: {shown} in {spent:.1f} min", flush=True)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The paper's figures, from cells of its grid.")
    parser.add_argument("--data", type=Path, required=True, help="a folder of BetaE folders")
    parser.add_argument("--sets", nargs="+", default=["NELL-betae", "FB15k-237-betae"])
    parser.add_argument("--out", type=Path, required=True, help="the folder for cells and pictures")
    parser.add_argument("--docs", type=Path, help="write into DOCS/img and DOCS/tables as well")
    parser.add_argument("--epochs", type=int, default=250, help="250, as in the paper")
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin no cell after these")
    parser.add_argument("--sample", type=int, default=500, help="queries of each type")
    parser.add_argument("--keep-models", action="store_true", help="up to 0.5 GB a cell")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--dims", nargs="+", type=int, default=DIMS, help="of d_s and d_r")
    parser.add_argument("--sections", nargs="+", type=int, default=SECTIONS)
    parser.add_argument("--alphas", nargs="+", type=float, default=ALPHAS)
    given = parser.parse_args(words)
    grid = Grid(given.models, given.dims, given.sections, given.alphas)
    benches = [
        Bench(given.data / name, given.out, given.epochs, given.sample) for name in given.sets
    ]
    fill(benches, grid, given.minutes, given.keep_models)
    for bench in benches:
        name, frame = bench.folder.name, bench.frame(grid)
        if frame.is_empty():
            print(f"{name}: there are no cells to draw yet.")
            continue
        frame = frame.with_columns(data=pl.lit(name))
        write_text(f"paper-figures-{name}.csv", frame.write_csv(), given.out, given.docs)
        for kind, figure in figures(frame, grid).items():
            write_figure(f"paper-{kind}-{name}", figure, given.out, given.docs)
            plt.close(figure)
        print(f"{name}: {len(frame)} of {len(grid.cells())} cells drawn.")


if __name__ == "__main__":
    main()

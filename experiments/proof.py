"""The BetaE benchmark with one model trained on triples alone: four ways to answer, in one table.

python experiments/base_model.py NELL-betae --out build/nell
sheaves calibrate build/nell --queries NELL-betae --sample 30
python experiments/proof.py build/nell --queries NELL-betae --k 64 --out build/proof

Every type that was measured is kept: a second call goes on where the first one stopped. The table
is written to OUT/proof.md, the picture to OUT/proof.svg, all numbers to OUT/proof.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from _common import markdown, write_text

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.evaluation.benchmark import BenchmarkProgress, Protocol, benchmark
from knowledge_sheaves.evaluation.benchmark_report import BenchmarkReport, plot
from knowledge_sheaves.evaluation.betae import GROUPS
from knowledge_sheaves.evaluation.published import mean_of
from knowledge_sheaves.query import Options

ROWS = {
    "harmonic": Options(solver="harmonic", strength=0.0),
    "harmonic-prior": Options(solver="harmonic"),
    "chaining-ignored": Options(solver="chaining", facts="ignored"),
    "chaining-remembered": Options(solver="chaining"),
}
COLUMNS = (*GROUPS["positive"], "mean", *GROUPS["negative"], "mean")


def cells(mrr: Mapping[str, float], means: Sequence[float | None]) -> list[str]:
    """The numbers of a row; what was not measured stays empty."""
    found = [
        value
        for group, mean in zip(GROUPS, means, strict=True)
        for value in (*map(mrr.get, GROUPS[group]), mean)
    ]
    return ["" if value is None else f"{value:.1f}" for value in found]


def table(reports: Sequence[BenchmarkReport]) -> str:
    """The rows in Markdown, below what was published."""
    rows = [
        [reports[0].name(row), *cells(row.mrr, [row.mean(group) for group in GROUPS])]
        for row in reports[0].published()
    ]
    for report in reports:
        mrr = {kind: 100 * value for kind, value in report.mrr.items()}
        rows.append([f"**{report.label}**", *cells(mrr, [mean_of(mrr, g) for g in GROUPS])])
    return markdown(["", *COLUMNS], rows)


def tell(progress: BenchmarkProgress) -> None:
    """One line for every type that is finished."""
    result = progress.result
    if result is not None and result.metrics is not None:
        minutes = result.seconds / 60
        print(f"  {result.name}: {100 * result.metrics.mrr:.1f} in {minutes:.1f} min", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Four ways to answer the BetaE benchmark.")
    parser.add_argument("model", type=Path, help="the folder of a calibrated model")
    parser.add_argument("--queries", required=True, help="a folder of the benchmark")
    parser.add_argument("--split", default="test", choices=("test", "valid"))
    parser.add_argument("--sample", type=int, help="so many queries of each type; all if not given")
    parser.add_argument("--k", type=int, help="candidates of chaining, other than calibrated")
    parser.add_argument("--half", choices=("first", "second"), help="one half of the queries")
    parser.add_argument("--rows", nargs="*", choices=list(ROWS), help="only these rows")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the results")
    parser.add_argument("--docs", type=Path, help="write table and picture into this folder too")
    given = parser.parse_args()
    model = SheafEmbedding.load(given.model)
    if model.info is None or "kappa" not in model.info.calibration:
        parser.error(f"{given.model} is not calibrated: run sheaves calibrate first.")
    given.out.mkdir(parents=True, exist_ok=True)
    reports: list[BenchmarkReport] = []
    for name, options in ROWS.items():
        if given.rows and name not in given.rows:
            continue
        print(name, flush=True)
        reports.append(
            benchmark(
                model,
                given.queries,
                given.split,
                options=options.but(k=given.k),
                protocol=Protocol(sample=given.sample, half=given.half),
                state=given.out / f"{name}.state.json",
                progress=tell,
            )
        )
        found = {report.label: report.to_dict() for report in reports}
        write_text("proof.json", json.dumps(found, indent=1), given.out)
        write_text("proof.md", table(reports), given.out, given.docs)
        for folder in (given.out, *([given.docs / "img"] if given.docs else [])):
            folder.mkdir(parents=True, exist_ok=True)
            plot(reports, folder / "proof.svg")
    print(table(reports))


if __name__ == "__main__":
    main()

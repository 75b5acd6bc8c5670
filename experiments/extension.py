"""What makes harmonic extension work: accuracy against time, and error growth along paths.

python experiments/extension.py build/nell --queries NELL-betae --out build/extension

The same queries are answered by `naive` (translational models only), by `harmonic` with every lift
and with a prior, and by `chaining` for several k; then paths of one to six relations that the
sampler draws. Whatever was measured is kept: a second call goes on where the first one stopped. The
tables are written to OUT/extension.md, the pictures to OUT/extension.svg and OUT/paths.svg (and
.png), all numbers to OUT/extension.csv, OUT/paths.csv and OUT/extension.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import polars as pl
import torch
from _common import markdown, write_figure, write_text
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from knowledge_sheaves import files
from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.evaluation.benchmark import Protocol, benchmark, fingerprint
from knowledge_sheaves.evaluation.betae import Translation, TypeQueries
from knowledge_sheaves.evaluation.queries import AnswerRanks, QueryMetrics, take
from knowledge_sheaves.evaluation.queries import ranked_and_filtered as sets_of
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.query import Options, scores
from knowledge_sheaves.query.facts.sampler import sample_queries
from knowledge_sheaves.query.language.betae import smaller_and_larger
from knowledge_sheaves.ranking import rank_among

TYPES = ("1p", "2p", "3p", "2i", "3i", "pi", "ip")
"""The types that all solvers answer."""
KS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
FACTS = ("ignored", "remembered")
LONGEST = 6
SOME = 64
"""Paths that are answered together."""

Numbers: TypeAlias = dict[str, float]
Results: TypeAlias = dict[str, dict[str, Numbers]]
"""For every way to answer, and every type of queries, what was found."""


def without_search(model: SheafEmbedding, strength: float) -> dict[str, Options]:
    """`naive`, and `harmonic` with every lift, without and with a prior on the unknowns.

    On the sphere only the prior keeps the unknowns from running away.
    """
    ways = {"naive": Options(solver="naive")}
    for lift in ("free", "composite", "sphere") if model.config.lifted else ("free",):
        name = f"harmonic, {lift}" if model.config.lifted else "harmonic"
        if lift != "sphere":
            ways[name] = Options(solver="harmonic", lift=lift, strength=0.0)
        ways[f"{name}, λ = {strength:g}"] = Options(solver="harmonic", lift=lift, strength=strength)
    return ways


def chaining(facts: str, k: int) -> tuple[str, Options]:
    """`chaining` with so many candidates, and what it is called."""
    return f"chaining, facts {facts}, k = {k}", Options(solver="chaining", facts=facts, k=k)


def answer_benchmark(
    model: SheafEmbedding, ways: Mapping[str, Options], given: argparse.Namespace
) -> Results:
    """Answer the same queries of the benchmark in every way that takes them."""
    found: Results = {}
    for name, options in ways.items():
        report = benchmark(
            model,
            given.queries,
            given.split,
            types=given.types,
            options=options,
            protocol=Protocol(sample=given.sample),
            state=given.out / "state" / f"{slug(name)}.json",
        )
        measured = {kind: of for kind, of in report.types.items() if of.metrics}
        if not measured:
            print(f"{name}: {next(iter(report.refused.values()))}", flush=True)
            continue
        found[name] = {
            kind: numbers(of.metrics, of.seconds) for kind, of in measured.items() if of.metrics
        }
        print(f"{name}: {tell(found[name])}", flush=True)
    return found


def slug(name: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in name).split())


def numbers(metrics: QueryMetrics, seconds: float) -> Numbers:
    """What is kept of one type of queries."""
    milliseconds = 1e3 * seconds / metrics.queries
    return {
        "queries": metrics.queries,
        **{name: getattr(metrics, name) for name in ("mrr", "low", "high", "hits_at_10")},
        "milliseconds": milliseconds,
    }


def tell(found: Mapping[str, Numbers]) -> str:
    mrr, milliseconds = (mean(found, list(found), what) for what in ("mrr", "milliseconds"))
    return f"{100 * mrr:.1f} in {milliseconds:.2f} ms a query"


def mean(found: Mapping[str, Numbers], kinds: Sequence[str], what: str) -> float:
    return float(np.mean([found[kind][what] for kind in kinds]))


def common(results: Results) -> list[str]:
    """The types that every way has answered."""
    first = next(iter(results.values()))
    return [kind for kind in first if all(kind in found for found in results.values())]


# Paths.


def draw_paths(model: SheafEmbedding, given: argparse.Namespace) -> dict[str, TypeQueries]:
    """Paths of every length from the benchmark's triples, as the model knows them."""
    data = load(given.queries)
    smaller, larger = smaller_and_larger(data, given.split)
    inverses = inverse_relations(data.train.schema.relation_names)
    translate, paths = Translation(data, model), {}
    for length in range(1, LONGEST + 1):
        name = f"{length}p"
        drawn = sample_queries(smaller, larger, name, given.paths, inverses=inverses)
        paths[name] = translate(TypeQueries(name, drawn.queries, drawn.easy, drawn.hard))
    return paths


def inverse_relations(names: Sequence[str]) -> list[int]:
    """Of each relation its inverse, as the benchmark spells it: "-r" of "+r", "r_reverse" of "r".

    >>> inverse_relations(["+r", "-r", "s", "s_reverse", "t"])
    [1, 0, 3, 2, -1]
    """
    place = {name: number for number, name in enumerate(names)}

    def inverse(name: str) -> str:
        if name[:1] in ("+", "-"):
            return {"+": "-", "-": "+"}[name[0]] + name[1:]
        bare = name.removesuffix("_reverse")
        return bare if bare != name else f"{name}_reverse"

    return [place.get(inverse(name), -1) for name in names]


def answer_paths(
    model: SheafEmbedding,
    ways: Mapping[str, Options],
    paths: Mapping[str, TypeQueries],
    state: Path,
) -> Results:
    """Answer paths of every length in every way that takes them."""
    kept = json.loads(state.read_text(encoding="utf-8")) if state.exists() else {}
    weights, found = fingerprint(model), dict[str, dict[str, Numbers]]()
    for name, options in ways.items():
        for kind, asked in paths.items():
            parts = (weights, options.start(model).choices, asked.queries, asked.hard.ids.tolist())
            key = hashlib.sha256(repr(parts).encode()).hexdigest()
            if key not in kept:
                try:
                    kept[key] = measure(model, asked, options)
                except InputError as error:
                    print(f"{name}: {error}", flush=True)
                    break
                files.write_text(state, json.dumps(kept))
            found.setdefault(name, {})[kind] = kept[key]
    return found


@torch.no_grad()
def measure(model: SheafEmbedding, asked: TypeQueries, options: Options) -> Numbers:
    """Solve queries, some at a time, and rank their hard answers."""
    ranked, filtered = sets_of(asked.easy, asked.hard, "hard")
    scores(model, asked.queries[:1], options, chances=False)  # what is prepared once is not timed
    started = time.perf_counter()
    ranks = []
    for places in np.array_split(np.arange(len(asked)), -(-len(asked) // SOME)):
        queries = [asked.queries[place] for place in places.tolist()]
        energies, _ = scores(model, queries, options, chances=False)
        ranks.append(rank_among(energies, take(ranked, places), take(filtered, places)).realistic)
    seconds = time.perf_counter() - started
    return numbers(QueryMetrics.of(AnswerRanks(np.concatenate(ranks), ranked.offsets)), seconds)


# What comes out.


def table(results: Results) -> str:
    """A row for every way: the MRR of each type and their mean, and the time."""
    kinds = common(results)
    rows = [
        [
            name,
            *(f"{100 * found[kind]['mrr']:.1f}" for kind in kinds),
            f"{100 * mean(found, kinds, 'mrr'):.1f}",
            f"{mean(found, kinds, 'milliseconds'):.2f}",
        ]
        for name, found in results.items()
    ]
    return markdown(["", *kinds, "mean", "ms a query"], rows)


def frame(results: Results) -> pl.DataFrame:
    """All numbers, a row for every way and type."""
    return pl.DataFrame(
        [
            {"way": w, "type": kind, **of}
            for w, found in results.items()
            for kind, of in found.items()
        ]
    )


def new_axes() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(8.5, 4.5), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def look(number: int, name: str) -> dict[str, str]:
    """A mark that tells ways apart in both pictures: open without a prior, dark for chaining."""
    if name.startswith("chaining"):
        return {"color": "#000000" if "remembered" in name else "#888888", "marker": "."}
    fill = "full" if "λ" in name else "none"
    return {"color": f"C{number}", "marker": "osDv^P"[number % 6], "fillstyle": fill}


def plot_accuracy(results: Results, about: str) -> Figure:
    """MRR against the time for a query: a mark for each closed form, a line over k for chaining."""
    kinds = common(results)
    figure, axes = new_axes()
    at = {
        name: (mean(found, kinds, "milliseconds"), 100 * mean(found, kinds, "mrr"))
        for name, found in results.items()
    }
    for number, name in enumerate(name for name in at if not name.startswith("chaining")):
        axes.plot(*at[name], **look(number, name), markersize=9, linestyle="none", label=name)
    for number, facts in enumerate(FACTS):
        mine = {name: at[name] for name in at if name.startswith(f"chaining, facts {facts}")}
        if mine:
            label, style = f"chaining, facts {facts}", look(number, f"chaining, {facts}")
            axes.plot(*zip(*mine.values(), strict=True), **style, markersize=4, label=label)
        for name, place in list(mine.items())[::3]:  # of all of them they would overlap
            k = name.rpartition(" ")[2]
            below = {"textcoords": "offset points", "ha": "center", "fontsize": 7}
            axes.annotate(f"k={k}", place, xytext=(0, 6 if number else -11), **below)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set(xlabel="milliseconds a query", ylabel=f"MRR × 100, mean of {', '.join(kinds)}")
    axes.set_title(about, loc="left", fontsize=10)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return figure


def plot_paths(results: Results, about: str) -> Figure:
    """MRR against the length of a path, with the interval that holds 95 % of resampled MRRs."""
    figure, axes = new_axes()
    for number, (name, found) in enumerate(results.items()):
        of = list(found.values())
        shift = 0.3 * ((number + 0.5) / len(results) - 0.5)  # intervals side by side
        axes.errorbar(
            [length + shift for length in range(1, len(of) + 1)],
            [100 * each["mrr"] for each in of],
            yerr=[
                [100 * (each["mrr"] - each["low"]) for each in of],
                [100 * (each["high"] - each["mrr"]) for each in of],
            ],
            **look(number, name),
            linestyle="-" if name.startswith("chaining") else ":",
            markersize=5,
            capsize=2,
            label=name,
        )
    axes.set(xlabel="relations in the path", ylabel="MRR × 100")
    axes.set_ylim(bottom=0)
    axes.set_title(about, loc="left", fontsize=10)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return figure


def write_results(results: Results, paths: Results, given: argparse.Namespace) -> str:
    """Write tables, numbers and pictures."""
    where = f"{Path(given.queries).name}, {given.split}"
    titles = (
        f"{where}: hard answers, {given.sample:,} queries a type",
        f"{where}: hard answers, {given.paths:,} drawn paths of each length",
    )
    text = "\n".join(
        f"{title}\n\n{table(of)}" for title, of in zip(titles, (results, paths), strict=True)
    )
    write_text("extension.md", text, given.out, given.docs)
    found = {"benchmark": results, "paths": paths}
    write_text("extension.json", json.dumps(found, indent=1), given.out)
    frame(results).write_csv(given.out / "extension.csv")
    frame(paths).write_csv(given.out / "paths.csv")
    write_figure("extension", plot_accuracy(results, titles[0]), given.out, given.docs)
    write_figure("paths", plot_paths(paths, titles[1]), given.out, given.docs)
    return text


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="What makes harmonic extension work.")
    parser.add_argument("model", type=Path, help="the folder of a model, calibrated if possible")
    parser.add_argument("--queries", required=True, help="a folder of the BetaE benchmark")
    parser.add_argument("--split", default="test", choices=("test", "valid"))
    parser.add_argument("--types", nargs="+", default=list(TYPES), help="query types")
    parser.add_argument("--sample", type=int, default=100, help="queries of each type")
    parser.add_argument("--paths", type=int, default=200, help="paths of each length")
    parser.add_argument("--k", type=int, nargs="+", default=list(KS), help="candidates of chaining")
    parser.add_argument("--strength", type=float, help="λ of the prior; the calibrated one, or 1")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the results")
    parser.add_argument("--docs", type=Path, help="write table and pictures there, too")
    given = parser.parse_args(words)
    model = SheafEmbedding.load(given.model)
    strength = given.strength or Options("harmonic").start(model).settings.strength or 1.0
    (given.out / "state").mkdir(parents=True, exist_ok=True)
    closed = without_search(model, strength)
    searched = dict(chaining(facts, k) for facts in FACTS for k in given.k)
    results = answer_benchmark(model, closed | searched, given)
    best_k = Options("chaining").start(model).settings.k
    one_k = dict(chaining(facts, best_k) for facts in FACTS)
    paths = answer_paths(
        model, closed | one_k, draw_paths(model, given), given.out / "state" / "paths.json"
    )
    print(write_results(results, paths, given))


if __name__ == "__main__":
    main()

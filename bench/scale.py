"""How costs grow with the entities: a step, a question, memory, recall, from 50,000 to 5 million.

Graphs are made by ``sheaves synthesise`` with five facts an entity, read from Parquet and from
packed text, trained for an epoch or at least 2,000 steps and at most 20,000 (complex, 128
dimensions, row-wise Adagrad, batches of 1,024 with 2,048 negatives), saved, indexed and asked.
Every part runs in a process of its own, so that its memory is its own. Times are of the processor,
in one thread: what else the machine does meets them less.
Run with ``make bench-scale`` or ``python bench/scale.py --sizes 50000 500000 --steps 500``.
With ``--by-chance`` facts are drawn by chance, in a minute: costs of reading and training are the
same on them, and nothing can be learned. ``--only`` some parts are measured.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from _measure import peak_gib

DIM, FACTS, BATCH = 128, 5, 1024
LEAST_STEPS, MOST_STEPS = 2_000, 20_000
QUESTIONS = 100
CHAINED = 20
COLUMNS = {
    "read": "s",
    "read memory": "GiB",
    "read packed text": "s",
    "packed text memory": "GiB",
    "step": "ms",
    "triples a second": "",
    "train memory": "GiB",
    "tables and optimiser": "GiB",
    "index": "s",
    "info": "s",
    "first answer": "s",
    "product": "ms",
    "exact 1p": "ms",
    "exact 2p": "ms",
    "quick 1p": "ms",
    "quick 2p": "ms",
    "chaining 2p": "ms",
    "full chaining 2p": "ms",
    "recall 1p": "",
    "recall 2p": "",
    "recall chaining 2p": "",
    "ask memory": "GiB",
}


def spent(job: Callable[[], object]) -> float:
    """The processor time of a job, in seconds."""
    start = time.process_time()
    job()
    return time.process_time() - start


def made(folder: Path, size: int, like: str) -> Path:
    out = folder / f"g{size}"
    if not out.exists():
        sheaves = [sys.executable, "-m", "knowledge_sheaves", "synthesise", "--like", like]
        more = ["--types", "none", "--entities", size, "--triples", FACTS * size, "--seed", 1]
        subprocess.run([*map(str, [*sheaves, *more, "--out", out])], check=True, stdout=2)
    return out


def drawn(folder: Path, size: int) -> Path:
    """Facts by chance: some tails are frequent, nothing else is as in a real graph."""
    import numpy as np
    import polars as pl

    out, chance, parts = folder / f"g{size}", np.random.default_rng(0), []
    for _ in range(10):
        count = FACTS * size // 10
        ends = [chance.integers(0, size, count), (size * chance.random(count) ** 2).astype(int)]
        by = chance.integers(0, 51, count)
        numbers = pl.DataFrame({"head": ends[0], "relation": by, "tail": ends[1]})
        ids = {end: pl.col(end) * 7919 % 100_000_007 for end in ("head", "tail")}
        names = {end: pl.format("Q{}", number) for end, number in ids.items()}
        parts.append(numbers.with_columns(**names, relation=pl.format("P{}", "relation")))
    out.mkdir(parents=True, exist_ok=True)
    pl.concat(parts).write_parquet(out / "train.parquet")
    return out


def pack(folder: Path, size: int) -> dict[str, float]:
    """Write the facts as a table of text, packed by gzip."""
    import polars as pl

    with gzip.open(folder / f"t{size}.tsv.gz", "wb", compresslevel=1) as packed:
        for part in pl.read_parquet(folder / f"g{size}" / "train.parquet").iter_slices(10**6):
            packed.write(part.write_csv(separator="\t", include_header=False).encode())
    return {}


def text(folder: Path, size: int) -> dict[str, float]:
    import knowledge_sheaves as ks

    seconds = spent(lambda: ks.read(folder / f"t{size}.tsv.gz", sizes=(1, 0, 0)))
    return {"read packed text": seconds, "packed text memory": peak_gib()}


def train(folder: Path, size: int, steps: int) -> dict[str, float]:
    import torch

    import knowledge_sheaves as ks
    from knowledge_sheaves.embedding import ModelInfo, SheafEmbedding
    from knowledge_sheaves.training import TrainingConfig
    from knowledge_sheaves.training.batches import Batches
    from knowledge_sheaves.training.objective import Objective
    from knowledge_sheaves.training.optimisers import OPTIMISERS

    torch.set_num_threads(1)
    found: dict[str, Any] = {}

    def read() -> None:
        found["data"] = ks.read(folder / f"g{size}", types="none")

    seconds = spent(read)
    read_memory = peak_gib()
    data = found["data"]
    model = SheafEmbedding(ks.model_config("complex", dim=DIM), data.train)
    config = TrainingConfig(optimiser="rowwise-adagrad", n3=0.01, batch_size=BATCH)
    batches, objective = (
        Batches(model, data.train, config),
        Objective(model, data.train, config),
    )
    optimiser = OPTIMISERS[config.optimiser]([*model.parameters()], lr=config.learning_rate)
    took: list[float] = []
    for epoch in range(10**6):
        for batch in batches.epoch(epoch):
            start = time.process_time()
            optimiser.zero_grad(set_to_none=True)
            objective(batch).backward()
            optimiser.step()
            took.append(time.process_time() - start)
            if len(took) == steps:
                break
        if len(took) == steps:
            break
    memory = peak_gib()
    kept = [value for state in optimiser.state.values() for value in state.values()]
    held = [*model.parameters(), *kept]
    table = sum(t.numel() * t.element_size() for t in held) / 2**30
    model.refresh()
    model.info = ModelInfo.of(data, calibration={"tau": 1.0})
    model.save(folder / f"m{size}")
    step = statistics.median(took)
    return {
        "read": seconds,
        "read memory": read_memory,
        "step": 1000 * step,
        "triples a second": config.batch_size / step,
        "train memory": memory,
        "tables and optimiser": table,
    }


def index(folder: Path, size: int) -> dict[str, float]:
    import torch

    from knowledge_sheaves.embedding import SheafEmbedding
    from knowledge_sheaves.query.indexing import index as build

    torch.set_num_threads(1)
    model = SheafEmbedding.load(folder / f"m{size}")
    return {"index": spent(lambda: build(model)), "index memory": peak_gib()}


def info(folder: Path, size: int) -> dict[str, float]:
    def tell() -> None:
        from knowledge_sheaves.embedding.about import describe_folder

        describe_folder(folder / f"m{size}")

    return {"info": spent(tell)}


def ask(folder: Path, size: int) -> dict[str, float]:
    start = time.process_time()
    import torch

    import knowledge_sheaves as ks
    from knowledge_sheaves.query.indexing import walks
    from knowledge_sheaves.query.pattern import Query

    torch.set_num_threads(1)
    model = ks.load(folder / f"m{size}")
    graph = model.graph
    names = graph.schema.relation_names
    asked: dict[str, list[Query]] = {"1p": [], "2p": []}
    # Types are left out, so edges of the schema are relations.
    for head, *edges in islice(walks(model.embedding, 0, 8 * QUESTIONS, seed=1), QUESTIONS):
        known, (first, second) = graph.entities[head], (names[edge] for edge in edges)
        asked["1p"].append(Query.from_triples([(known, first, "?x")], "?x", graph))
        hops = [(known, first, "?y"), ("?y", second, "?x")]
        asked["2p"].append(Query.from_triples(hops, "?x", graph))
    asker = {
        mode: ks.Model(model.embedding, ks.Options("harmonic", search=mode))
        for mode in ("exact", "quick")
    }
    chained = {
        mode: ks.Model(model.embedding, ks.Options("chaining", search=mode))
        for mode in ("full", "quick")
    }
    asker["quick"].answer(asked["1p"][0])
    out = {"first answer": time.process_time() - start, "ask memory": peak_gib()}
    table = model.embedding.entities.tables[0].detach()
    vector = torch.randn(1, DIM)
    times = [spent(lambda: vector @ table.T) for _ in range(5)]
    out["product"] = 1000 * statistics.median(times[1:])
    for shape, queries in asked.items():
        times, out[f"recall {shape}"] = compared(asker, queries)
        out |= {f"{mode} {shape}": each for mode, each in times.items()}
    times, out["recall chaining 2p"] = compared(chained, asked["2p"][:CHAINED])
    return out | {"chaining 2p": times["quick"], "full chaining 2p": times["full"]}


def compared(askers: dict[str, Any], queries: list[Any]) -> tuple[dict[str, float], float]:
    """Milliseconds of an answer by each of two, and what share of the first's the second has."""
    times, answers = dict[str, float](), list[list[set[int]]]()
    for mode, asker in askers.items():
        spans, found = [], []
        for query in queries:
            start = time.process_time()
            answer = asker.answer(query)
            spans.append(time.process_time() - start)
            found.append(set(answer.ids[:, 0].tolist()))
        times[mode] = 1000 * statistics.median(spans)
        answers.append(found)
    pairs = zip(*answers, strict=True)
    return times, statistics.mean(len(a & b) / len(a) for a, b in pairs if a)


PARTS: dict[str, Callable[..., dict[str, float]]] = {
    "pack": pack,
    "text": text,
    "train": train,
    "info": info,
    "index": index,
    "ask": ask,
}


def alone(part: str, folder: Path, size: int, steps: int) -> dict[str, float]:
    """Measure a part in a process of its own."""
    told = [part, str(folder), str(size), str(steps)]
    done = subprocess.run(
        [sys.executable, __file__, "--part", *told],
        check=True,
        stdout=subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"},
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(f"{size:,} {part}: {found}", file=sys.stderr, flush=True)
    return found


def draw(rows: dict[int, dict[str, float]], file: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for name in ("step", "product", "exact 2p", "quick 1p", "quick 2p", "chaining 2p"):
        known = {size: row[name] for size, row in rows.items() if name in row}
        axes.loglog(list(known), list(known.values()), marker="o", label=name)
    axes.set(xlabel="entities", ylabel="milliseconds of one processor")
    axes.legend()
    figure.savefig(file)


def table(rows: dict[int, dict[str, float]]) -> str:
    lines = [
        "| | " + " | ".join(f"{size:,}" for size in rows) + " |",
        "|---" * (1 + len(rows)) + "|",
    ]
    for name, unit in COLUMNS.items():
        cells = [f"{row[name]:,.3g}" if name in row else "–" for row in rows.values()]
        lines.append(f"| {name}{', ' + unit if unit else ''} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _steps(size: int) -> int:
    """An epoch, forwards and backwards, where that is neither short nor long."""
    return min(MOST_STEPS, max(LEAST_STEPS, 2 * FACTS * size // BATCH))


def _real() -> str:
    """CoDEx-M, from where data lie or by download."""
    folder = Path(os.environ.get("KNOWLEDGE_SHEAVES_DATA", ""), "codex", "codex-m")
    return str(folder) if folder.is_dir() else "codexmedium"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--sizes", type=int, nargs="+", default=[50_000, 500_000, 5_000_000])
    options.add_argument("--steps", type=int, help="steps of training, if not an epoch")
    options.add_argument("--like", default=_real(), help="the graph that others are made like")
    options.add_argument("--by-chance", action="store_true", help="facts of no structure, quickly")
    options.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    options.add_argument("--folder", type=Path, default=Path("build/scale"))
    options.add_argument("--picture", type=Path, default=Path("build/scale/scale.svg"))
    options.add_argument("--part", nargs=4, metavar="TOLD", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.part:
        part, folder, size, steps = given.part
        more = (int(steps),) if part == "train" else ()
        print(json.dumps(PARTS[part](Path(folder), int(size), *more)))
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    rows: dict[int, dict[str, float]] = {}
    for size in given.sizes:
        if given.by_chance:
            drawn(given.folder, size)
        else:
            made(given.folder, size, given.like)
        rows[size] = {}
        for part in given.only:
            rows[size] |= alone(part, given.folder, size, given.steps or _steps(size))
        print(table(rows), flush=True)
    draw(rows, given.picture)


if __name__ == "__main__":
    main()

"""What a step costs over several processes: constants, and what they predict (docs/scale.md).

    python bench/sharded.py

A step of one process costs a + b for every pair that it compares. Among several, vectors come and
gradients go by exchanges of all with all, each α + bytes / β. The constants a and b are measured
with one process, α and β without any model; whole steps are then measured beside what these say.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
import warnings
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist

from knowledge_sheaves.embedding import model_config
from knowledge_sheaves.graph import KnowledgeGraph, Schema
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.processes import Processes
from knowledge_sheaves.training import TrainingConfig

ENTITIES, RELATIONS, STEPS, DIM, BATCH = 200_000, 20, 12, 200, 1024
NEGATIVES = (512, 1024, 2048)
SIZES = tuple(2**power for power in (12, 16, 20, 22, 23))
"""Bytes that a process sends in an exchange."""


def graph(processes: int) -> Dataset:
    """As many facts as the steps want, between entities by chance."""
    rng = np.random.default_rng(0)
    count = BATCH * STEPS * processes
    rows = (rng.integers(top, size=count) for top in (ENTITIES, RELATIONS, ENTITIES))
    schema = Schema.single([f"r{n}" for n in range(RELATIONS)])
    return Dataset(KnowledgeGraph.from_arrays(*rows, schema=schema, num_entities=ENTITIES))


def exchange(processes: Processes, size: int) -> float:
    """Seconds of the quickest exchange in which every process sends so many bytes."""
    sent = torch.zeros(size // 4 // processes.count * processes.count)
    received, best = torch.empty_like(sent), np.inf
    for _ in range(15):
        dist.barrier()
        start = time.perf_counter()
        dist.all_to_all_single(received, sent)
        best = min(best, processes.mean(time.perf_counter() - start))
    return best


def steps(processes: Processes, data: Dataset, negatives: int) -> dict[str, float]:
    """Seconds of the quickest step, its pairs, and the rows that it looks up."""
    from knowledge_sheaves.training.sharded.run import ShardedRun

    config = TrainingConfig(
        batch_size=BATCH, negatives=negatives, optimiser="rowwise-adagrad", n3=0.01
    )
    run = ShardedRun(processes, data, model_config("complex", dim=DIM), config, None, None)
    best, pairs, rows = np.inf, 0, 0
    for batch in run.batches.epoch(0):
        dist.barrier()
        start = time.perf_counter()
        run._step(batch)
        best = min(best, processes.mean(time.perf_counter() - start))
        assert batch.negatives is not None
        pairs = len(batch.triples) * len(torch.cat([batch.triples[:, 2], batch.negatives]).unique())
        rows = len(run.objective.entities(batch).unique())
    return {"seconds": best, "pairs": pairs, "rows": rows}


def work() -> None:
    """What every process does; the first one prints."""
    torch.set_num_threads(1)
    with Processes.started() as processes:
        data = graph(processes.count)
        asked = NEGATIVES if processes.count == 1 else NEGATIVES[-1:]
        found = {
            "steps": [steps(processes, data, count) for count in asked],
            "exchanges": [exchange(processes, size) for size in SIZES],
        }
        if processes.first:
            print(json.dumps(found))


def measured(count: int) -> dict[str, list[dict[str, float]]]:
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={count}", __file__, "--worker"]
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env)
    return json.loads(done.stdout.splitlines()[-1])


class Site(NamedTuple):
    """Machines that nobody measured: what is assumed of one, and how many there are."""

    name: str
    machines: int
    pairs: float
    """Pairs that one compares in a second."""
    network: float
    """Bytes that one sends in a second."""
    graphs: int
    """Processes on one, each of which reads the graph."""


def predict(a: float, b: float, rows: float) -> None:
    """Print what 100 million entities and a billion facts would take: predictions."""
    entities, facts, candidates = 100e6, 1e9, 3000
    per_core = 1 / (b + a / (BATCH * candidates))
    cores, gpus = 0.7 * 32 * per_core, 8 * 5e13 / (6 * DIM)
    print("\n| predicted | hours an epoch | of which network | memory a machine | sent by one |")
    print("|---|---|---|---|---|")
    for site in (
        Site("8 machines of 32 cores, 25 Gbit/s", 8, cores, 3.1e9, 4),
        Site("64 machines of 32 cores, 25 Gbit/s", 64, cores, 3.1e9, 4),
        Site("8 machines of 8 GPUs, 400 Gbit/s", 8, gpus, 5e10, 8),
        Site("64 machines of 8 GPUs, 400 Gbit/s", 64, gpus, 5e10, 8),
    ):
        compute = 2 * facts * candidates / site.pairs / site.machines
        away = (site.machines - 1) / site.machines
        sent = 2 * facts / site.machines * rows / BATCH * (8 * DIM + 8) * away
        network = sent / site.network
        memory = entities * (2 * 4 * DIM + 4) / site.machines + site.graphs * 12 * facts
        print(
            f"| {site.name} | {(compute + network) / 3600:,.2g} | {network / 3600:.2g} "
            f"| {memory / 1e9:,.0f} GB | {sent / 1e12:.1f} TB |"
        )


def main() -> None:
    if importlib.util.find_spec("torchrec") is None:
        print("TorchRec is not installed (make sharded): there is nothing to measure.")
        return
    cores = len(os.sched_getaffinity(0))
    found = {count: measured(count) for count in (1, 2, 4)}
    alone = found[1]["steps"]
    b, a = np.polyfit([s["pairs"] for s in alone], [s["seconds"] for s in alone], 1)
    row = 2 * 4 * DIM + 8
    print(f"{cores} cores, d = {DIM}, {BATCH:,} facts in a batch, {ENTITIES:,} entities")
    print(f"a step alone: {a * 1e3:.1f} ms and {b * 1e9:.2f} ns a pair; a row: {row:,} bytes")
    print("\n| processes | rows a step | α | β | measured | predicted |\n|---|---|---|---|---|---|")
    for count, each in found.items():
        step = each["steps"][-1]
        slope, start = np.polyfit(SIZES, each["exchanges"], 1) if count > 1 else (0.0, 0.0)
        start = max(start, 0.0)
        sent = step["rows"] * row * (count - 1) / count
        predicted = max(1.0, count / cores) * (a + b * step["pairs"]) + 3 * start + slope * sent
        speed = f"{start * 1e3:.1f} ms | {1e-6 / slope:,.0f} MB/s" if count > 1 else "– | –"
        print(
            f"| {count} | {step['rows']:,.0f} | {speed} | {step['seconds'] * 1e3:.0f} ms "
            f"| {predicted * 1e3:.0f} ms |"
        )
    predict(a, b, alone[-1]["rows"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Steps over several processes.")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    warnings.simplefilter("ignore")
    if parser.parse_args().worker:
        work()
    else:
        main()

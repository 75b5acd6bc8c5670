"""How fast training is, against PyKEEN: pairs scored a second, quality in a minute, overhead.

A pair is a positive triple and a candidate for one of its ends that a step scores. TransE and
RotatE have 200 real numbers an entity on both sides; PyKEEN counts RotatE's complex numbers, so its
embedding_dim is 100. Both use the same threads and the same triples: those of FB15k-237 in
KNOWLEDGE_SHEAVES_DATA, or a seeded random graph of that size. PyKEEN's settings are those that it
ships for FB15k-237, but for the dimension; for quality also a version of them that is in a hurry,
and the best counts. Structured embeddings train as in *Knowledge Sheaves*, on both sides: d = 32,
batches of 2,048 triples, one corrupted triple for each. On a machine that is busy otherwise the
figures mean little.

    python bench/training.py             pairs a second and overhead, two minutes
    python bench/training.py --quality   validation MRR: PyKEEN in ten minutes, ours in one
    python bench/training.py --profile   where the time of a step goes; writes docs/profile.md
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
import yaml
from _measure import peak_gib
from torch.profiler import ProfilerActivity, profile

from knowledge_sheaves.embedding import SheafConfig, model_config
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.ranking import RankMetrics, Scorer, rank_triples
from knowledge_sheaves.training import Progress, TrainingConfig
from knowledge_sheaves.training.settings import make_settings
from knowledge_sheaves.training.trainer import Run
from ranking import graphs

DIM, BATCH, NEGATIVES = 200, 1024, 4096
STEPS, PYKEEN_STEPS, PROFILED_STEPS = 30, 5, 10
ROUNDS = 3
VALIDATION_TRIPLES = 2000
ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "profile.md"
PAPER = ROOT / "experiments" / "paper" / "se.yaml"
NEVER = 10**6

SPEED = {
    "transe": model_config("transe", dim=DIM),
    "rotate": model_config("rotate", dim=DIM),
    "complex": model_config("complex", dim=512),
}
# Chosen on validation triples, for what a single minute can reach.
QUALITY: dict[str, tuple[SheafConfig, dict[str, Any]]] = {
    "transe": (SPEED["transe"].with_options(power=1), {"negatives": 1024}),
    "rotate": (SPEED["rotate"].with_options(init=0.1), {"batch_size": 512, "negatives": 512}),
}
PYKEEN_DIM = {"TransE": DIM, "RotatE": DIM // 2}
SUN = "rotate/sun2019_rotate_fb15k237.json"
TRANSE = {"model": "TransE", "model_kwargs": {"scoring_fct_norm": 1}}
# Settings made for a day on a GPU hardly move in ten minutes on a CPU: these are the same with
# fewer negatives and larger steps.
HASTE = {
    "optimizer_kwargs": {"lr": 0.002},
    "negative_sampler_kwargs": {"num_negs_per_pos": 32},
}
PYKEEN: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "transe": {
        "nguyen2018": ("transe/nguyen2018_transe_fb15k237.yaml", {}),
        # The authors of RotatE trained TransE with the settings of RotatE, too.
        "sun2019": (SUN, TRANSE),
        "sun2019 in haste": (SUN, TRANSE | HASTE),
    },
    "rotate": {"sun2019": (SUN, {}), "sun2019 in haste": (SUN, HASTE)},
}


class TimeUpError(Exception):
    """Raised in a callback to end a training run."""


# Ours.


def start_run(
    data: Dataset,
    model: SheafConfig,
    on_progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Run:
    given = {"batch_size": BATCH, "negatives": NEGATIVES, "validate_every": NEVER} | options
    return Run(data, model, TrainingConfig(**given), None, on_progress)


def part(train: KnowledgeGraph, steps: int) -> Dataset:
    """As many triples as give an epoch, with both directions, this many steps."""
    rows = np.random.default_rng(0).choice(train.num_triples, steps * BATCH // 2, replace=False)
    return Dataset(train.with_triples(train.triples[rows]))


@contextmanager
def timed(owner: Any, name: str, seconds: Counter[str]) -> Iterator[None]:
    """Add up the time that a method takes."""
    method = getattr(owner, name)

    def clocked(*args: Any, **kwargs: Any) -> Any:
        start = perf_counter()
        try:
            return method(*args, **kwargs)
        finally:
            seconds[name] += perf_counter() - start

    setattr(owner, name, clocked)
    try:
        yield
    finally:
        setattr(owner, name, method)


def measure(train: KnowledgeGraph, model: SheafConfig) -> tuple[float, float]:
    """Pairs a second over an epoch of the trainer, and the share of it that is overhead.

    Overhead is all that is neither forward, backward nor optimiser: batches, progress, checks. An
    epoch before it warms up.
    """
    seconds: Counter[str] = Counter()
    taken = 0.0

    def note(progress: Progress) -> None:
        nonlocal taken
        if progress.metrics:
            taken = progress.metrics["seconds"]
            if progress.epoch == 0:
                seconds.clear()

    run = start_run(part(train, STEPS), model, note, epochs=2)
    with (
        timed(run.objective, "forward", seconds),
        timed(torch.Tensor, "backward", seconds),
        timed(run.optimiser, "step", seconds),
    ):
        run.go(resume=False)
    return pairs(run) / taken, 1 - seconds.total() / taken


def pairs(run: Run) -> int:
    """How many pairs the second epoch has scored; a batch has each of its candidates once."""
    return sum(
        len(batch.triples) * len(torch.cat([batch.triples[:, 2], batch.negatives]).unique())
        for batch in run.batches.epoch(1)
        if batch.negatives is not None
    )


def train_ours(name: str, data: Dataset, seconds: float) -> tuple[Scorer, float]:
    """Train for some seconds; return the model and how many epochs that were."""
    done, start = 0.0, perf_counter()

    def stop(progress: Progress) -> None:
        nonlocal done
        done = progress.epoch + progress.step / progress.steps
        if perf_counter() - start > seconds:
            raise TimeUpError

    model, options = QUALITY[name]
    run = start_run(data, model, stop, epochs=NEVER, **options)
    with suppress(TimeUpError):
        run.go(resume=False)
    run.model.refresh()
    return run.model, done


# PyKEEN's.


def pykeen_factory(train: KnowledgeGraph) -> Any:
    """The triples as PyKEEN takes them."""
    from pykeen.triples import CoreTriplesFactory

    mapped = torch.from_numpy(train.triples.astype(np.int64))
    return CoreTriplesFactory(mapped, train.num_entities, train.num_relations)


def pykeen_loop(name: str, choice: str, train: KnowledgeGraph) -> tuple[Any, Any, dict[str, Any]]:
    """PyKEEN's sampled training as its own settings file describes it, and those settings."""
    from pykeen import experiments
    from pykeen.models import model_resolver
    from pykeen.optimizers import optimizer_resolver
    from pykeen.training import SLCWATrainingLoop

    file, changes = PYKEEN[name][choice]
    text = (Path(experiments.__file__).parent / file).read_text(encoding="utf-8")
    given = yaml.safe_load(text)["pipeline"] | changes
    factory = pykeen_factory(train)
    model = model_resolver.make(
        given["model"],
        given["model_kwargs"] | {"embedding_dim": PYKEEN_DIM[given["model"]]},
        triples_factory=factory,
        loss=given["loss"],
        loss_kwargs=given["loss_kwargs"],
        random_seed=0,
    )
    loop = SLCWATrainingLoop(
        model=model,
        triples_factory=factory,
        optimizer=optimizer_resolver.make(
            given["optimizer"], given["optimizer_kwargs"], params=model.get_grad_params()
        ),
        negative_sampler=given["negative_sampler"],
        negative_sampler_kwargs=given["negative_sampler_kwargs"],
    )
    return loop, factory, given


def train_pykeen(loop: Any, factory: Any, batch_size: int, after_batch: Callable[[], None]) -> None:
    """Train until ``after_batch`` raises TimeUpError."""
    from pykeen.training.callbacks import TrainingCallback

    class Watch(TrainingCallback):
        def post_batch(self, **_: Any) -> None:
            after_batch()

    with suppress(TimeUpError):
        loop.train(
            factory,
            num_epochs=NEVER,
            batch_size=batch_size,
            use_tqdm=False,
            use_tqdm_batch=False,
            callbacks=[Watch()],
        )


def measure_pykeen(name: str, train: KnowledgeGraph) -> float:
    """Pairs a second of PyKEEN's sampled training; a triple is a candidate beside its negatives."""
    loop, factory, given = pykeen_loop(name, "sun2019", train)
    batch_size = given["training_kwargs"]["batch_size"]
    watch = Stopwatch(PYKEEN_STEPS)
    train_pykeen(loop, factory, batch_size, watch)
    candidates = 1 + given["negative_sampler_kwargs"]["num_negs_per_pos"]
    return batch_size * candidates / watch.step


def measure_structured(train: KnowledgeGraph) -> tuple[float, float]:
    """Triples a second of structured embeddings by the paper's settings: ours and PyKEEN's."""
    from pykeen.models import model_resolver
    from pykeen.training import SLCWATrainingLoop

    model, training = make_settings(PAPER, {"epochs": NEVER, "validate_every": NEVER}, None)
    factory = pykeen_factory(train)
    theirs = model_resolver.make(
        "se",
        {"embedding_dim": model.dim, "scoring_fct_norm": model.norm},
        triples_factory=factory,
        loss="marginranking",
        random_seed=0,
    )
    loop = SLCWATrainingLoop(
        model=theirs,
        triples_factory=factory,
        optimizer=torch.optim.Adam(theirs.get_grad_params(), lr=training.learning_rate),
        negative_sampler_kwargs={"num_negs_per_pos": 1},
    )
    watch = Stopwatch(STEPS)
    with suppress(TimeUpError):
        Run(Dataset(train), model, training, None, lambda _: watch()).go(resume=False)
    other = Stopwatch(STEPS)
    train_pykeen(loop, factory, training.batch_size, other)
    return training.batch_size / watch.step, training.batch_size / other.step


class Stopwatch:
    """Called after every step; ends a run after some, and knows how long one takes.

    The first step warms up.
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.times: list[float] = []

    def __call__(self) -> None:
        self.times.append(perf_counter())
        if len(self.times) > self.steps:
            raise TimeUpError

    @property
    def step(self) -> float:
        return (self.times[-1] - self.times[0]) / self.steps


# The parts of the benchmark.


def show_speed(train: KnowledgeGraph) -> None:
    theirs: dict[str, float] = {}
    for name, model in SPEED.items():
        ours: list[tuple[float, float]] = []
        for _ in range(ROUNDS):  # in turns, best of several: what else the machine does meets both
            ours.append(measure(train, model))
            if name in PYKEEN:
                theirs[name] = max(theirs.get(name, 0.0), measure_pykeen(name, train))
        speed, overhead = max(ours)
        print(
            f"{name:8s} d = {model.dim}: {speed / 1e6:6.2f} million pairs a second, "
            f"{overhead:.1%} of a step is overhead (at most 5 %)",
            end="",
        )
        if name in theirs:
            ratio = speed / theirs[name]
            print(
                f"; PyKEEN {theirs[name] / 1e6:.2f} million, ratio {ratio:.0f} (at least 50)",
                end="",
            )
        print(flush=True)
    mine, pykeen = map(max, zip(*(measure_structured(train) for _ in range(ROUNDS)), strict=True))
    print(
        f"se       d = 32: {mine / 1e3:6.1f} thousand triples a second, one corrupted for each; "
        f"PyKEEN {pykeen / 1e3:.1f} thousand, ratio {mine / pykeen:.1f}"
    )


def show_quality(minutes: float, threads: int) -> None:
    """Each run in a process of its own, so that its peak memory is its own."""
    for name, choices in PYKEEN.items():
        theirs = [run_worker(name, choice, minutes * 60, threads) for choice in choices]
        ours = run_worker(name, "ours", minutes * 6, threads)
        best = max(theirs, key=lambda result: result["mrr"])
        reached = "reached" if ours["mrr"] >= best["mrr"] else "not reached"
        memory = "no more" if ours["gib"] <= best["gib"] else "more"
        print(f"{name}: PyKEEN's MRR is {reached} in a tenth of its time, at {memory} memory")


def run_worker(name: str, choice: str, seconds: float, threads: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--threads", str(threads), "--worker", name, choice]
    done = subprocess.run([*command, str(seconds)], check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    who = "ours" if choice == "ours" else f"PyKEEN, {choice}"
    print(
        f"{name:8s} {who:20s} {seconds:5.0f} s: validation MRR {result['mrr']:.4f}, "
        f"{result['epochs']:.2f} epochs, peak memory {result['gib']:.2f} GiB",
        flush=True,
    )
    return result


def work(name: str, choice: str, seconds: float) -> None:
    """Train for some seconds and print what came of it, as JSON; the evaluator is ours for all."""
    _, (train, valid, _) = graphs()
    if choice == "ours":
        model, epochs = train_ours(name, Dataset(train), seconds)
        peak = peak_gib()
    else:
        loop, factory, given = pykeen_loop(name, choice, train)
        batch_size = given["training_kwargs"]["batch_size"]
        batches, start = 0, perf_counter()

        def stop() -> None:
            nonlocal batches
            batches += 1
            if perf_counter() - start > seconds:
                raise TimeUpError

        train_pykeen(loop, factory, batch_size, stop)
        peak, epochs = peak_gib(), batches * batch_size / train.num_triples
        from knowledge_sheaves.interop import from_pykeen

        model = from_pykeen(loop.model)
    rng = np.random.default_rng(0)
    rows = valid.triples[rng.choice(valid.num_triples, VALIDATION_TRIPLES, replace=False)]
    found = RankMetrics.of(rank_triples(model, rows, [train, valid]).sides["both"])
    print(json.dumps({"mrr": found.mrr, "epochs": epochs, "gib": peak}))


def write_profile(what: str, train: KnowledgeGraph) -> None:
    """Profile some steps of each model and write the tables down."""
    lines = [
        "# Where the time of a step goes",
        "",
        "Written by `python bench/training.py --profile`: the profiler of PyTorch on "
        f"{PROFILED_STEPS} steps of the trainer, on {what}, batches of {BATCH:,} triples with "
        f"{NEGATIVES:,} shared negatives, threads: {torch.get_num_threads()}. The product of all "
        "triples with all candidates, once forwards and twice backwards, is what a step cannot do "
        "without; the softmax passes over its result. *Overhead* is all that is neither forward, "
        "backward nor optimiser, measured without the profiler.",
    ]
    for name, model in SPEED.items():
        _, overhead = measure(train, model)
        rows, products = profiled(train, model)
        share = f"{products:.0%} matrix products, {overhead:.1%} overhead"
        print(f"{name}: {share}")
        lines += ["", f"## `{name}`, {model.dim} dimensions: {share}", ""]
        lines += ["| operation | share of the time | calls a step |", "|---|---|---|", *rows]
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"Wrote {PAGE.name}")


def profiled(train: KnowledgeGraph, model: SheafConfig) -> tuple[list[str], float]:
    """The rows of the table, the costliest first, and the share of matrix products."""
    start_run(part(train, PROFILED_STEPS), model, epochs=1).go(resume=False)
    run = start_run(part(train, PROFILED_STEPS), model, epochs=1)
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:
        run.go(resume=False)
    events = sorted(profiler.key_averages(), key=lambda event: -event.self_cpu_time_total)
    total = sum(event.self_cpu_time_total for event in events)
    products = sum(e.self_cpu_time_total for e in events if e.key.endswith(("mm", "mm_", "matmul")))
    rows = [
        f"| `{event.key}` | {event.self_cpu_time_total / total:.1%} "
        f"| {event.count / PROFILED_STEPS:.1f} |"
        for event in events[:10]
    ]
    return rows, products / total


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed and quality of training, against PyKEEN.")
    parser.add_argument("--quality", action="store_true", help="what PyKEEN reaches in --minutes")
    parser.add_argument("--minutes", type=float, default=10.0, help="for PyKEEN; ours: a tenth")
    parser.add_argument("--profile", action="store_true", help="write docs/profile.md")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    if given.worker:
        work(given.worker[0], given.worker[1], float(given.worker[2]))
        return
    what, (train, *_) = graphs()
    print(f"{what}: {train.num_triples:,} triples, threads: {given.threads}", flush=True)
    if given.profile:
        write_profile(what, train)
    elif given.quality:
        show_quality(given.minutes, given.threads)
    else:
        show_speed(train)


if __name__ == "__main__":
    main()

"""Settings for a graph that nobody has tuned yet, by its size and the speed of the machine.

A recipe is an amount of time. The rule (`settings_for`) spends it: it takes the widest model and
the most candidates with which enough epochs fit into the time. What a user says wins over it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from knowledge_sheaves.embedding import SheafConfig
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph, Schema
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.vocabulary import suggestion
from knowledge_sheaves.training.checkpoint import (
    asked_settings,
    checkpoint_beside,
    shards_beside,
)
from knowledge_sheaves.training.config import TrainingConfig
from knowledge_sheaves.training.room import COPIES, NUMBER_BYTES, machine_bytes
from knowledge_sheaves.training.settings import configs
from knowledge_sheaves.training.trainer import Run

RECIPES: dict[str, float | None] = {"quick": 2.0, "good": 20.0, "best": None}
"""Minutes by name; those of `best` are for the user to say."""
QUICK = "quick"

WIDTHS = ((64, 512), (128, 1024), (256, 2048), (512, 4096))
"""Numbers in an entity's vector and candidates of a batch: the steps of the rule."""
ENOUGH_STEPS, ENOUGH_EPOCHS = 2500, 3
"""What must fit into two minutes before a model is made wider; with more time, more of both."""
MOST = 100
"""Epochs after which more never helped."""
OWN = {"model", "name", "loss", "optimiser"}
"""Whoever chooses one of these has the usual steps: ours were found with the model of the rule."""
SPARSE = 3
"""Graphs with fewer facts an entity than this are learned by larger steps."""
VALIDATION = 0.15
"""The share of the time that is left to validation."""


class Size(NamedTuple):
    """What the rule knows of a graph."""

    entities: int
    relations: int
    triples: int


@dataclass(frozen=True)
class Plan:
    """A model, its training, and the seconds that a recipe means it to take.

    >>> data = Dataset(KnowledgeGraph.from_triples([("a", "next", "b"), ("b", "next", "c")]))
    >>> print(plan(data, QUICK, {"dim": 32}, speed=1e9))
    complex, 32 dimensions, all entities as candidates, batches of 512, N3 0.002, at most \
100 epochs: less than a minute
    """

    model: SheafConfig
    training: TrainingConfig
    seconds: float | None = None

    def __str__(self) -> str:
        if self.seconds is None:
            return f"{self.model.name}, {self.model.dim} dimensions"
        how = self.training
        many = "all entities as" if how.negatives is None else f"{how.negatives:,}"
        return (
            f"{self.model.name}, {self.model.dim} dimensions, {many} candidates, batches of "
            f"{how.batch_size:,}, N3 {how.n3:g}, at most {how.epochs} "
            f"epoch{'s' * (how.epochs > 1)}: {_about(self.seconds)}"
        )


def settle(
    dataset: Dataset,
    given: Mapping[str, Any],
    recipe: str | None = None,
    *,
    resumed: str | Path | None = None,
    sharded: bool = False,
) -> Plan:
    """What to train, by what the user says: a recipe, a model with its options, or neither.

    A run that is ``resumed`` goes on with the settings that it had: by now the machine may be
    faster or slower. One that is ``sharded`` has its checkpoint in a folder.
    """
    if resumed is not None:
        beside = shards_beside if sharded else checkpoint_beside
        before = asked_settings(beside(Path(resumed)))
        if "model" in given:
            before = {name: before[name] for name in TrainingConfig.names() if name in before}
        return Plan(*configs(before | dict(given)))
    if recipe is None and "model" in given:
        return Plan(*configs(given))
    return plan(dataset, recipe or QUICK, given)


def plan(
    dataset: Dataset,
    recipe: str = QUICK,
    given: Mapping[str, Any] | None = None,
    *,
    speed: float | None = None,
) -> Plan:
    """Choose settings for a data set; those that are ``given`` by name win.

    ``speed`` is that of the machine (`machine_speed`), which is measured if it is not given.
    """
    given = dict(given or {})
    asked = configs(given)[1]  # what cannot be is refused before anything is measured
    minutes = asked.minutes or _minutes(recipe)
    graph = dataset.train
    size = Size(graph.num_entities, len(graph.schema.relations), graph.num_triples)
    held_out = dataset.valid is not None and dataset.valid.num_triples > 0
    runs = 2 if asked.refit and dataset.drawn and held_out else 1
    speed = speed or machine_speed(asked.threads, asked.device)
    seconds = 60 * minutes / runs
    chosen = settings_for(size, seconds, speed, (machine_bytes() or math.inf) / 2)
    if "model" in given or "name" in given:  # what suits one model does not suit all
        del chosen["dim"]
        if configs(given)[0].energy.bounded:
            del chosen["n3"]
    if OWN & given.keys():
        del chosen["learning_rate"]
    if OWN & given.keys() or len(graph.schema.types) > 1:
        # Between several types relations are told from one another pair by pair, which is slow.
        chosen.pop("relation_weight", None)
    if "epochs" in given and "minutes" not in given:
        chosen["minutes"] = None  # whoever counts epochs does not mean minutes
    else:
        given.pop("minutes", None)
        chosen["minutes"] = minutes / runs
    model, training = configs(chosen | given)
    pace = epoch_seconds(size, model, training, speed) / (1 - VALIDATION)
    if "epochs" not in given:
        training = replace(training, epochs=_epochs(seconds, pace))
    planned = training.epochs * pace
    if training.minutes is not None and training.epochs > 1:
        planned = min(planned, 60 * training.minutes)  # then the clock ends it
    return Plan(model, training, runs * planned)


def settings_for(
    size: Size, seconds: float, speed: float, room: float = math.inf
) -> dict[str, Any]:
    """The rule: settings by name that suit a graph of this size and the time of one run.

    Longer runs are spent on both, more steps and a wider model, which must fit into ``room`` bytes.

    >>> quick, good = (settings_for(Size(20_000, 50, 200_000), s, speed=1e10) for s in (120, 1200))
    >>> quick["dim"], quick["negatives"], good["dim"], good["negatives"]
    (128, 1024, 256, 2048)
    """
    settings: dict[str, Any] = {}
    for dim, candidates in WIDTHS:
        wider = _settings(size, dim, candidates)
        model, training = configs(wider)
        epochs = seconds / epoch_seconds(size, model, training, speed)
        steps = epochs * _steps(size, model, training)
        enough = steps >= ENOUGH_STEPS * math.sqrt(seconds / 120) and epochs >= ENOUGH_EPOCHS
        needed = (size.entities + 2 * size.relations) * dim * COPIES * NUMBER_BYTES
        if settings and not (enough and needed <= room):
            break
        settings = wider
    return settings


def _settings(size: Size, dim: int, candidates: int) -> dict[str, Any]:
    full = size.entities <= 2 * candidates
    # The more entities there are to tell apart, the larger is the loss that this stands beside.
    usual = 0.01 * (size.entities / 100) ** (1 / 3)
    # An entity with few facts is seldom met, and has to come far every time.
    step = 0.25 if size.triples < SPARSE * size.entities else 0.1
    chosen: dict[str, Any] = {
        "negatives": candidates,
        "n3": min(0.05, usual),
        "learning_rate": step,
    }
    if full:  # few entities have many facts each, and all are in every step: less holds them back
        chosen = {"negatives": None, "n3": 0.7 * usual, "learning_rate": 0.15}
        chosen["relation_weight"] = 0.3
    return {
        "model": "complex",
        "dim": dim,
        "batch_size": 512,
        "weigh_negatives": True,
        "validation_triples": 2000,
        **chosen,
        "n3": round(chosen["n3"], 3),
    }


def _steps(size: Size, model: SheafConfig, training: TrainingConfig) -> int:
    """How many steps an epoch has."""
    facts = size.triples * (2 if model.reciprocal else 1)
    return max(1, -(-facts // training.batch_size))


def epoch_seconds(size: Size, model: SheafConfig, training: TrainingConfig, speed: float) -> float:
    """About how long an epoch takes on a machine of that speed, without validation.

    Half of a step is the product of facts and candidates, and the rest is spent on the rows that
    take part: reading, adding up gradients, writing (`bench/training.py` has the shares).

    >>> model, training = configs({"dim": 128, "batch_size": 512, "negatives": 1024})
    >>> size = Size(entities=63_361, relations=400, triples=228_426)
    >>> round(epoch_seconds(size, model, training, speed=13e9), 1)
    16.0
    """
    steps, facts = _steps(size, model, training), size.triples * (2 if model.reciprocal else 1)
    batch = min(training.batch_size, max(1, facts))
    drawn = size.entities if training.negatives is None else batch + training.negatives
    shared = min(size.entities, drawn)
    compared = batch * shared + ROW * (batch + shared)
    if training.relation_weight:
        relations = size.relations * (2 if model.reciprocal else 1)
        compared += batch * relations + ROW * (batch + relations)
    return steps * (compared * model.dim * model.sections + STEP) / speed


ROUNDS = 3
ROW, STEP = 350, 4e7
"""Operations for every number of a row, and for every step, that cost as much as multiplying."""


@cache
def machine_speed(threads: int | None = None, device: str = "cpu") -> float:
    """Operations of `epoch_seconds` that this machine does in a second; takes half a second."""
    rng = np.random.default_rng(0)
    columns = (rng.integers(0, high, 8 * 512) for high in (5000, 10, 5000))
    graph = KnowledgeGraph.from_arrays(
        *columns, schema=Schema.single([f"r{n}" for n in range(10)]), num_entities=5000
    )
    shape = {"dim": 128, "batch_size": 512, "negatives": 1024, "n3": 0.05}
    model, training = configs(shape | {"threads": threads, "device": device})
    state = torch.get_rng_state()
    run = Run(Dataset(graph), model, training, None, None)
    run.pass_over(0)  # the first steps are slower
    started = time.perf_counter()
    for epoch in range(1, ROUNDS + 1):
        run.pass_over(epoch)
    seconds = (time.perf_counter() - started) / ROUNDS
    torch.set_rng_state(state)
    size = Size(graph.num_entities, 10, graph.num_triples)
    return epoch_seconds(size, model, training, 1.0) / seconds


def _minutes(recipe: str) -> float:
    if recipe not in RECIPES:
        near = suggestion(recipe, list(RECIPES)) or "."
        raise InputError(f"There is no recipe {recipe!r}{near} Known are {', '.join(RECIPES)}.")
    minutes = RECIPES[recipe]
    if minutes is None:
        raise InputError(f"The recipe {recipe} takes the time that you give it: say minutes.")
    return minutes


def _epochs(seconds: float, pace: float) -> int:
    return max(1, min(MOST, round(seconds / pace)))


def _about(seconds: float) -> str:
    minutes = seconds / 60
    if minutes < 1:
        return "less than a minute"
    return f"about {minutes:.0f} minute{'s' if round(minutes) > 1 else ''}"

"""What is run on another device, each beside the same on the CPU; a program of its own.

python tests/device_cases.py training    prints, as JSON, what went wrong with each case
"""

from __future__ import annotations

import copy
import itertools
import json
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from config_cases import BY_GRAM, made
from knowledge_sheaves.embedding import SheafConfig, SheafEmbedding, model_config
from knowledge_sheaves.embedding.energies import ENERGIES
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import EntityType, KnowledgeGraph, Relation, Schema
from knowledge_sheaves.graph.classes import Classes
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.query import Options, Query, Wanted, answer
from knowledge_sheaves.query.solvers.harmonic import descent
from knowledge_sheaves.ranking import fit_temperature, rank_triples
from knowledge_sheaves.training import Progress, TrainingConfig, train
from knowledge_sheaves.training.batches import Batches
from knowledge_sheaves.training.losses import LOSSES
from knowledge_sheaves.training.objective import Objective
from knowledge_sheaves.training.optimisers import OPTIMISERS
from matrix_cases import FEATURES, make_model
from other_device import NAME

REGULARISED = {"n3": 0.1, "l2": 0.1, "section_weight": 0.1}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "candidates": [
        REGULARISED,
        {"negatives": None, "dropout": 0.5},
        {"weigh_negatives": True, "relation_weight": 0.5},
        {"filter_negatives": True},
    ],
    "corrupted": [
        REGULARISED,
        {"filter_negatives": True},
        {"corrupt": "vertex", "subgraph": 2},
        {"corrupt": "relation"},
        {"sampling": "bernoulli"},
    ],
    "nothing": [REGULARISED],
}
RUNS: list[dict[str, Any]] = [{}, {"optimiser": "adam"}, {"averaging": 1.0}, {"normalise": True}]
ENERGY_OPTIONS: dict[str, dict[str, Any]] = {
    "square": {"biases": True},
    "power": {"power": 1},
    "norm": {"norm": 1, "power": 1, "clamp": 0.8},
    "lifted": {"lifted": True, "biases": True},
    "torus": {"space": "torus"},
    "hyperbolic": {"space": "hyperbolic", "biases": True},
    "layers": {"space": "layers"},
}


def single() -> KnowledgeGraph:
    rows = np.random.default_rng(0).integers(0, [12, 3, 12], size=(40, 3))
    return KnowledgeGraph.from_arrays(*rows.T, schema=Schema.single(["r", "s", "t"]))


def typed() -> KnowledgeGraph:
    """Two types of different width, and a relation of two parts."""
    schema = Schema(
        [EntityType("Person", 4), EntityType("Film", 2)],
        [
            Relation("friends", "Person", "Person", symmetric=True),
            Relation("likes", "Person", "Film"),
            Relation("likes", "Person", "Person"),
        ],
    )
    rows = np.array([(0, 0, 1), (1, 0, 2), (0, 1, 5), (2, 1, 6), (3, 2, 1), (4, 2, 0), (1, 1, 7)])
    types = [0] * 5 + [1] * 3
    return KnowledgeGraph.from_arrays(*rows.T, schema=schema, entity_types=types)


def classed() -> KnowledgeGraph:
    """Two classes below a third, each with relations that are about it."""
    graph = single()
    types = {name: ["X", "Y", "Z"][int(name) % 3] for name in graph.entities}
    classes = Classes.of(
        list(graph.entities),
        types,
        subclass_of={"X": "Z", "Y": "Z"},
        heads={"r": ("X", "Y"), "s": ("X",)},
        tails={"s": ("Y",), "t": ("Z",)},
    )
    return graph.shared(classes)


def step(graph: KnowledgeGraph, config: SheafConfig, device: str, **options: Any) -> list[Any]:
    """The losses of a few steps, and the gradients of the first."""
    training = TrainingConfig(batch_size=8, **{"negatives": 4} | options)
    model = made(config, graph).to(device)
    objective = Objective(model, graph, training)
    learned = [p for p in model.parameters() if p.numel()]
    optimiser = OPTIMISERS[training.optimiser](learned, lr=1e-3)
    losses, gradients = [], []
    for batch in itertools.islice(Batches(model, graph, training).epoch(0), 3):
        optimiser.zero_grad()
        loss = objective(batch)
        loss.backward()
        gradients += [p.grad.to_dense().cpu() for p in learned if p.grad is not None]
        optimiser.step()
        losses.append(loss.item())
    return [losses, *gradients[: len(learned)]]


@torch.no_grad()
def ranking(graph: KnowledgeGraph, config: SheafConfig, device: str) -> list[Any]:
    """Scores, ranks, and the temperature that fits them."""
    model = made(config, graph).to(device)
    ids = torch.arange(graph.num_relations)
    found = rank_triples(model, graph.triples, [graph])
    assert found.head is not None
    assert found.tail is not None
    return [
        model.scores(graph.triples).cpu(),
        model.score_tails(ids, ids).cpu(),
        model.score_relations(ids, ids + 1).cpu(),
        torch.from_numpy(found.head.realistic),
        torch.from_numpy(found.tail.realistic),
        fit_temperature(model, graph, graph.with_triples(graph.triples[::2])),
    ]


def whole_run(device: str, **options: Any) -> list[Any]:
    """`train` with validation, broken off and resumed from its checkpoint."""
    graph = single()
    held_out = graph.with_triples(graph.triples[::3])
    data = Dataset(graph.with_triples(graph.triples[1::3]), held_out)
    config = model_config("complex", dim=4)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "model"
        given = {"batch_size": 8, "negatives": 4, "patience": 9, **options}
        settings = TrainingConfig(epochs=3, device=device, **given)
        with suppress(InterruptedError):
            train(data, config, settings, out=out, on_progress=_stop)
        model = train(data, config, settings, out=out, resume=True)
        loaded = SheafEmbedding.load(out)
    assert model.device.type == "cpu"
    return [p.detach() for p in loaded.parameters()]


def _stop(progress: Progress) -> None:
    if progress.epoch == 1:
        raise InterruptedError


def cases() -> Iterator[tuple[str, Callable[[str], list[Any]]]]:
    plain = model_config("complex", dim=4, sections=2)
    for loss, kind in LOSSES.items():
        for options in OPTIONS[kind.against]:
            name = " ".join(options)
            yield (
                f"step {loss} {name}",
                lambda d, o=options, k=loss: step(single(), plain, d, loss=k, **o),
            )
    assert set(ENERGY_OPTIONS) == set(ENERGIES)
    for energy, options in ENERGY_OPTIONS.items():
        for maps in BY_GRAM:
            try:
                config = SheafConfig(dim=4, **maps | options)
            except InputError:  # refused when it is made
                continue
            name = f"{energy} {maps['head']} {maps['tail']}"
            yield f"ranking {name}", lambda d, c=config: ranking(single(), c, d)
            yield f"step {name}", lambda d, c=config: step(single(), c, d)
    for model in ("se", "translational", "rescal", "se-orthogonal", "transr"):
        config = model_config(model, dim=4)
        yield f"ranking typed {model}", lambda d, c=config: ranking(typed(), c, d)
        yield f"step typed {model}", lambda d, c=config: step(typed(), c, d, relation_weight=1.0)
    for model in ("rescal", "translational"):
        config = model_config(model, dim=4, block=2, type_dim=2)
        yield f"ranking classes {model}", lambda d, c=config: ranking(classed(), c, d)
        yield f"step classes {model}", lambda d, c=config: step(classed(), c, d)
    for model in ("transh", "quate", "nage", "ote", "refe", "mure"):
        config = model_config(model)
        yield f"step {model}", lambda d, c=config: step(single(), c, d)
    for options in RUNS:
        yield f"run {' '.join(options)}", lambda d, o=options: whole_run(d, **o)


def answers(model: SheafEmbedding, query: Query, told: dict[str, Any], device: str) -> list[Any]:
    """The best answers of a query with their reasons, or the sentence of a refusal."""
    there = copy.deepcopy(model).to(device)
    wanted = Wanted(top=4, deny=frozenset({3}), only_new=len(query.targets) > 1)
    try:
        (found,) = answer(there, query, Options(**told), wanted, explain=2)
    except InputError as error:
        return [str(error)]
    assert {found.ids.device.type, found.energies.device.type} == {"cpu"}
    assert found.explanation is not None
    reasons = [leaf for each in found.explanation for leaf in tree_leaves(each.to_dict())]
    return [found.energies, found.probabilities, *reasons, *found.notes]


def answer_cases() -> Iterator[tuple[str, Callable[[str], list[Any]]]]:
    """Every feature of a query by every solver, on models of every energy."""
    torus = made(model_config("toruse", dim=3, biases=True), make_model("lifted").graph)
    soft = {"solver": "chaining", "tau": 0.7, "softness": 0.5, "k": 2}
    ways: list[tuple[SheafEmbedding, dict[str, Any]]] = [
        (make_model("translation, biases"), {"solver": "naive"}),
        (make_model("translation, biases"), {"solver": "harmonic", "tau": 0.7}),
        (make_model("lifted"), {"solver": "harmonic", "tau": 0.7, "lift": "sphere"}),
        (make_model("lifted"), soft),
        (make_model("typed"), {"solver": "harmonic", "tau": 0.7, "strength": 0.5}),
        (make_model("typed"), {"solver": "chaining", "objective": "energy"}),
        (torus, {"solver": "harmonic", "tau": 0.7}),
    ]
    for (model, options), (feature, query) in itertools.product(ways, FEATURES.items()):
        name = " ".join(map(str, [model.config.name, *options.values()]))
        yield f"{name}: {feature}", lambda d, m=model, q=query, o=options: answers(m, q, o, d)
    large = made(model_config("complex", dim=4), crowd())
    for solver, space in itertools.product(("harmonic", "chaining"), ("hyperbolic", "layers")):
        config = model_config("unstructured", dim=3, space=space)
        valued = made(config, make_model("lifted").graph)
        told = {"solver": solver, "tau": 0.7}
        yield (
            f"{space}, {solver}",
            lambda d, m=valued, o=told: answers(m, FEATURES["a path"], o, d),
        )
    for solver in ("harmonic", "chaining"):
        yield (
            f"many entities, {solver}",
            lambda d, s=solver: answers(large, FEATURES["a path"], {"solver": s, "tau": 0.7}, d),
        )


def crowd() -> KnowledgeGraph:
    """So many entities that the best are looked for in blocks."""
    rows = np.random.default_rng(0).integers(0, [1500, 2, 1500], size=(4000, 3))
    return KnowledgeGraph.from_arrays(*rows.T, schema=Schema.single("rs"))


def problem(case: Callable[[str], list[Any]]) -> str:
    try:
        torch.manual_seed(0)
        expected = case("cpu")
        torch.manual_seed(0)
        found = case(NAME)
        words = [[each for each in parts if isinstance(each, str)] for parts in (found, expected)]
        assert words[0] == words[1]
        numbers = ([x for x in parts if not isinstance(x, str)] for parts in (found, expected))
        torch.testing.assert_close(*numbers, rtol=1e-3, atol=1e-3)
    except Exception:
        return traceback.format_exc(limit=-6)
    return ""


if __name__ == "__main__":
    descent.STEPS, descent.STARTS = 2, 2  # every operation on a device in Python takes long
    chosen = {"training": cases, "answers": answer_cases}[sys.argv[1]]
    print(json.dumps({name: problem(case) for name, case in chosen()}))

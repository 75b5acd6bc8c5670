"""What options leave open comes from the model: the same answers as with its values written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from knowledge_sheaves.embedding import ModelInfo, SheafEmbedding, model_config
from knowledge_sheaves.graph import KnowledgeGraph, Schema
from knowledge_sheaves.query import Options, sample_queries, scores

CALIBRATION = {
    "tau": 3.0,
    "query_tau": 0.2,
    "strength": 4.0,
    "k": 2,
    "kappa": 7.0,
    "softness": 0.5,
    "focus": 3.0,
}


@pytest.fixture(scope="module")
def model() -> SheafEmbedding:
    rows = np.random.default_rng(0).integers(0, [20, 3, 20], size=(80, 3))
    schema = Schema.single(["r", "s", "t"])
    graph = KnowledgeGraph.from_arrays(*rows.T, schema=schema, num_entities=20)
    model = SheafEmbedding(model_config("transe", dim=8), graph, seed=1)
    model.info = ModelInfo(calibration=dict(CALIBRATION))
    return model


def test_what_is_given_wins_over_the_calibration_and_that_over_the_defaults(
    model: SheafEmbedding,
) -> None:
    given = Options("harmonic", k=9, tau=1.5)
    found = given.start(model).settings
    assert (found.tau, found.strength, found.kappa) == (1.5, 4.0, 7.0)
    assert given.but(solver="chaining").start(model).settings.k == 9
    assert Options().start(model).settings.tau == 0.2
    bare = SheafEmbedding(model_config("transe", dim=8), model.graph)
    plain = Options().start(bare)
    assert (plain.settings.kappa, plain.settings.k, plain.settings.tau) == (1.0, 64, 1.0)
    assert Options("harmonic").start(bare).settings.strength == 0.0
    bare.info = ModelInfo(calibration={"tau": 3.0})  # of facts, for want of one of queries
    assert Options().start(bare).settings.tau == 3.0


@pytest.mark.parametrize(
    ("solver", "shape", "matters"),
    [
        ("harmonic", "2p", "strength"),
        ("harmonic", "up", "tau"),
        ("harmonic", "2in", "kappa"),
        ("chaining", "2p", "k"),
        ("chaining", "2p", "softness"),
        ("chaining", "2p", "focus"),
        ("chaining", "pin", "kappa"),
        ("chaining", "ip", "tau"),
    ],
)
def test_solvers_go_by_the_calibration(
    model: SheafEmbedding, solver: str, shape: str, matters: str
) -> None:
    larger = model.graph.with_triples(
        np.concatenate([model.graph.triples, [[i, i % 3, (7 * i) % 20] for i in range(20)]])
    )
    queries = sample_queries(model.graph, larger, shape, 5).queries
    found, _ = scores(model, queries, Options(solver))
    written = Options(solver, strength=4.0, kappa=7.0, k=2, softness=0.5, focus=3.0, tau=0.2)
    assert torch.equal(found, scores(model, queries, written)[0])
    default = {"strength": 0.0, "kappa": 1.0, "k": 64, "softness": 0.0, "focus": 1.0, "tau": 1.0}[
        matters
    ]
    other, _ = scores(model, queries, Options(solver, **{matters: default}))  # type: ignore[arg-type]
    assert not torch.equal(found, other)

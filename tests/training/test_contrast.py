"""Training on pairs of subgraphs and on what is known to be false."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import knowledge_sheaves as ks
from knowledge_sheaves.embedding import (
    Pairs,
    SheafEmbedding,
    Subgraphs,
    gapped_pairs,
    model_config,
    worst_edge,
)
from knowledge_sheaves.embedding.subgraphs import HasEnergies
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.training import TrainingConfig, train
from knowledge_sheaves.training.batches import Batches
from knowledge_sheaves.training.contrast import Contrast
from knowledge_sheaves.training.objective import Objective

FACTS = [(f"p{i}", "likes", f"f{j}") for i in range(6) for j in range(6) if (i + j) % 2 == 0] + [
    (f"p{i}", "knows", f"p{(i + 1) % 6}") for i in range(6)
]
FALSE = [("p0", "likes", "f1"), ("p1", "likes", "f2"), ("p3", "knows", "p0")]
GRAPH = KnowledgeGraph.from_triples(FACTS)
SHAPES = [  # a path against a path, a fact against a star, nothing against a fact
    (
        [("p0", "knows", "p1"), ("p1", "likes", "f1")],
        [("p0", "knows", "p2"), ("p2", "likes", "f1")],
    ),
    (
        [("p2", "likes", "f0")],
        [("p2", "likes", "f1"), ("p2", "likes", "f3"), ("p2", "likes", "f5")],
    ),
    ([], [("p4", "knows", "p1")]),
]


def dense_cost(loss: str, low: list[float], high: list[float], of: list[int], gamma: float) -> Any:
    """The mean over pairs (or over true subgraphs), written out."""
    if loss == "margin":
        return np.mean([max(0.0, low[i] + gamma - v) for i, v in zip(of, high, strict=True)])
    costs = []
    for i, mine in enumerate(low):
        others = [v for j, v in zip(of, high, strict=True) if j == i]
        costs.append(mine + np.log(sum(np.exp(-v) for v in [mine, *others])))
    return np.mean(costs)


@pytest.mark.parametrize("loss", ["margin", "softmax"])
@pytest.mark.parametrize("worst", [False, True])
def test_the_loss_on_pairs_is_its_definition(loss: str, worst: bool) -> None:
    model = SheafEmbedding(model_config("se", dim=4, reciprocal=False), GRAPH).double()
    pairs = Pairs.by_name(GRAPH, SHAPES) + Pairs.by_name(GRAPH, SHAPES[:1])
    pairs = pairs._replace(of=np.array([0, 0, 2, 3]))  # two false ones for one, none for another
    config = TrainingConfig(loss=loss, world="open", batch_size=99, margin=0.7)
    given = {"scoring": worst_edge} if worst else {}
    contrast = Contrast(model, GRAPH, config, pairs, **given)  # type: ignore[arg-type]
    (batch,) = Batches(model, GRAPH, config, contrast=contrast).epoch(0)
    found = Objective(model, GRAPH, config, contrast.scoring)(batch)

    def value(part: Subgraphs) -> list[float]:
        reduce = (lambda v: max(v, default=0.0)) if worst else sum
        energies = model.energies(part.triples).tolist()
        owned = [
            [v for v, o in zip(energies, part.owner, strict=True) if o == i]
            for i in range(part.number)
        ]
        return [float(reduce(values)) for values in owned]

    wanted = dense_cost(loss, value(pairs.true), value(pairs.false), pairs.of.tolist(), 0.7)
    assert float(found.detach()) == pytest.approx(wanted)


@pytest.mark.parametrize("loss", ["margin", "softmax"])
@pytest.mark.parametrize("model", ["se", "complex"])
def test_pairs_of_any_shape_are_learned(loss: str, model: str) -> None:
    pairs = Pairs.by_name(GRAPH, SHAPES)
    config = TrainingConfig(loss=loss, world="open", epochs=60, n3=0.001)
    trained = train(Dataset(GRAPH), model_config(model, dim=8), config, pairs=pairs)
    gamma = 0.5 if loss == "margin" else 0.0
    assert gapped_pairs(trained, pairs, gamma)


def test_a_function_that_is_no_sum_is_learned_too() -> None:
    def harmonic_mean(model: HasEnergies, parts: Subgraphs) -> torch.Tensor:
        """Low as soon as one edge is: all edges of a false subgraph must be."""
        values = 1 / (model.energies(parts.triples) + 1e-3)
        return 1 / (parts.total(values) + 1e-6)

    pairs = Pairs.by_name(GRAPH, SHAPES[:2])
    config = TrainingConfig(loss="margin", world="open", epochs=80, margin=0.3)
    trained = train(
        Dataset(GRAPH), model_config("se", dim=8), config, pairs=pairs, scoring=harmonic_mean
    )
    assert gapped_pairs(trained, pairs, 0.2, harmonic_mean)


@pytest.mark.parametrize("world", ["closed", "local"])
@pytest.mark.parametrize("loss", ["margin", "softmax"])
def test_a_world_says_what_is_false(world: str, loss: str) -> None:
    config = TrainingConfig(loss=loss, world=world, epochs=60, negatives=None)
    trained = train(Dataset(GRAPH), model_config("complex", dim=16, init=0.1), config)
    false = np.array(
        list(GRAPH.encode([(h, r, f"f{i}") for h, r, _ in FACTS[:18] for i in range(6)]))
    )
    false = false[~GRAPH.contains(false)]
    with torch.no_grad():
        gaps = trained.scores(false).mean() - trained.scores(GRAPH.triples).mean()
    assert gaps > 0.5


def ask(model: ks.Model, text: str, **options: Any) -> set[str]:
    return {each.names[0] for each in model.answer(text, top=100, **options)}


def test_what_is_known_to_be_false_is_learned_and_never_answered(tmp_path: Path) -> None:
    file = tmp_path / "false.tsv"
    file.write_text("".join("\t".join(row) + "\n" for row in FALSE))
    options = {"dim": 16, "epochs": 30, "seed": 1}
    model = ks.train(GRAPH, false=file, out=tmp_path / "model", pair_weight=5.0, **options)
    plain = ks.train(GRAPH, **options)
    ids = GRAPH.encode(FALSE)
    with torch.no_grad():
        assert model.model.scores(ids).mean() > plain.model.scores(ids).mean()
    for asked in (model, ks.load(tmp_path / "model")):
        assert asked.facts.false.tolist() == sorted(np.asarray(ids).tolist())
        for solver in ("chaining", "harmonic"):
            assert "f1" not in ask(asked, "p0 likes ?x", solver=solver)
            assert "f2" in ask(asked, "p0 likes ?x", solver=solver)
            assert "p0" not in ask(asked, "?x likes f1", solver=solver)
            assert "p3" in ask(asked, "?x likes f1", solver=solver)
            joint = asked.answer("SELECT ?x ?y { ?x :knows ?y }", top=400, solver=solver)
            assert ("p3", "p0") not in {each.names for each in joint}
        assert "f1" not in {each.name for each in asked.predict("p0", "likes", top=99)}
        assert "p0" not in {each.name for each in asked.predict(None, "likes", "f1", top=99)}
        assert "likes" not in {each.name for each in asked.predict("p0", None, "f1", top=99)}
        assert not asked.decide("ASK { :p0 :likes :f1 }").holds
    assert "f1" in ask(plain, "p0 likes ?x")


def test_what_is_false_is_no_step_of_a_chain() -> None:
    """p3 knows p0 is false, so that nobody is reached through it."""
    graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("c", "s", "d"), ("b", "r", "a")])
    model = ks.train(graph, dim=4, epochs=1, false=[("a", "r", "c"), ("a", "r", "d")])
    found = model.answer("a r ?y . ?y s ?x", top=9, solver="chaining", explain=True)
    witnesses = {each.entities["?y"] for each in found.explanation}
    assert not witnesses & {"c", "d"}


def test_what_contradicts_itself_is_refused() -> None:
    with pytest.raises(InputError, match="said to be false"):
        ks.train(GRAPH, false=FACTS[:1], epochs=1)
    with pytest.raises(InputError, match="nobody"):
        ks.train(GRAPH, false=[("nobody", "likes", "f1")], epochs=1)
    with pytest.raises(InputError, match="world: open"):
        ks.train(GRAPH, world="open", epochs=1)
    with pytest.raises(InputError, match="compares facts with nothing"):
        ks.train(GRAPH, false=FALSE, loss="laplacian", epochs=1)

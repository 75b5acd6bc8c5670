"""Nothing is an answer about itself, unless the data show that it may be one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from knowledge_sheaves.embedding import SheafEmbedding, loops, model_config
from knowledge_sheaves.embedding.loops import ENOUGH, is_barred
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.interop.wrapper import to_pykeen
from knowledge_sheaves.query.asking import Asker
from knowledge_sheaves.query.options import Options
from knowledge_sheaves.ranking import Predictor


def ring(size: int, *more: tuple[str, str, str]) -> KnowledgeGraph:
    """Steps around a circle."""
    around = [(f"s{n}", "next", f"s{(n + 1) % size}") for n in range(size)]
    return KnowledgeGraph.from_triples([*around, *more])


def embed(graph: KnowledgeGraph, kind: str = "complex") -> SheafEmbedding:
    """A model that has learned nothing."""
    return SheafEmbedding(model_config(kind, dim=4), graph)


def barred(model: SheafEmbedding) -> list[bool]:
    """Whether s0 is ruled out as its own tail, and as its own head."""
    first, edge = torch.tensor([0]), torch.tensor([0])
    rows = model.score_tails(first, edge), model.score_heads(edge, first)
    return [bool(row[0, 0].isposinf()) for row in rows]


@pytest.mark.parametrize("kind", ["complex", "transe", "rotate"])
def test_enough_facts_without_a_loop_rule_loops_out(kind: str) -> None:
    assert barred(embed(ring(ENOUGH), kind)) == [True, True]
    assert barred(embed(ring(ENOUGH - 1), kind)) == [False, False]
    assert barred(embed(ring(ENOUGH, ("s3", "next", "s3")), kind)) == [False, False]


def test_types_change_nothing() -> None:
    graph = KnowledgeGraph.from_triples(
        [(f"a{n}", "r", f"a{n + 1}") for n in range(30)] + [("a0", "s", "b")],
        types={**{f"a{n}": "A" for n in range(31)}, "b": "B"},
    )
    assert barred(embed(graph)) == [True, True]


@pytest.mark.parametrize("solver", ["chaining", "harmonic", "naive"])
def test_no_solver_answers_with_what_was_asked_about(solver: str) -> None:
    model = embed(ring(30), "transe")
    asker = Asker(model, Options(solver))
    names = {answer.names[0] for answer in asker.answer("s7 next ?x", top=50)}
    assert names == {f"s{n}" for n in range(30)} - {"s7"}
    assert "s7" not in {answer.names[0] for answer in asker.answer("?x next s7", top=50)}


def test_predictions_and_pykeen_do_the_same() -> None:
    model = embed(ring(30))
    assert "s7" not in {p.name for p in Predictor(model).predict("s7", "next", top=50)}
    theirs = to_pykeen(model, None)
    first = torch.tensor([[0, 0]])
    assert theirs.predict_t(first)[0, 0].isneginf()
    assert theirs.predict_h(first)[0, 0].isneginf()


def test_a_loop_that_is_known_stays_known() -> None:
    from knowledge_sheaves.embedding import ModelInfo
    from knowledge_sheaves.graph.dataset import Dataset

    graph = ring(30)
    model = embed(graph)
    valid = graph.with_triples([("s7", "next", "s7"), ("s7", "next", "s9")])
    model.info = ModelInfo.of(Dataset(graph, valid=valid))
    best = Asker(model).answer("s7 next ?x", top=3)
    assert {answer.names[0] for answer in best} == {"s7", "s8", "s9"}
    assert str(Asker(model).decide("ASK { :s7 :next :s7 }")) == "yes: the facts hold it"
    verdict = Asker(model, Options(known="train")).decide("ASK { :s7 :next :s7 }")
    assert verdict.probability == 0
    assert str(verdict) == "no: no known fact relates something to itself by 'next'"


def test_all_facts_are_looked_at_for_loops_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = ring(30)
    rows = np.array([[0, 0, 1], [7, 0, 7]])
    assert is_barred(graph, rows).tolist() == [False, True]
    monkeypatch.setattr(loops, "irreflexive", None)
    assert is_barred(graph, rows[:1]).tolist() == [False]

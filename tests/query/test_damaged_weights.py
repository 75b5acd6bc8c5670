"""A weight that is no number is named where an answer meets it, and never ranked."""

from __future__ import annotations

import pytest
import torch

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query import Asker, Options
from knowledge_sheaves.ranking.prediction import Predictor

ROWS = [("a", "r", "b"), ("b", "s", "c"), ("c", "r", "d"), ("a", "s", "d")]
NAMED = r"weights are damaged \(\d+ of the \d+ numbers of 'entities\.tables\.0' (is|are) NaN"


@pytest.fixture(params=["complex", "transe", "rotate", "mure"])
def damaged(request: pytest.FixtureRequest) -> SheafEmbedding:
    model = SheafEmbedding(
        model_config(request.param, dim=4), KnowledgeGraph.from_triples(ROWS), seed=3
    )
    with torch.no_grad():
        model.entities.tables[0][model.graph.entities.id("d")] = torch.nan
    return model


@pytest.mark.parametrize("solver", ["chaining", "harmonic"])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?x { :a :r ?x }",
        "SELECT ?x { ?x :s :d }",
        "SELECT ?x { { :a :r ?x } UNION { :b :s ?x } }",
        "SELECT ?x { :a :r ?x FILTER NOT EXISTS { :b :s ?x } }",
    ],
)
def test_an_answer_does_not_hide_it(damaged: SheafEmbedding, text: str, solver: str) -> None:
    with pytest.raises(InputError, match=NAMED):
        Asker(damaged, Options(solver, tau=1.0)).answer(text, 1)


def test_nor_does_one_by_way_of_an_unknown(damaged: SheafEmbedding) -> None:
    with pytest.raises(InputError, match=NAMED):
        Asker(damaged, Options("harmonic", tau=1.0)).answer("SELECT ?x { :a :r/:s ?x }", 1)


@pytest.mark.parametrize(("head", "tail"), [("a", None), (None, "b"), ("a", "b"), ("a", "d")])
def test_nor_does_a_prediction(damaged: SheafEmbedding, head: str | None, tail: str | None) -> None:
    relation = None if head and tail else "r"
    with pytest.raises(InputError, match=NAMED):
        Predictor(damaged).predict(head, relation, tail)

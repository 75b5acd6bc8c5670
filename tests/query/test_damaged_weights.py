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


def make(name: str) -> SheafEmbedding:
    return SheafEmbedding(model_config(name, dim=4), KnowledgeGraph.from_triples(ROWS), seed=3)


def damage(model: SheafEmbedding, value: float) -> None:
    with torch.no_grad():
        model.entities.tables[0][model.graph.entities.id("d")] = value


@pytest.fixture(params=["complex", "transe", "rotate", "mure"])
def damaged(request: pytest.FixtureRequest) -> SheafEmbedding:
    model = make(request.param)
    damage(model, torch.nan)
    return model


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("name", ["complex", "transe"])
@pytest.mark.parametrize(
    "options",
    [
        Options("chaining", tau=1.0),
        Options("chaining", objective="energy"),
        Options("harmonic", tau=1.0),
        Options("harmonic", tau=1.0, strength=0.1),
        Options("naive"),
    ],
    ids=["chaining", "energy", "harmonic", "prior", "naive"],
)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?x { :a :r ?x }",
        "SELECT ?x { ?x :s :d }",
        "SELECT ?x { :a :r/:s ?x }",
        "SELECT ?x { :a :r/:s/:r ?x }",
        "SELECT ?x { :a :r ?y . ?y :s ?x . ?x :r ?y }",
        "SELECT ?x ?y { :a :r ?x . ?x :s ?y }",
        "SELECT ?x { { :a :r ?x } UNION { :b :s ?x } }",
        "SELECT ?x { :a :r ?x FILTER NOT EXISTS { :b :s ?x } }",
    ],
)
def test_an_answer_does_not_hide_it(name: str, value: float, text: str, options: Options) -> None:
    """Nor does one by way of an unknown, or of several targets; the sound model is no matter."""
    model = make(name)
    try:
        Asker(model, options).answer(text, 1)
    except InputError:
        pytest.skip("the solver takes no such query")
    damage(model, value)
    with pytest.raises(InputError, match=NAMED):
        Asker(model, options).answer(text, 1)


@pytest.mark.parametrize("solver", ["chaining", "harmonic"])
def test_numbers_too_large_to_be_compared_are_named_too(solver: str) -> None:
    model = make("transe")
    damage(model, 1e25)
    with pytest.raises(InputError, match="not a number, although its weights are"):
        Asker(model, Options(solver, tau=1.0)).answer("SELECT ?x { :d :r ?x }", 1)


def test_the_weights_of_a_relation_count_too() -> None:
    model = make("transe")
    assert model.translations is not None
    with torch.no_grad():
        model.translations[1] = torch.nan
    with pytest.raises(InputError, match="numbers of 'translations' are NaN"):
        Asker(model, Options("chaining", tau=1.0)).answer("SELECT ?x { :a :r/:s ?x }", 1)


@pytest.mark.parametrize(("head", "tail"), [("a", None), (None, "b"), ("a", "b"), ("a", "d")])
def test_nor_does_a_prediction(damaged: SheafEmbedding, head: str | None, tail: str | None) -> None:
    relation = None if head and tail else "r"
    with pytest.raises(InputError, match=NAMED):
        Predictor(damaged).predict(head, relation, tail)

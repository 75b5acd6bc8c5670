"""`sheaves density` prints what the library finds, of a model and of a question's unknowns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.embedding.density import density
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query import Query, completions
from knowledge_sheaves.sheaf import Ball

Sheaves = Callable[..., tuple[int, str, str]]
QUESTION = "a r ?y . ?y s ?x"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [("a", "r", "b"), ("b", "s", "c"), ("c", "r", "d"), ("d", "s", "a"), ("b", "r", "d")]
    graph = KnowledgeGraph.from_triples(rows, labels={"a": "Ann"})
    SheafEmbedding(model_config("transe", dim=2), graph, seed=3).save(tmp_path / "small")
    return tmp_path / "small"


def test_the_document_of_a_model(sheaves: Sheaves, folder: Path) -> None:
    code, out, _ = sheaves("density", folder, "--json")
    assert code == 0
    found = density(SheafEmbedding.load(folder))
    assert json.loads(out)["log_density"] == pytest.approx(found.log_density)
    code, out, _ = sheaves("density", folder)
    assert "log-density" in out
    assert "least likely" in out


def test_draws_are_nearest_to_entities_and_a_ball_has_a_probability(
    sheaves: Sheaves, folder: Path
) -> None:
    words = ("density", folder, QUESTION, "--answer", "c", "--near", "b", "--radius", 0.5)
    code, out, _ = sheaves(*words, "--json", "--samples", 4000)
    assert code == 0
    (unknown,) = json.loads(out)["unknowns"]
    model = SheafEmbedding.load(folder)
    rows = [("a", "r", "?y"), ("?y", "s", "?x")]
    found = completions(model, Query.from_triples(rows, "?x", model.graph), {"?x": "c"})
    ball = Ball(model.vector("b"), 0.5)
    assert unknown["near"]["probability"] == pytest.approx(
        float(found.probability("?y", ball).value)
    )
    assert unknown["deviation"] == pytest.approx(found.deviation("?y"))
    assert sum(row["share"] for row in unknown["entities"]) == pytest.approx(1.0)
    for row in unknown["entities"]:
        logs = found.log_density({"?y": model.vector(row["entity"])})
        assert row["log_density"] == pytest.approx(logs, abs=1e-4)
    draws = found.sample(4000)["?y"]
    inside = ((draws - ball.centre).norm(dim=1) <= 0.5).float().mean()
    assert unknown["near"]["probability"] == pytest.approx(float(inside), abs=0.03)


def test_the_best_answer_is_put_in_and_names_are_labels_too(sheaves: Sheaves, folder: Path) -> None:
    code, out, _ = sheaves("density", folder, QUESTION, "--near", "Ann")
    assert code == 0
    assert "?x" in out
    assert "?y within" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--near", "b"), "give one"),
        ((QUESTION, "--answer", "b", "--answer", "c"), "once for each"),
        ((QUESTION, "--answer", "nobody"), "nobody"),
        (("a r ?x",), "no unknown"),
    ],
)
def test_mistakes_are_one_sentence(
    sheaves: Sheaves, folder: Path, words: tuple[str, ...], message: str
) -> None:
    code, _, err = sheaves("density", folder, *words)
    assert code == 2
    assert message in err

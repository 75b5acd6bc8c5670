"""What `import knowledge_sheaves` offers: a dozen names, each with an example."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import knowledge_sheaves as ks
from knowledge_sheaves.ranking import Predictor

EPOCH = {"epochs": 1, "dim": 8}
FACTS = [("Ann", "knows", "Bob"), ("Bob", "likes", "Fargo"), ("Cy", "likes", "Fargo")]


def test_a_dozen_names_and_no_more() -> None:
    assert len(ks.__all__) == 12
    assert dir(ks) == sorted([*ks.__all__, "__version__"])
    with pytest.raises(AttributeError, match="no attribute 'Asker'"):
        _ = ks.Asker


@pytest.mark.parametrize("name", ks.__all__)
def test_each_name_is_itself_and_shows_an_example(name: str) -> None:
    there = getattr(ks, name)
    assert there.__name__ == name
    assert ">>> " in there.__doc__


@pytest.mark.parametrize(
    "program",
    [
        "import knowledge_sheaves as ks; ks.__version__, dir(ks)",
        "import knowledge_sheaves as ks; ks.KnowledgeGraph, ks.Schema, ks.SheafError",
        "import knowledge_sheaves as ks; ks.read('nations')",
        "import knowledge_sheaves.cli.app",
    ],
)
def test_what_needs_no_torch_does_not_import_it(program: str) -> None:
    check = f"import sys; {program}; assert 'torch' not in sys.modules, 'torch was imported'"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_was_trained_and_what_was_loaded_answer_alike(tmp_path: Path) -> None:
    trained = ks.train("nations", out=tmp_path / "model", **EPOCH)
    loaded = ks.load(tmp_path / "model")
    for model in (trained, loaded):
        assert isinstance(model, ks.Model)
    query = "usa embassy ?y . ?y negativecomm ?x"
    one, two = (model.answer(query, top=5, explain=True) for model in (trained, loaded))
    assert one.ids.equal(two.ids)
    assert list(map(str, one.explanation)) == list(map(str, two.explanation))
    assert trained.decide("ASK { :usa :embassy :uk }") == loaded.decide("ASK { :usa :embassy :uk }")
    assert trained.predict("usa", "embassy") == loaded.predict("usa", "embassy")
    assert trained.evaluate().to_dict() == loaded.evaluate().to_dict()
    assert trained.neighbours("usa", 2) == loaded.neighbours("usa", 2)
    assert loaded.describe()["data"]["name"] == "nations"
    loaded.save(tmp_path / "copy")
    assert repr(ks.load(tmp_path / "copy")) == repr(trained)


def test_all_of_a_graph_is_trained_on() -> None:
    graph = ks.KnowledgeGraph.from_triples(FACTS)
    model = ks.train(graph, **EPOCH)
    assert {name: part.num_triples for name, part in model.facts.splits.items()} == {"train": 3}
    with pytest.raises(ks.SheafError, match="no 'test' split"):
        model.evaluate()


def test_settings_may_be_objects_or_names() -> None:
    graph = ks.KnowledgeGraph.from_triples(FACTS)
    by_name = ks.train(graph, "rotate", dim=8, epochs=2, seed=3, negatives=None)
    training = ks.TrainingConfig(epochs=2, seed=3, negatives=None)
    objects = ks.train(graph, ks.model_config("rotate", dim=8), training)
    mixed = ks.train(graph, ks.model_config("rotate"), ks.TrainingConfig(epochs=2), dim=8, seed=3)
    assert by_name.embedding.config == objects.embedding.config == mixed.embedding.config
    assert by_name.describe()["training"]["negatives"] is None
    assert by_name.describe()["training"]["seed"] == mixed.describe()["training"]["seed"] == 3
    pairs = zip(by_name.embedding.parameters(), objects.embedding.parameters(), strict=True)
    assert all(torch.equal(one, two) for one, two in pairs)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"epoch": 3}, "There is no setting 'epoch'; did you mean 'epochs'"),
        ({"model": "zzzz"}, "There is no model 'zzzz'. Known are "),
        ({"model": "rotat"}, "There is no model 'rotat'; did you mean 'rotate'"),
        ({"model": ks.TrainingConfig()}, "training=TrainingConfig"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1"),
    ],
)
def test_a_wrong_setting_is_one_sentence(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(ks.SheafError, match=sentence):
        ks.train(ks.KnowledgeGraph.from_triples(FACTS), **settings)  # type: ignore[arg-type]


def test_options_are_the_defaults_of_questions(tmp_path: Path) -> None:
    ks.train(ks.KnowledgeGraph.from_triples(FACTS), **EPOCH).save(tmp_path / "model")
    model = ks.load(tmp_path / "model", ks.Options(facts="ignored"))
    query = ks.Query.from_triples([("Ann", "knows", "?x")], "?x", model.graph)
    remembered, ignored = ks.load(tmp_path / "model").answer(query), model.answer(query)
    assert remembered[0].names == ("Bob",)
    assert remembered[0].probability == 1
    assert all(answer.probability < 1 for answer in ignored)


def test_a_predictor_says_what_it_takes() -> None:
    model = ks.train(ks.KnowledgeGraph.from_triples(FACTS), **EPOCH)
    with pytest.raises(ks.SheafError, match="takes a SheafEmbedding"):
        Predictor(model)  # type: ignore[arg-type]
    assert Predictor(model.embedding).predict("Ann", "knows") == model.predict("Ann", "knows")

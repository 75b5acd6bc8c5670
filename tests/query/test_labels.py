"""People read labels: in answers, reasons, pictures, frames, JSON, errors and suggestions."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.embedding.consistency import consistency
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query.asking import Asker
from knowledge_sheaves.query.drawing import draw, plot
from knowledge_sheaves.query.options import Options
from knowledge_sheaves.query.results import select_json
from knowledge_sheaves.ranking import Predictor

FACTS = [
    ("D:1", "DaG", "G:1"),
    ("D:1", "DaG", "G:2"),
    ("D:2", "DaG", "G:2"),
    ("C:1", "CtD", "D:1"),
    ("C:1", "CcSE", "S:1"),
    ("C:2", "CcSE", "S:1"),
]
LABELS = {
    "D:1": "asthma",
    "D:2": "malaria",
    "S:1": "Asthma",
    "G:1": "IL13",
    "C:1": "Salbutamol",
}
RELATIONS = {"DaG": "associates", "CtD": "treats", "CcSE": "causes"}


def medicine(typed: bool = True) -> KnowledgeGraph:
    kinds = {"D": "Disease", "G": "Gene", "C": "Compound", "S": "Side Effect"}
    names = {name for head, _, tail in FACTS for name in (head, tail)}
    types = {name: kinds[name[0]] for name in names} if typed else None
    return KnowledgeGraph.from_triples(FACTS, types=types, labels=LABELS, relation_labels=RELATIONS)


def asker(typed: bool = True) -> Asker:
    return Asker(SheafEmbedding(model_config("complex", dim=4), medicine(typed)), Options(tau=1.0))


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize(
    "text", ["astma DaG ?x", 'SELECT ?x { "astma" :DaG ?x }', 'SELECT ?x { ?x ^:DaG "astma" }']
)
def test_what_can_stand_there_is_suggested_first(typed: bool, text: str) -> None:
    with pytest.raises(InputError) as error:
        asker(typed).read(text)
    assert "did you mean 'asthma' (D:1)" in str(error.value)
    with pytest.raises(InputError) as error:
        asker(typed).read("?x causes Astma")
    assert "did you mean 'Asthma' (S:1)" in str(error.value)


def test_suggestions_in_predictions_know_the_relation_too() -> None:
    predictor = Predictor(asker().model)
    with pytest.raises(InputError, match=r"did you mean 'asthma' \(D:1\) of type Disease or"):
        predictor.predict(head="astma", relation="DaG")
    with pytest.raises(InputError, match=r"did you mean 'associates' \(DaG\)\?"):
        predictor.predict(head="asthma", relation="asociates")


def test_of_two_with_one_label_the_one_is_meant_that_can_stand_there() -> None:
    graph = KnowledgeGraph.from_triples(
        FACTS,
        types={"D:1": "Disease", "D:2": "Disease", "S:1": "Side Effect", "G:1": "Gene"},
        labels=LABELS | {"S:1": "asthma"},
    )
    found = Asker(SheafEmbedding(model_config("complex", dim=4), graph)).read("asthma DaG ?x")
    assert found.query is not None
    assert graph.entities[int(found.query.patterns[0].edges[0].head)] == "D:1"


def test_a_label_in_other_capitals_is_meant_where_only_that_can_stand() -> None:
    graph = medicine()
    for text, name in (("Asthma DaG ?x", "D:1"), ("asthma DaG ?x", "D:1")):
        found = Asker(SheafEmbedding(model_config("complex", dim=4), graph)).read(text)
        assert found.query is not None
        assert graph.entities[int(found.query.patterns[0].edges[0].head)] == name
    untyped = asker(typed=False).read("Asthma DaG ?x").query
    assert untyped is not None
    assert medicine().entities[int(untyped.patterns[0].edges[0].head)] == "S:1", "as it is written"


def test_relations_are_asked_by_their_labels() -> None:
    model = asker()
    for text in ("Salbutamol treats ?x", "SELECT ?x { :Salbutamol :treats ?x }"):
        best = model.answer(text, top=1)[0]
        assert best.names == ("D:1",)
        assert best.labels == ("asthma",)


def test_reasons_are_words() -> None:
    model = asker()
    found = model.answer("Salbutamol treats ?y . ?y associates ?x", top=1, explain=True)
    assert found.explanation is not None
    assert str(found.explanation[0]) == (
        "Salbutamol treats asthma (known); asthma associates IL13 (known)"
    )
    denied = model.answer("?x treats asthma . not ?x treats malaria", top=1, explain=True)
    said = list((denied.explanation or ())[0].sentences())[-1]
    form = r"(against it: |it is unlikely that )\S+ treats malaria \(probability 0\.\d\d\)"
    assert re.fullmatch(form, said)


def test_names_without_labels_are_words_in_sentences() -> None:
    facts = [("http://x.org/a_b", "http://x.org/p#made_of", "http://x.org/c%20d")]
    model = Asker(
        SheafEmbedding(model_config("complex", dim=4), KnowledgeGraph.from_triples(facts)),
        Options(tau=1.0),
    )
    found = model.answer("http://x.org/a_b http://x.org/p#made_of ?x", 1, explain=True)
    assert str((found.explanation or ())[0]) == "a b made of c d (known)"


def test_trees_and_pictures_show_labels(tmp_path: Path) -> None:
    found = asker().answer("Salbutamol treats ?y . ?y associates ?x", top=1, explain=True)
    (explanation,) = found.explanation or ()
    tree = draw(explanation)
    plot(explanation, tmp_path / "why.svg")
    picture = (tmp_path / "why.svg").read_text()
    for label in ("IL13", "asthma", "Salbutamol", "associates", "treats"):
        assert label in tree
        assert f"<!-- {label}" in picture or f"= {label}" in picture
    assert "D:1" not in tree
    assert "DaG" not in tree


def test_json_has_the_id_beside_the_label() -> None:
    model = asker()
    found = model.answer("Salbutamol treats ?y . ?y associates ?x", top=1, explain=True)
    (binding,) = select_json(("?x",), found)["results"]["bindings"]
    assert binding["x"]["value"] == "G:1"
    assert binding["x label"]["value"] == "IL13"
    document = json.loads(json.dumps((found.explanation or ())[0].to_dict()))
    assert document["entities"] == {"?x": "G:1", "?y": "D:1"}
    assert document["labels"] == {"?x": "IL13", "?y": "asthma"}
    edge = document["edges"][0]
    assert (edge["head"], edge["head_label"]) == ("C:1", "Salbutamol")
    assert (edge["relation"], edge["relation_label"]) == ("CtD", "treats")
    assert document["sentences"][0] == "Salbutamol treats asthma (known)"


def test_a_variable_of_the_user_takes_no_name_of_ours() -> None:
    found = asker().answer("asthma DaG ?energy", top=1)
    (binding,) = select_json(("?energy",), found)["results"]["bindings"]
    assert binding["energy"]["value"] == "G:1"
    assert float(binding["_energy"]["value"]) == pytest.approx(found[0].energy)
    frame = found.to_polars()
    assert frame["energy"].to_list() == ["G:1"]
    assert frame["_energy"].to_list() == [pytest.approx(found[0].energy)]


def test_frames_have_labels() -> None:
    frame = asker().answer("asthma DaG ?x", top=2).to_polars()
    assert set(zip(frame["x"], frame["x label"], strict=True)) == {("G:1", "IL13"), ("G:2", None)}
    assert "IL13" in asker().answer("asthma DaG ?x", top=2)._repr_html_()


def test_clashes_of_types_speak_of_labels() -> None:
    with pytest.raises(InputError) as error:
        asker().read("IL13 associates ?x")
    assert str(error.value) == (
        "'associates' (DaG) goes from Disease to Gene, but 'IL13' (G:1) at its head is of type "
        "Gene."
    )
    with pytest.raises(InputError, match=r"^'Asthma' \(S:1\) is of type 'Side Effect' and cannot"):
        Predictor(asker().model).predict(head="Asthma", relation="treats")


def test_relations_that_may_hold_have_labels() -> None:
    found = Predictor(asker().model).predict(head="Salbutamol", tail="asthma")
    assert [(each.name, each.label) for each in found] == [("CtD", "treats")]


def test_discord_has_labels() -> None:
    found = consistency(asker(typed=False).model)
    assert {"treats", "causes", "associates"} == {each.label for each in found.relations}
    assert {"asthma", "IL13"} <= {each.label for each in found.regions}


def test_labels_survive_the_folder_of_a_model(tmp_path: Path) -> None:
    asker().model.save(tmp_path / "model")
    graph = SheafEmbedding.load(tmp_path / "model").graph
    assert {str(name): name.label for name in graph.schema.labelled_names} == RELATIONS
    written = json.loads((tmp_path / "model" / "schema.json").read_text())
    assert {each["name"]: each["label"] for each in written["relations"]} == RELATIONS

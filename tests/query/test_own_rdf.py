"""Questions to somebody's own RDF, in the words that they would use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from knowledge_sheaves.embedding import ModelInfo, SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.query.asking import Asker
from knowledge_sheaves.query.options import Options

FILMS = """\
@prefix f: <http://example.org/films/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
f:Director rdfs:label "director"@en ; rdfs:subClassOf f:Person .
f:Person rdfs:label "person"@en .
f:P1 rdfs:label "directed by" . f:P2 rdfs:label "genre" .
f:Q1 a f:Director ; rdfs:label "Ada Gruber" .
f:Q2 a f:Genre ; rdfs:label "children's film" .
f:Q3 a f:Film ; rdfs:label "The Last Train" ; f:P1 f:Q1 ; f:P2 f:Q2 ; f:year 1984 .
f:Q4 a f:Film ; rdfs:label "The Lost Road" ; f:P1 f:Q1 ; f:P2 f:Q2 .
"""


@pytest.fixture
def asker(tmp_path: Path) -> Asker:
    (tmp_path / "films.ttl").write_text(FILMS)
    data = load(tmp_path / "films.ttl", sizes=(1, 0, 0))
    model = SheafEmbedding(model_config("complex", dim=4), data.train)
    model.info = ModelInfo.of(data, calibration={"tau": 1.0})
    return Asker(model, Options(tau=1.0))


@pytest.mark.parametrize(
    "text",
    [
        "?x directed by Ada Gruber",
        '?x "directed by" "Ada Gruber"',
        "?x 'directed by' 'Ada Gruber'",
        "?x genre 'children's film' . ?x 'directed by' Ada Gruber",
    ],
)
def test_names_of_several_words_in_either_quotes_or_none(asker: Asker, text: str) -> None:
    known = [answer for answer in asker.answer(text) if answer.known]
    assert {each.labels[0] for each in known} == {"The Last Train", "The Lost Road"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("?x directed_by 'Ada Gruber'", "did you mean 'directed by' (http://example.org/films/P1)"),
        (
            "SELECT ?x { ?x a :Director . ?y <http://example.org/films/P1> ?x }",
            "Unknown type 'Director'; did you mean 'director' (http://example.org/films/Director)?",
        ),
        (
            "SELECT ?x { ?x <http://example.com/film/P1> ?y }",
            "There is no relation 'http://example.com/film/P1'; did you mean 'directed by' "
            "(http://example.org/films/P1)?",
        ),
        (
            "SELECT ?x { ?x <http://example.org/films/studio> ?y }",
            "There is no relation 'http://example.org/films/studio': the graph has 'directed by'",
        ),
        (
            "SELECT ?x { ?x <http://example.org/films/year> ?y }",
            "'http://example.org/films/year' gives values and no entities, so there is nothing to "
            "predict: ask for what the facts say with --facts-only",
        ),
    ],
)
def test_what_is_not_there_is_one_helpful_sentence(asker: Asker, text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        asker.answer(text)


@pytest.mark.parametrize("kind", ["http://example.org/films/Director", "director", "person"])
def test_types_are_asked_by_name_label_and_superclass(asker: Asker, kind: str) -> None:
    found = asker.answer("'The Last Train' 'directed by' ?x", type=kind)
    assert [each.labels[0] for each in found] == ["Ada Gruber"]

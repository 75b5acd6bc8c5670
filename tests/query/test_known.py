"""What the user gave is known to questions; what measures knows the facts of training alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from knowledge_sheaves.embedding import ModelInfo, SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph, Schema
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.model import Model
from knowledge_sheaves.query import Options, Query, scores
from knowledge_sheaves.query.solvers import SOLVERS
from knowledge_sheaves.ranking import rank_triples

TRAIN = [("Ann", "knows", "Bob"), ("Bob", "likes", "Fargo"), ("Cy", "likes", "Alien")]
VALID = [("Ann", "knows", "Cy"), ("Ann", "likes", "Fargo")]
TEST = [("Bob", "knows", "Cy"), ("Cy", "knows", "Cy")]


@pytest.fixture
def embedding() -> SheafEmbedding:
    """A model that learned nothing: whatever it is sure of stands in the facts."""
    train = KnowledgeGraph.from_triples(TRAIN)
    data = Dataset(train, train.with_triples(VALID), train.with_triples(TEST))
    model = SheafEmbedding(model_config("transe", dim=8), train, seed=3)
    model.info = ModelInfo.of(data, calibration={"tau": 1.0})
    return model


@pytest.fixture
def model(embedding: SheafEmbedding) -> Model:
    return Model(embedding)


def only_training(model: Model) -> Model:
    return Model(model.embedding, Options(known="train"))


@pytest.mark.parametrize("fact", [*TRAIN, *VALID, *TEST])
def test_ask_knows_every_fact_that_was_given(model: Model, fact: tuple[str, str, str]) -> None:
    head, relation, tail = fact
    question = f"ASK {{ :{head} :{relation} :{tail} }}"
    assert str(model.decide(question)) == "yes: the facts hold it"
    assert only_training(model).decide(question).known == (fact in TRAIN)


@pytest.mark.parametrize("solver", list(SOLVERS))
def test_new_answers_are_new(model: Model, solver: str) -> None:
    question = "SELECT ?x { :Ann :knows ?x }"
    found = model.answer(question, solver=solver, new=True)
    assert {answer.names[0] for answer in found}.isdisjoint({"Bob", "Cy"})
    known = {a.names[0] for a in model.answer(question, solver=solver) if a.known}
    assert known == {"Bob", "Cy"}
    fewer = only_training(model).answer(question, solver=solver, new=True)
    assert "Cy" in {answer.names[0] for answer in fewer}


def test_predictions_tell_what_is_known_and_agree_with_ask(model: Model) -> None:
    asked = {"head": "Ann", "relation": "knows"}
    splits = {each.name: each.known for each in model.predict(**asked)}
    assert (splits["Bob"], splits["Cy"], splits["Fargo"]) == ("train", "valid", None)
    assert {each.name for each in model.predict(**asked, new=True)}.isdisjoint({"Bob", "Cy"})
    fewer = only_training(model)
    assert {each.name: each.known for each in fewer.predict(**asked)}["Cy"] is None
    assert "Cy" in {each.name for each in fewer.predict(**asked, new=True)}
    assert [each.name for each in fewer.predict("Ann", None, "Cy", new=True)] != []
    assert "knows" not in [each.name for each in model.predict("Ann", None, "Cy", new=True)]
    # What counts as known does not change how likely the rest is.
    for either in (model, fewer):
        predicted = {each.name: each.probability for each in either.predict(**asked)}
        verdict = either.decide("ASK { :Ann :knows :Fargo }")
        assert verdict.probability == pytest.approx(predicted["Fargo"], rel=1e-4)


def test_what_the_facts_hold_is_denied_by_not_exists(model: Model) -> None:
    question = "SELECT ?x { ?x :likes :Fargo FILTER NOT EXISTS { :Ann :knows ?x } }"
    sure = {a.names[0]: a.probability for a in model.answer(question, top=9)}
    assert sure.get("Cy", 0.0) == 0.0
    assert {a.names[0]: a.probability for a in only_training(model).answer(question, top=9)}["Cy"]


def test_explanations_name_known_facts_of_all_splits(model: Model) -> None:
    found = model.answer("Ann knows ?y . ?y likes ?x", top=2, explain=True)
    said = dict(zip([a.names[0] for a in found], map(str, found.explanation or ()), strict=True))
    assert said["Alien"] == "Ann knows Cy (known); Cy likes Alien (known)"
    assert [answer.probability for answer in found] == [1.0, 1.0]
    loops = model.answer("?x where ?x knows ?x", top=1)
    assert (loops[0].names, loops[0].known, loops[0].probability) == (("Cy",), True, 1.0)


@pytest.mark.parametrize("solver", list(SOLVERS))
def test_what_is_measured_remembers_training_facts_only(
    embedding: SheafEmbedding, solver: str
) -> None:
    """Held-out answers must not be among what is remembered, or every benchmark would shine."""
    rows = [("Ann", "knows", "?y"), ("?y", "likes", "?x")]
    query = Query.from_triples(rows, "?x", embedding.graph)
    bare = SheafEmbedding(embedding.config, embedding.graph, seed=3)
    options = Options(solver, tau=1.0)
    expected = scores(bare, [query], options).energies
    torch.testing.assert_close(scores(embedding, [query], options).energies, expected)
    known = scores(embedding, [query], options.but(known="all"))
    if solver == "chaining":
        assert known.energies[0, embedding.graph.entities.id("Alien")] == 0.0


def test_facts_of_two_splits_count_once(embedding: SheafEmbedding) -> None:
    assert embedding.info is not None
    embedding.info.held_out["test"] = np.concatenate(list(embedding.info.held_out.values()))
    solver = Options().start(embedding)
    assert solver.facts.graph.num_triples == len(TRAIN) + len(VALID) + len(TEST)


def test_only_what_is_there_can_be_known(embedding: SheafEmbedding) -> None:
    with pytest.raises(InputError, match="known is one of all, train, not 'tset'"):
        Options(known="tset")
    assert Options(known="train").but(solver="naive").known == "train"
    assert Options(known="train") != Options()
    assert "known='train'" in repr(Options(known="train"))


@pytest.mark.parametrize("solver", list(SOLVERS))
def test_what_is_known_to_be_false_is_denied_and_called_so(
    embedding: SheafEmbedding, solver: str
) -> None:
    train = embedding.graph
    denied = [("Ann", "knows", "Fargo"), ("Bob", "likes", "Alien")]
    embedding.info = ModelInfo.of(Dataset(train).with_false(denied), calibration={"tau": 1.0})
    asked = Model(embedding)
    for head, relation, tail in denied:
        verdict = asked.decide(f"ASK {{ :{head} :{relation} :{tail} }}", solver=solver)
        assert str(verdict) == "no: it is known to be false"
        assert (verdict.holds, verdict.probability) == (False, 0)
        found = asked.answer(f"{head} {relation} ?x", top=9, solver=solver)
        assert tail not in {each.names[0] for each in found}
    other = asked.decide("ASK { :Ann :knows :Alien }", solver=solver)
    assert "false" not in str(other)


SAYS = {
    "child": {"inverse_of": "parent"},
    "married": {"symmetric": True},
    "father": {"subproperty_of": "parent"},
}
TOLD = [("Cy", "child", "Ann"), ("Dee", "parent", "Bob"), ("Ann", "married", "Bob")]
TOLD += [("Eve", "father", "Cy")]
FOLLOWS = [("Ann", "parent", "Cy"), ("Bob", "child", "Dee"), ("Bob", "married", "Ann")]
FOLLOWS += [("Eve", "parent", "Cy"), ("Cy", "child", "Eve")]


@pytest.fixture
def told() -> SheafEmbedding:
    """A model that learned nothing of a family; the last of its facts is held out."""
    schema = Schema.single(["parent", "child", "married", "father"]).saying(SAYS)
    whole = KnowledgeGraph.from_triples(TOLD, schema=schema)
    data = Dataset(whole.with_triples(TOLD[:-1]), whole.with_triples(TOLD[-1:]))
    model = SheafEmbedding(model_config("transe", dim=8), data.train, seed=3)
    model.info = ModelInfo.of(data, calibration={"tau": 1.0})
    return model


@pytest.mark.parametrize("fact", FOLLOWS)
def test_what_the_schema_makes_of_a_fact_is_known(
    told: SheafEmbedding, fact: tuple[str, str, str]
) -> None:
    head, relation, tail = fact
    model = Model(told)
    assert model.decide(f"ASK {{ :{head} :{relation} :{tail} }}").known
    new = model.answer(f"SELECT ?x {{ :{head} :{relation} ?x }}", new=True)
    assert tail not in {answer.names[0] for answer in new}
    split = "valid" if "Eve" in fact else "train"
    assert {e.name: e.known for e in model.predict(head, relation)}[tail] == split
    assert {e.name: e.known for e in model.predict(None, relation, tail)}[head] == split
    assert only_training(model).decide(f"ASK {{ :{head} :{relation} :{tail} }}").known == (
        split == "train"
    )


def test_what_does_not_follow_is_not_known(told: SheafEmbedding) -> None:
    model = Model(told)
    for head, relation, tail in [("Cy", "parent", "Ann"), ("Dee", "father", "Bob")]:
        assert not model.decide(f"ASK {{ :{head} :{relation} :{tail} }}").known


def test_ranks_leave_out_what_follows_from_facts(told: SheafEmbedding) -> None:
    """A fact that the schema gives away is no wrong answer that comes first."""
    train = told.graph
    rows = train.encode([("Ann", "parent", "Dee")])
    known = [train, train.with_triples(rows)]
    energies = torch.ones(1, train.num_entities)
    energies[0, train.entities.id("Cy")] = 0

    class CyFirst:
        def score_tails(self, heads: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            return energies.repeat(len(heads), 1)

        def score_heads(self, edges: torch.Tensor, tails: torch.Tensor) -> torch.Tensor:
            return energies.repeat(len(tails), 1)

    ranks = rank_triples(CyFirst(), rows, known, side="tail").tail
    assert ranks is not None
    assert ranks.optimistic.tolist() == [1]

"""What the probability of an answer to a larger question is made of."""

from __future__ import annotations

import math

import numpy as np
import pytest

from knowledge_sheaves.embedding import ModelInfo, SheafEmbedding, model_config
from knowledge_sheaves.evaluation.query_calibration import drawn_queries
from knowledge_sheaves.evaluation.trust import ask, unanswerable
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.query.facts.symbolic import answers
from knowledge_sheaves.query.language import read
from knowledge_sheaves.query.pattern import Query
from knowledge_sheaves.query.questions import (
    familiar,
    told,
)
from knowledge_sheaves.ranking.logistic import Logistic
from knowledge_sheaves.ranking.trust import (
    Record,
    Trust,
)


def test_relations_tell_how_well_their_missing_facts_are_found() -> None:
    graph = KnowledgeGraph.from_triples(
        [("a", "well", "b"), ("b", "badly", "c"), ("c", "new", "a")]
    )
    ranks = {"well": (1,) * 90 + (50,) * 10, "badly": (1,) * 10 + (50,) * 90}
    sides = {name: {"tail": each, "head": (50,) * 100} for name, each in ranks.items()}
    of_all = {"tail": (1,) * 100 + (50,) * 100, "head": (50,) * 200}
    records = {name: Record(100, ranks=each) for name, each in sides.items()}
    trust = Trust((), {}, Record(200, ranks=of_all), records)

    def asked(text: str) -> list[float]:
        query = read(text, graph).query
        assert isinstance(query, Query)
        return told(trust, graph.schema, query).tolist()

    first, ten, *others = asked("a well ?x")
    assert first == ten == pytest.approx(math.log((90 + 5) / (10 + 5)))  # ten at the usual share
    assert others == [0, 0], "there is no edge away from the target"
    at, _, away, _ = asked("a badly ?y . ?y well ?x")
    assert (at, away) == pytest.approx((first, -first))
    both, *_ = asked("a well ?x . b badly ?x")
    assert both == pytest.approx(0)
    assert asked("a new ?x") == [0, 0, 0, 0], "as usual, where nothing was held out"
    assert asked("?x well a")[0] == 0, "from the tail none was ever found"
    query = read("a well ?x", graph).query
    assert isinstance(query, Query)
    assert told(None, graph.schema, query).tolist() == [0, 0, 0, 0]


def test_an_answer_is_as_familiar_as_known_facts_have_it_at_the_places_asked_for() -> None:
    facts = [("a", "r", "x"), ("b", "r", "x"), ("c", "r", "x"), ("x", "s", "a"), ("a", "s", "b")]
    types = {"a": "Person", "b": "Robot", "c": "Person", "x": "Town"}  # "r" has two parts
    graph = KnowledgeGraph.from_triples(facts, types=types)

    def of(text: str, *answers: str) -> list[float]:
        query = read(text, graph).query
        assert isinstance(query, Query)
        ids = np.array([[graph.entities.id(name) for name in answer] for answer in answers])
        return familiar(graph, query, ids).tolist()

    one, two, four = (math.log(n) for n in (1, 2, 4))
    assert of("a r ?q", "x", "b") == pytest.approx([four, one])
    assert of("?q r x", "a", "x") == pytest.approx([two, one])
    # The mean over the edges at the target; those away from it say nothing.
    assert of("a r ?y . ?y s ?q . ?q r x", "a") == pytest.approx([two])
    assert of("a r ?q . ?q s a", "x") == pytest.approx([(four + two) / 2])
    both = "SELECT ?h ?t { ?h <r> ?t }"
    assert of(both, "ax", "xa") == pytest.approx([(two + four) / 2, one])


def test_of_a_column_that_does_not_vary_nothing_is_learned() -> None:
    rng = np.random.default_rng(0)
    score = rng.normal(size=9_000)
    right = rng.random(9_000) < 1 / (1 + np.exp(-score))
    found = Logistic.fit(np.column_stack([score, np.full(9_000, -0.3)]), right)
    assert found.weights[1] == pytest.approx(1, abs=0.1)
    assert found.weights[2] == pytest.approx(0, abs=1e-6)


def test_questions_without_an_answer_keep_types_and_are_learned_from() -> None:
    """What types rule out is no answer at all: nothing could be learned from that."""
    rng = np.random.default_rng(0)
    rows = [(f"p{n}", "lives in", f"t{int(rng.integers(8))}") for n in range(120)]
    rows += [(f"p{n}", "works as", f"j{int(rng.integers(8))}") for n in range(120)]
    rows += [(f"t{n}", "part of", f"c{n % 3}") for n in range(8)]
    kinds = {name: name[0] for row in rows for name in (row[0], row[2])}
    graph = KnowledgeGraph.from_triples(rows, types=kinds)
    order = rng.permutation(len(rows))
    known, valid = (graph.with_triples(graph.triples[part]) for part in np.split(order, [180]))
    data = Dataset(known, valid)
    model = SheafEmbedding(model_config("complex", dim=4), data.train)
    model.info = ModelInfo.of(data)
    groups = drawn_queries(model, 40, types=["2p", "2i", "pi", "2in"])
    found = unanswerable(model, groups)
    assert "2i" in {group.name for group in found}
    for group in found:
        assert not answers(graph, group.queries).counts.any()
        asked = ask(model, [group], None)
        assert len(set(asked.questions)) == len(group), "none is ruled out by types"
        assert not asked.examples.right.any()

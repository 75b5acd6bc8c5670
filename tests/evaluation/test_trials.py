"""Questions of which each is a trial by itself."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from knowledge_sheaves.embedding import ModelInfo, SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.evaluation import trials as drawing
from knowledge_sheaves.evaluation.betae import TypeQueries
from knowledge_sheaves.evaluation.query_calibration import drawn_queries
from knowledge_sheaves.evaluation.trials import trials
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.query.facts.symbolic import answers

ASKED = {"2p": 60, "2i": 60, "2u": 40, "2in": 20}


@pytest.fixture(scope="module")
def data() -> Dataset:
    return load("umls")


@pytest.fixture(scope="module")
def judge(data: Dataset) -> SheafEmbedding:
    model = SheafEmbedding(model_config("complex", dim=4), data.train)
    model.info = ModelInfo.of(data)
    return model


def wanted(group: TypeQueries) -> Counter[object]:
    """What questions ask for: the relations beside the target with its side, what is missing."""
    found: Counter[object] = Counter()
    for query, missing in zip(group.queries, group.hard, strict=True):
        (target,) = query.targets
        edges = [(edge, False) for pattern in query.patterns for edge in pattern.edges]
        inner = (part for pattern in query.patterns for part in pattern.without)
        edges += [(edge, True) for part in inner for edge in part.edges]
        beside = [(int(e.relation), e.head == target, no) for e, no in edges if target in e.terms]
        found[tuple(sorted(beside)), frozenset(missing.tolist())] += 1
    return found


def test_no_two_questions_miss_the_same_answers_by_the_same_relations(
    judge: SheafEmbedding,
) -> None:
    for group in trials(judge, ASKED):
        assert len(group) > 10
        assert len(group) <= ASKED[group.name]
        assert max(wanted(group).values()) == 1
        at_random = drawn_queries(judge, 120, types=[group.name], after_train=True)[0]
        assert max(wanted(at_random).values()) > 1, "or there was nothing to do"


def test_all_that_there_are_is_drawn_but_for_a_few(judge: SheafEmbedding) -> None:
    first, again = (trials(judge, {"2in": 9_000}, "test", seed)[0] for seed in (0, 1))
    assert 500 < len(first) < 9_000
    assert len(wanted(first).keys() & wanted(again).keys()) > 0.9 * len(first)


def test_few_that_are_asked_are_like_all_that_are_drawn(
    judge: SheafEmbedding, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked for most often is drawn first: the first ones are not like the others."""
    monkeypatch.setitem(drawing.DRAWN, "2p", 600)
    (every,) = trials(judge, {"2p": 600}, "test")
    (few,) = trials(judge, {"2p": 200}, "test")
    assert len(few) == 200
    assert wanted(few).keys() <= wanted(every).keys()
    (drawn_first,) = drawn_queries(
        *(judge, 600), split="test", types=["2p"], after_train=True, alike=drawing.trial
    )
    early = set(drawn_first.queries[:200])
    assert 30 < len(early & set(few.queries)) < 110, "about a third of them"


def test_types_that_nobody_knows_are_no_types_that_are_rare(judge: SheafEmbedding) -> None:
    with pytest.raises(InputError, match="foo"):
        trials(judge, {"foo": 3})


@pytest.mark.parametrize("split", ["valid", "test"])
def test_training_facts_are_known_and_those_of_one_split_are_missing(
    judge: SheafEmbedding, data: Dataset, split: str
) -> None:
    held_out = data.splits[split].triples
    both = data.train.with_triples(np.concatenate([data.train.triples, held_out]))
    for group in trials(judge, ASKED, split, seed=1):
        known = answers(data.train.closed, group.queries)
        missing = answers(both.closed, group.queries).minus(known)
        for place in range(len(group)):
            assert group.easy[place].tolist() == known[place].tolist()
            assert group.hard[place].tolist() == missing[place].tolist()
            assert len(missing[place])


def test_seeds_draw_other_questions(judge: SheafEmbedding) -> None:
    first, again, other = (trials(judge, {"2p": 30}, "test", seed)[0] for seed in (0, 0, 1))
    assert first.queries == again.queries
    assert first.queries != other.queries

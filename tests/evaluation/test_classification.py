"""Triple classification against definitions written out, and on verified negatives."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.embedding.loops import irreflexive
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.evaluation.classification import (
    Labelled,
    Thresholds,
    Verdicts,
    best_threshold,
    calibrated_energies,
    classify,
    known_names,
)
from knowledge_sheaves.graph import EntityType, KnowledgeGraph, Relation, Schema
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.graph.readers.negatives import read_negatives
from knowledge_sheaves.training import TrainingConfig, train

ENERGY = st.sampled_from([0.0, 1.0, 1.5, 2.0, 7.0, math.inf])


def right(energies: list[float], true: list[bool], threshold: float) -> int:
    return sum((e <= threshold) == t for e, t in zip(energies, true, strict=True))


@given(st.lists(st.tuples(ENERGY, st.booleans()), min_size=1, max_size=12))
def test_no_threshold_is_better(rows: list[tuple[float, bool]]) -> None:
    energies, true = [e for e, _ in rows], [t for _, t in rows]
    found = best_threshold(np.array(energies), np.array(true))
    best = max(right(energies, true, t) for t in [-math.inf, *energies])
    assert right(energies, true, found) == best


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=20))
def test_verdicts_are_those_of_the_definitions(rows: list[tuple[bool, bool]]) -> None:
    accepted, true = np.array(rows).T
    found = Verdicts.of(accepted, true)
    both = sum(a and t for a, t in rows)
    precision = both / sum(a for a, _ in rows) if accepted.any() else 0.0
    recall = both / sum(t for _, t in rows) if true.any() else 0.0
    assert found.accuracy == pytest.approx(sum(a == t for a, t in rows) / len(rows))
    assert (found.precision, found.recall) == pytest.approx((precision, recall))
    mean = 2 * precision * recall / (precision + recall) if both else 0.0
    assert found.f1 == pytest.approx(mean)


def labelled(relations: list[int], true: list[bool]) -> Labelled:
    triples = np.zeros((len(true), 3), np.int64)
    return Labelled(triples, np.array(relations), np.array(true))


def test_relations_with_few_triples_or_of_one_kind_go_by_the_threshold_of_all() -> None:
    energies = np.array([1.0, 2.0, 11.0, 12.0, 5.0, 6.0, 7.0, 3.0])
    given_ = labelled([0, 0, 1, 1, 2, 2, 2, 3], [True, False, True, False, True, True, True, False])
    found = Thresholds.fit(energies, given_, few=2)
    assert found.by_relation == {0: 1.5, 1: 11.5}  # all of 2 are true, and there is one of 3
    assert found.overall == best_threshold(energies, given_.true)
    assert found.accept(np.array([1.6, 1.6]), np.array([0, 1])).tolist() == [False, True]
    assert found.accept(np.array([9.0, 13.0]), np.array([2, 9])).tolist() == [True, False]
    with pytest.raises(InputError, match="true and false"):
        Thresholds.fit(energies[:1], labelled([0], [True]))


@pytest.mark.parametrize("name", ["complex", "transe"])
@pytest.mark.parametrize("memory_limit", [1, 1 << 20])
def test_calibrated_energies_are_those_of_the_definition(name: str, memory_limit: int) -> None:
    graph = load("nations").train
    model = SheafEmbedding(model_config(name, dim=8, init=0.5), graph, seed=3)
    triples = np.random.default_rng(0).integers(0, [14, 55, 14], size=(40, 3))
    found = calibrated_energies(model, triples, 0.7, memory_limit)
    facts = set(map(tuple, graph.triples.tolist()))
    for (h, r, t), energy in zip(triples.tolist(), found, strict=True):
        ids = torch.tensor([h]), torch.tensor([r]), torch.tensor([t])
        tails = torch.softmax(-model.score_tails(ids[0], ids[1])[0] / 0.7, 0)[t]
        heads = torch.softmax(-model.score_heads(ids[1], ids[2])[0] / 0.7, 0)[h]
        n_tails = max(1, sum((h, r, other) in facts for other in range(14)))
        n_heads = max(1, sum((other, r, t) in facts for other in range(14)))
        if h == t and irreflexive(graph)[r]:
            assert energy == math.inf
            continue
        expected = -(math.log(n_tails * float(tails)) + math.log(n_heads * float(heads))) / 2
        assert energy == pytest.approx(expected, abs=1e-4)


def test_what_types_forbid_is_false() -> None:
    schema = Schema(
        [EntityType("Person", 4), EntityType("Film", 4)],
        [Relation("likes", "Person", "Film"), Relation("likes", "Person", "Person")],
    )
    graph = KnowledgeGraph.from_triples(
        [("Ann", "likes", "Fargo"), ("Ann", "likes", "Bob")],
        types={"Ann": "Person", "Bob": "Person", "Fargo": "Film"},
        schema=schema,
    )
    rows = [("Bob", "likes", "Ann"), ("Fargo", "likes", "Ann"), ("Nobody", "likes", "Ann")]
    false = known_names(graph, rows)
    assert false == rows[:2]
    given_ = Labelled.of(graph, graph.triples, false)
    assert given_.relations.tolist() == [0, 0, 0, 0]  # one name, whatever its parts
    assert given_.triples[-1, 1] == -1
    model = SheafEmbedding(model_config("se", dim=4), graph)
    energies = calibrated_energies(model, given_.triples, 1.0)
    assert np.isfinite(energies[:3]).all()
    assert energies[3] == math.inf
    report = classify(model, given_, given_, tau=1.0, few=1)
    assert report.overall.count == 4
    assert report.by_relation == {"likes": report.overall}


def test_codex_negatives_are_told_from_facts(shared_data: Path) -> None:
    folder = shared_data / "codex" / "codex-s"
    data = load(folder)
    training = TrainingConfig(epochs=2, negatives=256, batch_size=1024, threads=1)
    model = train(data, model_config("complex", dim=16), training)
    given_ = {}
    for split in ("valid", "test"):
        false = read_negatives(folder, split)
        assert len(false) == {"valid": 1827, "test": 1828}[split]
        assert known_names(model.graph, false) == false
        given_[split] = Labelled.of(model.graph, data.splits[split].triples, false)
    report = classify(model, given_["valid"], given_["test"])
    assert report.overall.accuracy > 0.65
    assert report.overall.count == 2 * 1828


def test_a_folder_without_negatives_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file valid_negatives here"):
        read_negatives(tmp_path, "valid")

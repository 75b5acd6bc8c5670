"""Probabilities of triples of special relations: symmetric, or with one answer for each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.evaluation.trust import measure_trust
from knowledge_sheaves.graph import KnowledgeGraph, Schema
from knowledge_sheaves.graph.classes import Classes
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.query.asking import Asker
from knowledge_sheaves.ranking import Predictor
from knowledge_sheaves.ranking.trust import (
    triple_probabilities,
)
from knowledge_sheaves.training import TrainingConfig, train


def test_a_symmetric_relation_has_one_probability_both_ways() -> None:
    data = load("umls")
    schema = data.train.schema.saying({"interacts_with": {"symmetric": True}})
    graph = KnowledgeGraph.from_arrays(
        *data.train.triples.T, schema=schema, num_entities=data.train.num_entities
    )
    plain = SheafEmbedding(model_config("complex", dim=4), graph)
    edge = schema.relation_names.index("interacts_with")
    pairs = np.array([[3, edge, 8], [8, edge, 3], [5, edge, 5]])
    there, back, _ = triple_probabilities(plain, pairs)
    assert there == back
    other = np.array([[3, edge - 1, 8], [8, edge - 1, 3]])
    assert len(set(triple_probabilities(plain, other))) == 2


@pytest.mark.parametrize("said", [False, True])
def test_a_symmetric_relation_between_types_is_possible_whichever_way_it_is_written(
    said: bool,
) -> None:
    cities, people = [f"c{i}" for i in range(8)], [f"p{i}" for i in range(60)]
    rows = [(p, "near", cities[i % 7]) for i, p in enumerate(people)]
    schema = Schema.single(["near"]).saying({"near": {"symmetric": True}})
    bare = KnowledgeGraph.from_triples(rows, entities=[*cities, *people], schema=schema)
    types = {**dict.fromkeys(cities, "City"), **dict.fromkeys(people, "Person")}
    types["c7"] = "Village"  # of which no fact is known
    ends = {"heads": {"near": ("Person",)}, "tails": {"near": ("City", "Village")}} if said else {}
    graph = bare.shared(Classes.of(list(bare.entities), types, **ends))
    model = SheafEmbedding(model_config("complex", dim=4), graph)
    pairs = np.array([[8, 0, 5], [5, 0, 8], [8, 0, 7], [7, 0, 8]])
    there, back, new, turned = triple_probabilities(model, pairs)
    assert there == back > 0
    assert new == turned
    assert (new > 0) == said


def test_a_second_answer_where_no_fact_is_one_is_doubted(tmp_path: Path) -> None:
    rows = [(f"city {n}", "lies in", f"land {n % 7}") for n in range(400)]
    rows += [(f"city {n}", "trades with", f"city {(n * n + 3) % 400}") for n in range(400)]
    train_rows, held_out = rows[:360] + rows[400:760], rows[360:400] + rows[760:]
    graph = KnowledgeGraph.from_triples(train_rows, entities={n: 0 for r in rows for n in r[::2]})
    data = Dataset(graph, valid=graph.with_triples(held_out))
    model = train(data, model_config("complex", dim=4), TrainingConfig(epochs=1, threads=1))
    measure_trust(model, questions=False)
    doubt = "In all 400 known facts `lies in` has one tail for each head: a second one is unlikely."
    assert doubt in Predictor(model).predict("city 3", "lies in").trust
    assert doubt in Asker(model).answer("city 3 lies in ?x").trust
    for silent in (
        Predictor(model, "train").predict("city 370", "lies in"),  # it has none
        Predictor(model).predict(relation="lies in", tail="land 3"),
    ):
        assert "a second one" not in silent.trust
    more = data.valid.with_triples([*held_out, ("city 3", "lies in", "land 6")])
    model.info.held_out["valid"] = more.triples
    again = SheafEmbedding(model.config, graph)
    again.info = model.info
    assert "a second one" not in Predictor(again).predict("city 3", "lies in").trust

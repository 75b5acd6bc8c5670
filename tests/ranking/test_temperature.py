"""Temperatures and probabilities."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from knowledge_sheaves.embedding import ModelInfo, SheafEmbedding, model_config
from knowledge_sheaves.embedding.loops import is_barred
from knowledge_sheaves.embedding.probability import EPSILON
from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.graph import KnowledgeGraph, Schema
from knowledge_sheaves.graph.classes import Classes
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.ranking import fit_temperature, probabilities
from knowledge_sheaves.ranking.temperature import temperature
from ranking_cases import TableScorer


def test_probabilities_follow_the_formula() -> None:
    energies = torch.tensor([[0.0, 1.0, 2.0], [3.0, 0.0, torch.inf]], dtype=torch.float64)
    found = probabilities(energies, torch.tensor([2, 0]), tau=0.5)
    for row, n, values in zip(found.tolist(), (2, 1), energies.tolist(), strict=True):
        weights = [np.exp(-value / 0.5) for value in values]
        for p, weight in zip(row, weights, strict=True):
            assert p == pytest.approx(min(1 - EPSILON, n * weight / sum(weights)))
    assert found[0, 0] == 1 - EPSILON
    assert found[1, 2] == 0


@pytest.mark.parametrize("tau", [0.0, -1.0, float("nan")])
def test_a_temperature_is_positive(tau: float) -> None:
    with pytest.raises(InputError, match="positive number"):
        probabilities(torch.zeros(2), 1, tau)


def sampled_world(tau: float) -> tuple[KnowledgeGraph, TableScorer]:
    """Facts drawn from the model: each relation has one, so each query has one answer."""
    generator = np.random.default_rng(0)
    entities, relations = 6, 2000
    energies = generator.exponential(1.0, (entities, relations, entities))
    weights = np.exp(-energies / tau).transpose(1, 0, 2).reshape(relations, -1)
    pairs = [generator.choice(entities**2, p=row / row.sum()) for row in weights]
    heads, tails = np.divmod(pairs, entities)
    schema = Schema.single(map(str, range(relations)))
    graph = KnowledgeGraph.from_arrays(
        heads, np.arange(relations), tails, schema=schema, num_entities=entities
    )
    return graph, TableScorer(graph, energies)


def log_loss(model: TableScorer, valid: KnowledgeGraph, train: KnowledgeGraph, tau: float) -> float:
    """Minus the log-likelihood of the validation data, query by query and entity by entity."""
    facts, held_out = set(train.decode(train.triples)), set(valid.decode(valid.triples))
    total = 0.0
    for side in (0, 2):
        for known, edge in {(row[side], row[1]) for row in valid.triples.tolist()}:
            name = int(model.names[edge])
            row = model.table[known, name] if side == 0 else model.table[:, name, known]
            answers = [
                (valid.entities[known], valid.schema.relation_names[name], other)
                if side == 0
                else (other, valid.schema.relation_names[name], valid.entities[known])
                for other in valid.entities
            ]
            n = sum(answer in facts for answer in answers)
            for answer, p in zip(answers, probabilities(row, n, tau).tolist(), strict=True):
                if answer not in facts:
                    total -= np.log(p) if answer in held_out else np.log1p(-p)
    return total


def test_no_other_temperature_makes_the_validation_data_more_likely() -> None:
    generator = np.random.default_rng(1)
    rows = generator.integers(0, (8, 3, 8), (60, 3))
    schema = Schema.single("rst")
    everything = KnowledgeGraph.from_arrays(*rows.T, schema=schema, num_entities=8)
    order = generator.permutation(everything.triples)
    # One triple is in both: it is remembered.
    train, valid = everything.with_triples(order[:35]), everything.with_triples(order[34:])
    energies = generator.exponential(1.0, (8, 3, 8))
    energies[tuple(order.T)] *= 0.3
    model = TableScorer(everything, energies)
    tau = fit_temperature(model, valid, train)
    least = log_loss(model, valid, train, tau)
    for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2.0):
        assert log_loss(model, valid, train, factor * tau) > least


@pytest.mark.parametrize("tau", [0.5, 2.0])
def test_the_temperature_that_made_the_facts_is_found(tau: float) -> None:
    graph, model = sampled_world(tau)
    nothing = graph.with_triples(graph.triples[:0])
    assert fit_temperature(model, graph, nothing, sample=5000) == pytest.approx(tau, rel=0.1)


def test_the_temperature_scales_with_the_energies() -> None:
    graph, model = sampled_world(1.0)
    nothing = graph.with_triples(graph.triples[:0])
    larger = TableScorer(graph, 1000 * model.energies)
    first, second = (fit_temperature(each, graph, nothing) for each in (model, larger))
    assert second == pytest.approx(1000 * first, rel=1e-2)


def test_a_perfect_model_is_cold_and_a_useless_one_has_some_temperature() -> None:
    graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("c", "r", "d")])
    nothing = graph.with_triples(graph.triples[:0])
    energies = np.ones((4, 1, 4))
    energies[0, 0, 1] = energies[2, 0, 3] = 0
    tau = fit_temperature(TableScorer(graph, energies), graph, nothing)
    assert probabilities(torch.from_numpy(energies[0, 0]), 1, tau)[1] > 0.99
    assert fit_temperature(TableScorer(graph, np.ones((4, 1, 4))), graph, nothing) > 0


def test_little_memory_uses_fewer_triples() -> None:
    graph, model = sampled_world(1.0)
    rows: list[int] = []

    class Counting(TableScorer):
        def score_tails(self, heads: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            rows.append(len(heads))
            return super().score_tails(heads, edges)

    counting = Counting(graph, model.energies)
    fit_temperature(counting, graph, graph, memory_limit=10 * 32 * graph.num_entities)
    assert rows == [10]


def test_nothing_to_fit_is_refused() -> None:
    graph = KnowledgeGraph.from_triples([("a", "r", "b")])
    nothing = graph.with_triples(graph.triples[:0])
    with pytest.raises(InputError, match="validation triples"):
        fit_temperature(TableScorer(graph, np.zeros((2, 1, 2))), nothing, graph)
    with pytest.raises(SheafError, match="diverged"):
        fit_temperature(TableScorer(graph, np.full((2, 1, 2), np.nan)), graph, graph)


def test_held_out_facts_that_types_rule_out_are_left_out() -> None:
    """Of one such fact among many it was said that the training had diverged, and no model kept."""
    people, films = [f"p{i}" for i in range(20)], [f"f{i}" for i in range(20)]
    rows = [(p, "likes", f) for i, p in enumerate(people) for f in films[i % 5 :: 4]]
    types = {**dict.fromkeys(people, "Person"), **dict.fromkeys(films, "Film")}
    train = KnowledgeGraph.from_triples(rows[:-20], entities=[*people, *films])
    train = train.shared(Classes.of([*people, *films], types))
    usual = train.with_triples(rows[-20:])
    odd = train.with_triples([*rows[-20:], ("f1", "likes", "f2"), ("p1", "likes", "p2")])
    assert np.count_nonzero(is_barred(train, odd.triples)) == 2
    assert not is_barred(train, np.concatenate([train.triples, usual.triples])).any()
    model = SheafEmbedding(model_config("complex", dim=4), train)
    assert fit_temperature(model, odd, train) == fit_temperature(model, usual, train)
    model.info = ModelInfo.of(Dataset(train, valid=train.with_triples([("f1", "likes", "f2")])))
    assert temperature(model) == (1.0, False), "nothing is left to fit it by"

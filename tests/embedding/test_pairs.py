"""Pairs of subgraphs and scoring functions on them, against loops over single triples."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from knowledge_sheaves.embedding import (
    Pairs,
    SheafEmbedding,
    Subgraphs,
    contrastive,
    gapped,
    gapped_pairs,
    model_config,
    negative_pairs,
    one_by_one,
    pairs_with_facts,
    total_energy,
    worst_edge,
)
from knowledge_sheaves.graph import ClosedWorld, KnowledgeGraph, LocalClosedWorld
from knowledge_sheaves.graph.negative import NegativeGraph, OpenWorld

Triples = list[list[int]]


def random_graph(seed: int, entities: int = 8, relations: int = 3) -> KnowledgeGraph:
    rng = np.random.default_rng(seed)
    rows = [
        (f"e{rng.integers(entities)}", f"r{rng.integers(relations)}", f"e{rng.integers(entities)}")
        for _ in range(25)
    ]
    return KnowledgeGraph.from_triples(rows)


def random_subgraphs(graph: KnowledgeGraph, rng: np.random.Generator) -> list[Triples]:
    high = [graph.num_entities, graph.num_relations, graph.num_entities]
    return [rng.integers(0, high, size=(rng.integers(0, 5), 3)).tolist() for _ in range(6)]


@pytest.mark.parametrize("seed", range(10))
def test_scoring_functions_are_those_of_each_subgraph_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(seed)
    model = SheafEmbedding(model_config("se", dim=4), graph, seed).double()
    parts = random_subgraphs(graph, rng)
    together = Subgraphs.of(parts)
    alone = [[float(model.energies([row])[0]) for row in part] for part in parts]
    found = total_energy(model, together).tolist()
    assert found == pytest.approx([sum(values) for values in alone])
    found = worst_edge(model, together).tolist()
    assert found == pytest.approx([max(values, default=0.0) for values in alone])
    spread = one_by_one(lambda m, rows: m.energies(rows).square().sum().sqrt())
    found = spread(model, together).tolist()
    assert found == pytest.approx([float(np.linalg.norm(values)) for values in alone])
    places = rng.permutation(6)[:4]
    some = total_energy(model, together.take(places))
    assert torch.allclose(some, total_energy(model, together)[places])


@pytest.mark.parametrize("seed", range(10))
def test_predicates_take_a_function_that_is_no_sum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(seed)
    model = SheafEmbedding(model_config("transe", dim=4), graph, seed).double()
    low, high = (random_subgraphs(graph, rng) for _ in range(2))

    def worst(rows: Triples) -> float:
        return max((float(model.energies([row])[0]) for row in rows), default=0.0)

    gamma = 0.1
    wanted = sum(worst(h) - worst(p) > gamma for p, h in zip(low, high, strict=True))
    pair = Subgraphs.of(low), Subgraphs.of(high)
    assert gapped(model, *pair, gamma, worst_edge).held == wanted
    assert gapped_pairs(model, Pairs.matched(*pair), gamma, worst_edge).held == wanted
    zero = one_by_one(lambda m, rows: torch.zeros((), dtype=torch.float64))
    assert (
        contrastive(model, pair[1], scoring=zero).held
        == contrastive(model, Subgraphs.of([]), scoring=zero).held
    )


def test_one_true_subgraph_may_have_several_false_ones() -> None:
    true, false = (
        Subgraphs.of([[(0, 0, 1)], [(1, 0, 2)]]),
        Subgraphs.single([[i] * 3 for i in "012"]),
    )
    pairs = Pairs(true, false, np.array([1, 0, 1]))
    some = pairs.take(np.array([1]))
    assert some.true.triples.tolist() == [[1, 0, 2]]
    assert some.false.triples.tolist() == [[0, 0, 0], [2, 2, 2]]
    assert some.of.tolist() == [0, 0]
    both = pairs + some
    assert both.of.tolist() == [1, 0, 1, 2, 2]
    assert both.true.number == 3
    assert pairs.turned(4).true.triples.tolist() == [[1, 4, 0], [2, 4, 1]]


@pytest.mark.parametrize("by", ["tail", "head"])
@pytest.mark.parametrize("seed", range(5))
def test_a_false_triple_is_paired_with_the_fact_most_like_it(by: str, seed: int) -> None:
    graph = random_graph(seed, entities=5)
    facts = {tuple(row) for row in graph.triples.tolist()}
    everything = np.indices((graph.num_entities, graph.num_relations, graph.num_entities))
    false = np.array(
        [row for row in everything.reshape(3, -1).T.tolist() if tuple(row) not in facts]
    )
    pairs = pairs_with_facts(graph, false, seed, by)
    assert pairs.false.triples.tolist() == false.tolist()  # all relations have facts
    for fact, (h, r, t) in zip(pairs.true.triples.tolist(), false.tolist(), strict=True):
        assert tuple(fact) in facts
        assert fact[1] == r
        first = [f for f in facts if f[1] == r and (f[0] == h if by == "tail" else f[2] == t)]
        second = [f for f in facts if f[1] == r and (f[2] == t if by == "tail" else f[0] == h)]
        if first or second:
            assert tuple(fact) in (first or second)


@pytest.mark.parametrize("world", [ClosedWorld, LocalClosedWorld, OpenWorld])
def test_pairs_of_a_negative_graph(world: type[NegativeGraph]) -> None:
    graph = random_graph(1)
    negative = world(graph)
    pairs = negative_pairs(negative, 200, 0)
    assert len(pairs.of) == (0 if world is OpenWorld else 200)
    if len(pairs.of):
        assert negative.contains(pairs.false.triples).all()
        assert graph.contains(pairs.true.triples).all()
    if world is LocalClosedWorld:
        assert (pairs.true.triples[:, :2] == pairs.false.triples[:, :2]).all()

"""Predicates on embeddings, against energies computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from knowledge_sheaves.embedding import (
    KnowledgeSheaf,
    SheafEmbedding,
    Subgraphs,
    consistent,
    contrastive,
    corrupted_pairs,
    gapped,
)
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph, LocalClosedWorld, Relation, Schema

NUMBERS = Schema(
    ["Number"], [Relation("next", "Number", "Number"), Relation("same", "Number", "Number")]
)
COUNTING = KnowledgeSheaf.from_maps(
    NUMBERS,
    {"Number": 1},
    {"next": ([[1.0]], [[1.0]]), "same": ([[1.0]], [[1.0]])},
    translations={"next": [1.0]},
)
ROWS = [("zero", "next", "one"), ("one", "next", "two"), ("two", "same", "two")]


@pytest.fixture
def embedding() -> SheafEmbedding:
    graph = KnowledgeGraph.from_triples(ROWS, schema=NUMBERS)
    return SheafEmbedding.from_vectors(COUNTING, graph, {"zero": [0.0], "one": [1.0], "two": [2.0]})


def test_energies_follow_the_definition(embedding: SheafEmbedding) -> None:
    graph = embedding.graph
    rows = graph.encode([("zero", "next", "two"), ("two", "same", "zero"), ("zero", "next", "one")])
    assert embedding.energies(rows).tolist() == [1.0, 4.0, 0.0]  # (x_h + z − x_t)²
    assert embedding.energy() == 0
    assert embedding.energies(np.zeros((0, 3), np.int64)).shape == (0,)
    assert embedding.vector("two").tolist() == [2.0]


def test_sections_side_by_side_add_up() -> None:
    graph = KnowledgeGraph.from_triples(ROWS, schema=NUMBERS)
    z = torch.tensor([[1.0, 2.0], [0.0, 0.0]])
    sheaf = KnowledgeSheaf(NUMBERS, COUNTING.sheaf, z)
    vectors = {"zero": [[0.0, 0.0]], "one": [[1.0, 2.0]], "two": [[2.0, 5.0]]}
    embedding = SheafEmbedding.from_vectors(sheaf, graph, vectors)
    assert embedding.energies(graph.encode(ROWS)).tolist() == [0.0, 1.0, 0.0]
    vectors = {"zero": [[0.0, 0.0]], "one": [[1.0, 1.0]], "two": [[2.0, 3.0]]}
    plain = SheafEmbedding.from_vectors(COUNTING, graph, vectors)
    assert plain.energies(graph.encode(ROWS)).tolist() == [0.0, 1.0, 0.0]


def test_consistent_counts_the_triples_that_fit(embedding: SheafEmbedding) -> None:
    assert consistent(embedding)
    rows = embedding.graph.encode([*ROWS, ("two", "next", "zero")])
    verdict = consistent(embedding, rows)
    assert not verdict
    assert (verdict.held, verdict.total) == (3, 4)
    assert str(verdict) == "not consistent: 3 of 4 constraints hold"


def test_contrastive_asks_every_negative_to_stand_apart(embedding: SheafEmbedding) -> None:
    negatives = LocalClosedWorld(embedding.graph).edges()
    # By hand: zero→zero, zero→two, one→zero, one→one (next); two same zero, two same one.
    assert len(negatives) == 6
    assert contrastive(embedding, Subgraphs.single(negatives))
    unseen_truth = embedding.graph.encode([("zero", "same", "zero")])
    assert not contrastive(embedding, Subgraphs.single(unseen_truth))


def test_gapped_compares_sums_over_subgraphs(embedding: SheafEmbedding) -> None:
    good = embedding.graph.encode(ROWS)
    bad = embedding.graph.encode(
        [("zero", "next", "two"), ("one", "next", "one"), ("two", "same", "zero")]
    )
    one_each = (Subgraphs.single(good), Subgraphs.single(bad))
    assert gapped(embedding, *one_each, gamma=0.5)
    assert gapped(embedding, *one_each, gamma=1.0).held == 1  # energies 1, 1, 4
    owner = np.array([0, 0, 1])
    two = (Subgraphs(good, owner), Subgraphs(bad, owner))
    assert gapped(embedding, *two, gamma=1.5)
    assert str(gapped(embedding, *two, gamma=3)) == "not 3-gapped: 1 of 2 constraints hold"
    with pytest.raises(InputError, match="as many negative subgraphs"):
        gapped(embedding, one_each[0], two[1], gamma=1)


@pytest.mark.parametrize("by", ["tail", "head", "relation"])
def test_corrupted_pairs_differ_in_one_place(embedding: SheafEmbedding, by: str) -> None:
    graph = embedding.graph
    positive, negative = corrupted_pairs(graph, by, count=200, seed=1)  # type: ignore[arg-type]
    assert len(positive.triples) > 50
    assert graph.contains(positive.triples).all()
    assert not graph.contains(negative.triples).any()
    place = {"head": 0, "relation": 1, "tail": 2}[by]
    kept = [column for column in range(3) if column != place]
    assert (positive.triples[:, kept] == negative.triples[:, kept]).all()
    again = corrupted_pairs(graph, by, count=200, seed=1)  # type: ignore[arg-type]
    assert (again[1].triples == negative.triples).all()
    assert len({tuple(row) for row in negative.triples}) > 1


def test_a_full_graph_has_no_corruptions() -> None:
    graph = KnowledgeGraph.from_triples([("a", "is", "a")])
    positive, negative = corrupted_pairs(graph)
    assert len(positive.triples) == len(negative.triples) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"zero": [0.0], "one": [1.0]}, "no vector for 'two'"),
        ({"zero": [0.0], "one": [1.0], "two": [1.0], "x": [1.0]}, "'x': no such name"),
        ({"zero": [0.0], "one": [1.0, 2.0], "two": [1.0]}, "'one' has 2 coordinates"),
    ],
)
def test_vectors_must_fit(change: dict[str, list[float]], message: str) -> None:
    graph = KnowledgeGraph.from_triples(ROWS, schema=NUMBERS)
    with pytest.raises(InputError, match=message):
        SheafEmbedding.from_vectors(COUNTING, graph, change)


def test_maps_must_be_named() -> None:
    with pytest.raises(InputError, match="no pair of maps for 'same'"):
        KnowledgeSheaf.from_maps(NUMBERS, {"Number": 1}, {"next": ([[1.0]], [[1.0]])})

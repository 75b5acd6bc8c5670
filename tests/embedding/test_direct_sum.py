"""The direct sum of models against its definition: energies add up, least energies too."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from knowledge_sheaves.embedding import CATALOGUE, SheafEmbedding, direct_sum, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import EntityType, KnowledgeGraph, Relation, Schema
from knowledge_sheaves.query import Options, scores
from knowledge_sheaves.query.pattern import Query

GRAPH = KnowledgeGraph.from_triples(
    [("a", "r", "b"), ("b", "s", "c"), ("c", "r", "d"), ("d", "s", "a"), ("a", "s", "c")]
)
OTHER = KnowledgeGraph.from_triples([("a", "r", "b")])
TYPED = KnowledgeGraph.from_arrays(
    np.array([0]),
    np.array([0]),
    np.array([1]),
    schema=Schema((EntityType("T", dim=4),), (Relation("r", "T", "T"),)),
    num_entities=2,
)
SUMMABLE = [
    name
    for name, config in CATALOGUE.items()
    if config.block is not None
    and config.space == "vector"
    and config.clamp is None
    and (config.lifted or config.norm == config.power == 2)
]


def made(name: str, dim: int, seed: int, graph: KnowledgeGraph = GRAPH) -> SheafEmbedding:
    """A model of random numbers, biases and translations included, in double precision."""
    model = SheafEmbedding(model_config(name, dim=dim), graph).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    model.refresh()
    return model


def parts_and_sum(name: str) -> tuple[list[SheafEmbedding], SheafEmbedding]:
    block = CATALOGUE[name].block
    assert block is not None
    parts = [made(name, blocks * block, seed) for seed, blocks in enumerate((2, 3))]
    return parts, direct_sum(parts)


@pytest.mark.parametrize("name", SUMMABLE)
@torch.no_grad()
def test_scores_add_up(name: str) -> None:
    parts, whole = parts_and_sum(name)
    n, edges = GRAPH.num_entities, len(whole.edge_types)
    triples = np.array(list(itertools.product(range(n), range(edges), range(n))))
    found = whole.scores(triples)
    expected = torch.stack([part.scores(triples).double() for part in parts]).sum(0)
    # Lifted models are on a sphere that holds all entities: its size is one number for all.
    difference = found - expected
    if whole.config.lifted:
        difference = difference - difference[0]
    assert difference.abs().max() < 1e-3 * expected.abs().max()
    assert float(found.std()) > 0.1


@torch.no_grad()
def test_the_least_energy_of_a_query_is_the_sum_of_theirs() -> None:
    """The unknowns of the summands have nothing to do with each other."""
    parts, whole = parts_and_sum("rote")
    query = Query.from_triples([("a", "r", "?y"), ("?y", "s", "?x"), ("d", "r", "?x")], "?x", GRAPH)
    energies = [
        scores(model, [query], Options(solver="harmonic", strength=0.0), chances=False)[0]
        for model in (*parts, whole)
    ]
    torch.testing.assert_close(energies[0] + energies[1], energies[2], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ([made("complex", 4, 0)], "at least two"),
        ([made("complex", 4, 0), made("rotate", 4, 0)], "differ in name"),
        ([made("complex", 4, 0), made("complex", 4, 0, OTHER)], "different graphs"),
        ([made("toruse", 4, seed) for seed in (0, 1)], "squared Euclidean"),
        ([made("se", 4, seed) for seed in (0, 1)], "one block each"),
        ([made("mure", 4, seed, TYPED) for seed in (0, 1)], "dimensions of their own"),
    ],
)
def test_what_has_no_sum_is_refused_in_words(models: list[SheafEmbedding], message: str) -> None:
    with pytest.raises(InputError, match=message):
        direct_sum(models)

"""Where the unknowns can satisfy a query whatever its answer is, the answers say so."""

from __future__ import annotations

import numpy as np
import pytest

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.graph import EntityType, KnowledgeGraph, Relation, Schema
from knowledge_sheaves.query import Options, Query, Wanted, answer
from knowledge_sheaves.query.pattern import Edge, Pattern

SAYS = "rounding ranks them"
STALK = 8


def make(*dims: int, **options: object) -> SheafEmbedding:
    """Relations r0, r1, … with edge stalks of the given dimensions."""
    relations = [Relation(f"r{i}", "T", "T", dim=dim) for i, dim in enumerate(dims)]
    schema = Schema([EntityType("T", STALK)], relations)
    rows = np.random.default_rng(0).integers(0, [9, len(dims), 9], size=(30, 3))
    graph = KnowledgeGraph.from_arrays(*rows.T, schema=schema, num_entities=9)
    config = model_config("translational", dim=STALK, init=0.5, **options)
    return SheafEmbedding(config, graph, seed=1).requires_grad_(False)


def path(*relations: int, targets: tuple[str, ...] = ("?x",)) -> Query:
    names = [0, *(f"?y{i}" for i in range(1, len(relations))), "?x"]
    edges = zip(names, relations, names[1:], strict=False)
    return Query(targets, (Pattern(tuple(Edge(*edge) for edge in edges)),))


def says(model: SheafEmbedding, *queries: Query, **options: object) -> list[bool]:
    found = answer(model, queries, Options("harmonic", tau=1.0, **options), Wanted(top=3))
    return [any(SAYS in note for note in each.notes) for each in found]


def test_a_path_of_small_relations_says_that_its_energies_say_nothing() -> None:
    model = make(4, 4, 8, 8, 5)
    few, many, between = path(0, 1), path(2, 3), path(0, 4)
    assert says(model, few, many, between, few) == [True, False, False, True]
    assert says(model, path(0), path(2)) == [False, False]
    (found,) = answer(model, few, Options("harmonic", tau=1.0), Wanted(top=9))
    assert found.energies.abs().max() < 1e-4


def test_a_prior_makes_a_difference_again() -> None:
    assert says(make(4, 4), path(0, 1), strength=0.1) == [False]


def test_one_branch_of_a_union_is_enough_to_say_so() -> None:
    model = make(4, 4, 8, 8)
    union = Query(("?x",), (*path(2, 3).patterns, *path(0, 1).patterns))
    assert says(model, union) == [True]


@pytest.mark.parametrize("reciprocal", [True, False])
def test_several_targets_say_so_together(reciprocal: bool) -> None:
    model = make(2, 2, 2, 8, reciprocal=reciprocal)
    pattern = Pattern((Edge("?x", 0, "?u"), Edge("?z", 1, "?u"), Edge("?u", 2, "?v")))
    assert says(model, Query(("?x", "?z"), (pattern,))) == [True]
    firm = Pattern((Edge("?x", 3, "?u"), Edge("?z", 3, "?u")))
    assert says(model, Query(("?x", "?z"), (firm,))) == [False]


def test_lifted_models_are_never_indifferent() -> None:
    rows = np.random.default_rng(0).integers(0, [9, 2, 9], size=(30, 3))
    graph = KnowledgeGraph.from_arrays(*rows.T, schema=Schema.single(["r", "s"]), num_entities=9)
    model = SheafEmbedding(model_config("complex", dim=4), graph).requires_grad_(False)
    for lift in ("free", "composite", "sphere"):
        assert says(model, path(0, 1), path(0), lift=lift) == [False, False]

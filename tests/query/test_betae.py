"""The benchmark's tuples: their meaning against sets, and their answers against the files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from graph_cases import knowledge_graphs
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.readers import STRUCTURES, load, read_betae_queries
from knowledge_sheaves.query.facts.symbolic import answers
from knowledge_sheaves.query.language.betae import from_betae, smaller_and_larger, template
from knowledge_sheaves.query.pattern import Edge, Pattern


def meaning(node: Any, graph: KnowledgeGraph) -> set[int]:
    """Evaluate nested tuples by set operations, step by step: complements are over all entities."""
    everything = set(range(graph.num_entities))
    *parts, steps = node
    if any(isinstance(step, tuple) for step in steps):
        parts, steps = list(node), ()
    if isinstance(parts[0], int):
        found = {parts[0]}
    else:
        branches = [meaning(part, graph) for part in parts]
        union = steps[:1] == (-1,)
        found = set.union(*branches) if union else set.intersection(*branches)
        steps = steps[1:] if union else steps
    for step in steps:
        if step == -2:
            found = everything - found
        else:
            name = graph.schema.relation_names[step]
            found = {int(tail) for head in found for tail in graph.tails(head, name)}
    return found


@st.composite
def nested(draw: st.DrawFn, graph: KnowledgeGraph, depth: int = 2) -> Any:
    """Draw nested tuples of any kind: intersections, unions, steps and negations over them."""
    relation = st.integers(0, len(graph.schema.relation_names) - 1)
    steps = st.lists(st.one_of(relation, relation, st.just(-2)), max_size=2).map(tuple)
    if depth == 0 or draw(st.booleans()):
        return draw(st.integers(0, graph.num_entities - 1)), (draw(relation), *draw(steps))
    inner = draw(st.lists(nested(graph, depth - 1), min_size=2, max_size=3))
    kind = draw(st.sampled_from(["intersection", "union", "steps", "union and steps"]))
    if kind == "intersection":
        return tuple(inner)
    if kind == "union":
        return (*inner, (-1,))
    if kind == "steps":
        return (tuple(inner), (*draw(steps), draw(relation)))
    return ((*inner, (-1,)), (*draw(steps), draw(st.one_of(relation, st.just(-2)))))


@settings(max_examples=200)
@given(data=st.data())
def test_queries_mean_what_their_tuples_say(data: st.DataObject) -> None:
    graph = data.draw(knowledge_graphs())
    tuples = data.draw(nested(graph))
    try:
        query = from_betae(tuples)
    except InputError as error:
        # What is only forbidden, and "forbidden or asked", have no positive edge to start from.
        if "positive edge" not in str(error):
            raise
        reject()
    assert answers(graph, [query])[0].tolist() == sorted(meaning(tuples, graph))


def test_de_morgan_forms_are_the_unions_they_stand_for() -> None:
    one, other = (7, (0,)), (8, (1,))
    negated = (7, (0, -2)), (8, (1, -2))
    assert from_betae((negated, (-2,))) == from_betae((one, other, (-1,)))
    assert from_betae((negated, (-2, 3))) == from_betae(((one, other, (-1,)), (3,)))


def test_a_double_negation_cancels() -> None:
    assert from_betae((7, (0, -2, -2))) == from_betae((7, (0,)))


def test_a_negated_intersection_stays_one_pattern() -> None:
    query = from_betae(((5, (2,)), (((7, (0,)), (8, (1,))), (-2,))))
    both = Pattern((Edge(7, 0, "?x"), Edge(8, 1, "?x")))
    assert query.patterns == (Pattern((Edge(5, 2, "?x"),), (both,)),)


@pytest.mark.parametrize(
    ("tuples", "message"),
    [
        ((7, (0, -2)), "positive edge"),
        ((7, (-3,)), "-3 has no meaning"),
        ((7, (0, -1)), "-1 has no meaning"),
        ((7,), "no part of a BetaE query"),
        ((7, ()), "no part of a BetaE query"),
        (("e", ("r",)), "no part of a BetaE query"),
    ],
)
def test_what_is_no_query_is_an_error(tuples: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_betae(tuples)


def test_templates() -> None:
    assert all(template(name).targets == ("?x",) for name in STRUCTURES)
    assert template("up") == template("up-DM")
    shared = [pattern.edges[-1] for pattern in template("up").patterns]
    assert shared[0] == shared[1]
    for name in ("0p", "p", "4i", ""):
        with pytest.raises(InputError, match="no query type"):
            template(name)


def test_a_split_that_is_not_there_gives_no_hard_answers(tmp_path: Path) -> None:
    data = load_tiny(tmp_path)
    assert [graph.num_triples for graph in smaller_and_larger(data, "test")] == [2, 3]
    with pytest.raises(InputError, match="'train'"):
        smaller_and_larger(data, "train")


def load_tiny(folder: Path) -> Any:
    for split, row in {"train": "a r b", "valid": "b r a", "test": "a r a"}.items():
        (folder / f"{split}.txt").write_text(row.replace(" ", "\t") + "\n")
    return load(folder)


@pytest.mark.parametrize(
    ("name", "split"),
    [
        pytest.param("NELL-betae", "test", marks=pytest.mark.slow),
        ("FB15k-237-betae", "valid"),
    ],
)
def test_answers_are_those_of_the_benchmark(shared_data: Path, name: str, split: str) -> None:
    folder = shared_data / name
    if not folder.is_dir():
        pytest.skip(f"{name} is not among the shared data")
    smaller, larger = smaller_and_larger(load(folder), split)
    benchmark = read_betae_queries(folder, split)
    assert benchmark.easy is not None
    assert benchmark.hard is not None
    rng = np.random.default_rng(0)
    asked = [
        ordered[place]
        for queries in benchmark.queries.values()
        for ordered in [sorted(queries, key=repr)]
        for place in rng.choice(len(ordered), size=25, replace=False)
    ]
    queries = [from_betae(query) for query in asked]
    easy, after = answers(smaller, queries), answers(larger, queries)
    for place, query in enumerate(asked):
        assert set(easy[place].tolist()) == benchmark.easy[query], query
        hard = np.setdiff1d(after[place], easy[place])
        assert set(hard.tolist()) == benchmark.hard[query], query

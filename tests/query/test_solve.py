"""Solvers by name: what they agree on, how branches combine, what may be left out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.embedding.probability import probabilities
from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.graph import KnowledgeGraph, Relation, Schema
from knowledge_sheaves.query import Asker, Options, Query, Wanted, answer, scores
from knowledge_sheaves.query.batches import by_shape
from knowledge_sheaves.query.pattern import Edge, Pattern

ENTITIES = 30


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, [ENTITIES, 4, ENTITIES], size=(120, 3))
    schema = Schema.single([f"r{i}" for i in range(4)])
    return KnowledgeGraph.from_arrays(*rows.T, schema=schema, num_entities=ENTITIES)


@pytest.fixture(scope="module")
def transe(graph: KnowledgeGraph) -> SheafEmbedding:
    return SheafEmbedding(model_config("transe", dim=8, reciprocal=False, init=0.7), graph, seed=2)


def path(source: int, *relations: int) -> Query:
    terms: list[int | str] = [source, *[f"?{i}" for i in range(len(relations))]]
    edges = tuple(Edge(terms[i], r, terms[i + 1]) for i, r in enumerate(relations))
    return Query((f"?{len(relations) - 1}",), (Pattern(edges),))


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_for_translations_paths_rank_as_the_naive_baseline(
    transe: SheafEmbedding, length: int
) -> None:
    queries = [path(e, *[(e + i) % 4 for i in range(length)]) for e in range(10)]
    harmonic, _ = scores(transe, queries, Options(solver="harmonic"))
    naive, _ = scores(transe, queries, Options(solver="naive"))
    torch.testing.assert_close(harmonic * length, naive, atol=1e-4, rtol=1e-4)
    assert torch.equal(harmonic.argsort(1)[:, :10], naive.argsort(1)[:, :10])


def test_mixed_batches_are_grouped_and_put_back_in_order(transe: SheafEmbedding) -> None:
    queries = [path(0, 1), path(1, 1, 2), path(2, 3), path(3, 0, 1), path(4, 0, 1, 2)]
    assert sorted(map(len, by_shape(queries).values())) == [1, 2, 2]
    together = answer(transe, queries, Options(solver="harmonic"), Wanted(top=5))
    for query, found in zip(queries, together, strict=True):
        (alone,) = answer(transe, query, Options(solver="harmonic"), Wanted(top=5))
        assert found.query is query
        assert torch.equal(found.ids, alone.ids)


def test_variables_may_have_any_names_and_targets_any_place(transe: SheafEmbedding) -> None:
    """The same edges with other names, and another variable asked for, in one batch."""
    one = Query(("?x",), (Pattern((Edge(0, 1, "?y"), Edge("?y", 2, "?x"))),))
    renamed = Query(("?y",), (Pattern((Edge(3, 1, "?x"), Edge("?x", 2, "?y"))),))
    middle = Query(("?y",), (Pattern((Edge(0, 1, "?y"), Edge("?y", 2, "?x"))),))
    union = Query(("?x",), (one.patterns[0], Pattern((Edge(5, 0, "?x"),))))
    other = Query(
        ("?a",), (Pattern((Edge(2, 1, "?b"), Edge("?b", 2, "?a"))), Pattern((Edge(6, 0, "?a"),)))
    )
    queries = [one, renamed, middle, union, other]
    assert sorted(map(sorted, by_shape(queries).values())) == [[0, 1], [2], [3, 4]]
    for solver in ("harmonic", "chaining"):
        together = answer(transe, queries, Options(solver=solver, tau=1.0), Wanted(top=5))
        for query, found in zip(queries, together, strict=True):
            (alone,) = answer(transe, query, Options(solver=solver, tau=1.0), Wanted(top=5))
            assert torch.equal(found.ids, alone.ids)


def test_memory_limits_the_batch_not_the_answers(transe: SheafEmbedding) -> None:
    queries = [path(e, 0, 1) for e in range(8)]
    one = Options(solver="harmonic", memory_limit=8 * 4 * ENTITIES)
    small = answer(transe, queries, one, Wanted(top=5))
    large = answer(transe, queries, Options(solver="harmonic"), Wanted(top=5))
    assert all(torch.equal(a.ids, b.ids) for a, b in zip(small, large, strict=True))


PAIR = Query(("?0", "?1"), path(0, 1, 2).patterns)


@pytest.mark.parametrize("query", [path(0, 1, 2), PAIR], ids=["one target", "two"])
@pytest.mark.parametrize("solver", ["harmonic", "chaining", "naive"])
def test_every_solver_has_limits(transe: SheafEmbedding, solver: str, query: Query) -> None:
    if solver == "naive" and len(query.targets) > 1:
        with pytest.raises(InputError, match="use harmonic or chaining"):
            answer(transe, query, Options(solver))
        return
    with pytest.raises(SheafError, match="longer than its time limit"):
        answer(transe, query, Options(solver, tau=1.0, time_limit=-1))
    with pytest.raises(InputError, match=r"needs about 960 bytes .* memory limit is 100: raise"):
        answer(transe, query, Options(solver, tau=1.0, memory_limit=100))
    if solver != "naive":
        (found,) = answer(transe, query, Options(solver, tau=1.0))
        hurried = Asker(transe, Options(solver, tau=1.0, time_limit=-1))
        with pytest.raises(SheafError, match="longer than its time limit"):
            hurried.explain(found)


def test_the_time_runs_out_between_queries(
    transe: SheafEmbedding, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at the clock takes a second here."""
    clock = itertools.count()
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    queries = [path(0, 1), path(0, 1, 2), path(0, 1, 2, 3)]
    for enough, solver in itertools.product((False, True), ("harmonic", "naive")):
        options = Options(solver, time_limit=100.0 if enough else 5.0)
        if enough:
            assert len(answer(transe, queries, options)) == 3
        else:
            with pytest.raises(SheafError, match="time limit"):
                answer(transe, queries, options)


def test_without_a_temperature_probabilities_are_those_of_one(transe: SheafEmbedding) -> None:
    union = Query(("?0",), path(0, 1).patterns + path(3, 2).patterns)
    both = [(query, s) for s in ("harmonic", "chaining") for query in (path(0, 1), union)]
    for query, solver in [*both, (PAIR, "chaining")]:
        (found,) = answer(transe, query, Options(solver))
        assert found.probabilities is not None
        assert "No temperature was fitted" in found.notes[0]
        (chosen,) = answer(transe, query, Options(solver, tau=1.0))
        assert not chosen.notes
        assert torch.equal(found.probabilities, chosen.probabilities)


def test_known_answers_are_marked_and_can_be_left_out(transe: SheafEmbedding) -> None:
    graph = transe.graph
    head, relation = int(graph.triples[0, 0]), int(graph.triples[0, 1])
    query = path(head, relation)
    (all_of_them,) = answer(transe, query, Options(solver="harmonic"), Wanted(top=ENTITIES))
    known = set(graph.tails(head, relation).tolist())
    marked = {int(i) for i, k in zip(all_of_them.ids[:, 0], all_of_them.known, strict=True) if k}
    assert marked == known
    (new,) = answer(transe, query, Options(solver="harmonic"), Wanted(top=ENTITIES, only_new=True))
    assert set(new.ids[:, 0].tolist()) == set(range(ENTITIES)) - known
    assert [a.rank for a in new] == list(range(1, len(new) + 1))


def test_allow_and_deny_lists(transe: SheafEmbedding) -> None:
    options = Options(solver="harmonic")
    (some,) = answer(transe, path(0, 1), options, Wanted(allow=frozenset({3, 4, 5})))
    assert set(some.ids[:, 0].tolist()) == {3, 4, 5}
    (fewer,) = answer(
        transe, path(0, 1), options, Wanted(allow=frozenset({3, 4, 5}), deny=frozenset({4}))
    )
    assert set(fewer.ids[:, 0].tolist()) == {3, 5}


def test_a_union_is_the_noisy_or_of_its_branches(transe: SheafEmbedding) -> None:
    one, two = path(0, 1).patterns[0], path(3, 2).patterns[0]
    union = Query(("?0",), (one, two))
    options = Options(solver="harmonic", tau=0.5)
    _, chances = scores(transe, [union], options)
    _, first = scores(transe, [Query(("?0",), (one,))], options)
    _, second = scores(transe, [Query(("?0",), (two,))], options)
    torch.testing.assert_close(chances, 1 - (1 - first) * (1 - second))


def test_a_negated_branch_at_the_target_takes_away(transe: SheafEmbedding) -> None:
    graph = transe.graph
    positive, denied = path(0, 1).patterns[0], path(3, 2).patterns[0]
    query = Query(("?0",), (Pattern(positive.edges, (denied,)),))
    energies, chances = scores(transe, [query], Options(solver="harmonic", tau=0.5, kappa=2.0))
    heads, edges = torch.tensor([0, 3]), torch.tensor([1, 2])
    counts = torch.tensor([len(graph.tails(0, 1)), len(graph.tails(3, 2))])
    p = probabilities(transe.score_tails(heads, edges), counts, 0.5)
    expected = p[0] * (1 - (2 * p[1]).clamp(max=1 - 1e-4))
    torch.testing.assert_close(chances[0], expected, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(energies, -chances.log())


def test_negation_at_an_unknown_points_to_chaining(transe: SheafEmbedding) -> None:
    edges = (Edge(0, 0, "?y"), Edge("?y", 1, "?x"))
    query = Query(("?x",), (Pattern(edges, (Pattern((Edge(2, 3, "?y"),)),)),))
    with pytest.raises(InputError, match=r"\?y is an unknown .* use the solver chaining"):
        scores(transe, [query], Options(solver="harmonic"))


def test_relations_with_several_parts_are_asked_for_as_one() -> None:
    schema = Schema(
        ["Person", "Film", "City"],
        [Relation("likes", "Person", "Film"), Relation("likes", "Person", "City")],
    )
    rows = np.array([(0, 0, 2), (0, 1, 4), (1, 0, 3)])
    graph = KnowledgeGraph.from_arrays(*rows.T, schema=schema, entity_types=[0, 0, 1, 1, 2, 2])
    model = SheafEmbedding(model_config("se", dim=4), graph, seed=1)
    energies, _ = scores(model, [path(0, 0)], Options(solver="harmonic"))
    assert energies[0, :2].isinf().all()
    expected = model.score_tails(torch.tensor([0]), torch.tensor([0]))
    torch.testing.assert_close(energies[0, 2:], expected[0, 2:], atol=1e-4, rtol=1e-4)
    (films,) = answer(model, path(0, 0), Options(solver="harmonic"), Wanted(kind="Film"))
    assert set(films.ids[:, 0].tolist()) == {2, 3}


def test_answers_become_frames(transe: SheafEmbedding) -> None:
    (found,) = answer(transe, path(0, 1), Options(solver="harmonic", tau=1.0), Wanted(top=3))
    frame = found.to_polars()
    assert frame.columns == ["rank", "0", "energy", "probability", "known"]
    assert frame["0"].to_list() == [a.names[0] for a in found]
    assert list(found.to_pandas()["energy"]) == found.energies.tolist()


@pytest.mark.parametrize(
    ("options", "name", "message"),
    [
        ({"solver": "magic"}, "transe", "no solver 'magic'"),
        ({"solver": "naive"}, "rotate", "'rotate' has not"),
    ],
)
def test_solvers_say_what_they_cannot_do(
    graph: KnowledgeGraph, options: dict[str, str], name: str, message: str
) -> None:
    model = SheafEmbedding(model_config(name, dim=8), graph)
    with pytest.raises(InputError, match=message):
        answer(model, path(0, 1), Options(**options))  # type: ignore[arg-type]

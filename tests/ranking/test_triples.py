"""Ranks against their definition, by sets and sorting."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graph_cases import knowledge_graphs
from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.ranking import RankMetrics, Ranks, Side, rank_triples
from knowledge_sheaves.ranking.ranker import chunks
from ranking_cases import TableScorer


@st.composite
def rankings(draw: st.DrawFn) -> tuple[KnowledgeGraph, KnowledgeGraph, TableScorer]:
    """Draw two graphs over the same entities, and energies with many ties."""
    graph = draw(knowledge_graphs())
    keep = draw(st.lists(st.booleans(), min_size=graph.num_triples, max_size=graph.num_triples))
    part = graph.with_triples(graph.triples[np.array(keep, bool)])
    shape = (graph.num_entities, len(graph.schema.relation_names), graph.num_entities)
    energies = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 4, shape).astype(float)
    return graph, part, TableScorer(graph, energies)


def brute_force(
    graph: KnowledgeGraph, known: list[KnowledgeGraph], model: TableScorer, side: str
) -> list[tuple[int, int, int]]:
    """Optimistic rank, pessimistic rank and candidates of each triple, by the definition."""
    table = model.table.numpy()
    facts = {row for each in known for row in each.decode(each.triples)}
    names = list(graph.entities)
    found = []
    for (head, edge, tail), (h, r, t) in zip(
        graph.triples.tolist(), graph.decode(graph.triples), strict=True
    ):
        name = int(model.names[edge])
        if side == "tail":
            rivals = [
                table[head, name, x]
                for x in range(len(names))
                if (h, r, names[x]) not in facts - {(h, r, t)}
            ]
        else:
            rivals = [
                table[x, name, tail]
                for x in range(len(names))
                if (names[x], r, t) not in facts - {(h, r, t)}
            ]
        rivals.sort()
        true = table[head, name, tail]
        first = rivals.index(true) + 1
        count = sum(value < np.inf for value in rivals)  # facts fit the types
        found.append((first, first + rivals.count(true) - 1, count))
    return found


def rows_of(ranks: Ranks, side: Side) -> list[tuple[int, int, int]]:
    of = ranks.sides[side]
    columns = (of.optimistic.tolist(), of.pessimistic.tolist(), of.candidates.tolist())
    return list(zip(*columns, strict=True))


@given(rankings(), st.sampled_from([1, 100, 10**9]))
def test_ranks_are_those_of_the_definition(
    case: tuple[KnowledgeGraph, KnowledgeGraph, TableScorer], memory_limit: int
) -> None:
    graph, part, model = case
    # The triples ranked may or may not be among the known ones.
    for known in ([graph], [part], [part, graph]):
        ranks = rank_triples(model, graph.triples, known, memory_limit=memory_limit)
        for side in ("head", "tail"):
            assert rows_of(ranks, side) == brute_force(graph, known, model, side)


@given(rankings(), st.integers(0, 99))
def test_ranks_follow_the_order_of_the_triples(
    case: tuple[KnowledgeGraph, KnowledgeGraph, TableScorer], seed: int
) -> None:
    graph, _, model = case
    mixed = np.random.default_rng(seed).permutation(graph.num_triples).astype(np.int64)
    mixed = np.concatenate((mixed, mixed[:2]))
    straight = rank_triples(model, graph.triples, [graph])
    assert rows_of(rank_triples(model, graph.triples[mixed], [graph]), "both") == rows_of(
        straight[mixed], "both"
    )


def small_graph() -> KnowledgeGraph:
    return KnowledgeGraph.from_triples([("a", "r", "b"), ("a", "r", "c"), ("b", "r", "a")])


def test_one_side_only() -> None:
    graph = small_graph()
    model = TableScorer(graph, np.zeros((3, 1, 3)))
    ranks = rank_triples(model, graph.triples, [graph], side="tail")
    assert ranks.head is None
    assert list(ranks.sides) == ["tail"]
    assert ranks.sides["tail"].realistic.tolist() == [1.5, 1.5, 2.0]


def test_a_model_of_nothing_but_nan_ranks_by_chance() -> None:
    graph = small_graph()
    ranks = rank_triples(TableScorer(graph, np.full((3, 1, 3), np.nan)), graph.triples, [graph])
    both = ranks.sides["both"]
    assert np.array_equal(both.realistic, (both.candidates + 1) / 2)


def test_entities_of_the_wrong_type_come_last_and_are_no_candidates() -> None:
    types = {"Ann": "Person", "Bob": "Person", "Fargo": "Film", "Primer": "Film"}
    graph = KnowledgeGraph.from_triples([("Ann", "likes", "Fargo")], types=types, entities=types)
    model = TableScorer(graph, np.arange(16.0).reshape(4, 1, 4))
    ranks = rank_triples(model, graph.triples, [graph])
    assert rows_of(ranks, "tail") == [(1, 1, 2)]
    assert rows_of(ranks, "head") == [(1, 1, 2)]


def test_an_untrained_model_of_a_typed_graph_is_no_better_than_chance() -> None:
    rng = np.random.default_rng(0)
    types = {f"{kind}{n}": kind for kind in "ABCDE" for n in range(30)}
    pairs = [("A", "B"), ("B", "C"), ("C", "D"), ("D", "E")]
    rows = [
        (f"{a}{rng.integers(30)}", f"{a}{b}", f"{b}{rng.integers(30)}")
        for a, b in pairs
        for _ in range(300)
    ]
    graph = KnowledgeGraph.from_triples(rows, types=types)
    model = TableScorer(graph, rng.random((graph.num_entities, 4, graph.num_entities)))
    ranks = rank_triples(model, graph.triples, [graph]).sides["both"]
    assert abs(RankMetrics.of(ranks).amri) < 0.05


def test_gradients_are_not_recorded_and_models_in_double_precision_work() -> None:
    graph = small_graph()
    weights = torch.zeros(3, dtype=torch.float64, requires_grad=True)

    class Weighted:
        def score_tails(self, heads: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            return weights.repeat(len(heads), 1)

        def score_heads(self, edges: torch.Tensor, tails: torch.Tensor) -> torch.Tensor:
            return weights.repeat(len(tails), 1)

    assert len(rank_triples(Weighted(), graph.triples, [graph]).sides["both"]) == 6


def test_no_triples_have_no_ranks() -> None:
    graph = small_graph()
    ranks = rank_triples(TableScorer(graph, np.zeros((3, 1, 3))), [], [graph])
    assert len(ranks.sides["both"]) == 0


def test_bad_questions_are_refused() -> None:
    graph = small_graph()
    model = TableScorer(graph, np.zeros((3, 1, 3)))
    with pytest.raises(InputError, match="'head', 'tail' or 'both'"):
        rank_triples(model, graph.triples, [graph], side="left")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least one graph"):
        rank_triples(model, graph.triples, [])
    with pytest.raises(InputError, match="share their schema"):
        rank_triples(model, graph.triples, [graph, KnowledgeGraph.from_triples([("a", "s", "b")])])
    with pytest.raises(InputError, match=r"Relations: .* not in range\(1\)"):
        rank_triples(model, [[0, 7, 1]], [graph])


def test_chunks_cover_all_rows_within_the_limit() -> None:
    parts = list(chunks(5000, num_entities=1000, memory_limit=2**20))
    assert [place for part in parts for place in range(part.start, part.stop)] == list(range(5000))
    assert all((part.stop - part.start) * 4000 <= 2**20 for part in parts)


@given(knowledge_graphs(), st.sampled_from(["transe", "rotate", "complex", "mure"]))
def test_our_models_rank_by_their_energies(graph: KnowledgeGraph, name: str) -> None:
    model = SheafEmbedding(model_config(name, dim=4), graph)
    heads, edges, tails = torch.from_numpy(graph.triples.astype(np.int64)).T
    ranks = rank_triples(model, graph.triples, [graph.with_triples(graph.triples[:0])])
    for side, energies, answers in (
        ("tail", model.score_tails(heads, edges), tails),
        ("head", model.score_heads(edges, tails), heads),
    ):
        true = energies.gather(1, answers.unsqueeze(1))
        below = (energies < true - 1e-5).sum(1) + 1
        at_most = (energies <= true + 1e-5).sum(1)
        of = ranks.sides[side]
        # Products of other shapes round differently: near ties may fall either way.
        assert (torch.from_numpy(of.optimistic) >= below).all()
        assert (torch.from_numpy(of.pessimistic) <= at_most).all()
        # What the schema rules out comes behind every true answer.
        assert (torch.from_numpy(of.pessimistic) <= energies.isfinite().sum(1)).all()

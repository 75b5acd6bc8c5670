"""Metrics and reports."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from rich.console import Console

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.evaluation import LinkPredictionReport, evaluate
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.ranking import RankMetrics, SideRanks, rank_triples
from ranking_cases import TableScorer


def ranks_of(optimistic: list[int], pessimistic: list[int], candidates: list[int]) -> SideRanks:
    return SideRanks(np.array(optimistic), np.array(pessimistic), np.array(candidates))


def test_metrics_by_hand() -> None:
    of = RankMetrics.of(ranks_of([1, 1, 4, 11], [1, 2, 4, 11], [11, 21, 31, 41]))
    assert of.count == 4
    assert of.mrr == pytest.approx((1 + 1 / 1.5 + 1 / 4 + 1 / 11) / 4)
    assert of.mean_rank == pytest.approx(17.5 / 4)
    assert (of.hits_at_1, of.hits_at_3, of.hits_at_10) == (0.25, 0.5, 0.75)
    # By chance the mean rank would be the mean of 6, 11, 16 and 21.
    assert of.amri == pytest.approx(1 - (17.5 / 4 - 1) / (13.5 - 1))


def test_metrics_at_the_edges() -> None:
    assert RankMetrics.of(ranks_of([1], [1], [1])).amri == 0
    assert RankMetrics.of(ranks_of([5], [5], [5])).amri == pytest.approx(-1)
    with pytest.raises(InputError, match="at least one triple"):
        RankMetrics.of(ranks_of([], [], []))


def town() -> tuple[Dataset, TableScorer]:
    """People and films; "likes" goes to both, so it has two parts."""
    people, films = ["Ann", "Bob", "Cy"], ["Fargo", "Primer"]
    types = dict.fromkeys(people, "Person") | dict.fromkeys(films, "Film")
    rows = [
        ("Ann", "likes", "Bob"),
        ("Bob", "likes", "Ann"),
        ("Ann", "likes", "Fargo"),
        ("Bob", "[b]saw[/b]", "Primer"),
        ("Cy", "likes", "Ann"),
        ("Cy", "likes", "Primer"),
        ("Ann", "[b]saw[/b]", "Fargo"),
    ]
    everything = KnowledgeGraph.from_triples(rows, types=types)
    train, test = everything.with_triples(rows[:4]), everything.with_triples(rows[4:])
    energies = np.random.default_rng(0).integers(0, 3, (5, 2, 5)).astype(float)
    return Dataset(train, test=test, name="town"), TableScorer(everything, energies)


def test_a_report_adds_up() -> None:
    data, model = town()
    report = evaluate(model, data)
    assert report.triples == 3
    assert report.entities == 5
    assert report.protocol == (
        "filtered, realistic ranks, both sides, known facts of train+test filtered"
    )
    # One line for "likes", though it has two parts in the schema.
    assert {name: of["both"].count for name, of in report.by_relation.items()} == {
        "likes": 4,
        "[b]saw[/b]": 2,
    }
    for side in ("head", "tail", "both"):
        parts = [of[side] for of in report.by_relation.values()]
        total = sum(part.mrr * part.count for part in parts)
        assert report.overall[side].mrr * report.overall[side].count == pytest.approx(total)
    assert report.mrr == report.overall["both"].mrr
    disjoint = [of["both"].count for name, of in report.by_pattern.items() if name != "symmetric"]
    assert sum(disjoint) == report.overall["both"].count
    assert report.patterns["likes"] == ("1-n", "symmetric")


def test_a_report_of_one_side() -> None:
    data, model = town()
    report = evaluate(model, data, side="head")
    assert list(report.overall) == ["head"]
    assert report.mrr == report.overall["head"].mrr
    assert "head side" in report.protocol


def shown(report: LinkPredictionReport) -> str:
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(report.table())
    return console.export_text()


def test_a_report_is_json_and_tables() -> None:
    data, model = town()
    report = evaluate(model, data)
    plain = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert plain["overall"]["both"]["mrr"] == report.mrr
    assert plain["by_relation"]["likes"]["patterns"] == ["1-n", "symmetric"]
    text = shown(report)
    assert f"{report.mrr:.3f}" in text
    assert "[b]saw[/b]" in text
    assert report.protocol in text


def test_only_the_largest_relations_are_shown() -> None:
    rows = [("a", f"r{place}", "b") for place in range(12)] + [("a", "r11", "c")]
    graph = KnowledgeGraph.from_triples(rows)
    model = TableScorer(graph, np.zeros((3, 12, 3)))
    report = LinkPredictionReport.from_ranks(rank_triples(model, graph.triples, [graph]), graph)
    text = shown(report)
    assert "The 10 largest of 12 relations" in text
    assert "r11" in text
    assert "r10" not in text
    assert len(report.to_dict()["by_relation"]) == 12


def test_what_cannot_be_evaluated_is_refused() -> None:
    data, model = town()
    with pytest.raises(InputError, match="'town' has no 'valid' split, only train, test"):
        evaluate(model, data, split="valid")
    empty = Dataset(data.train, test=data.train.with_triples(data.train.triples[:0]))
    with pytest.raises(InputError, match="the split is empty"):
        evaluate(model, empty)


def test_a_report_is_a_frame_of_either_kind() -> None:
    graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    scorer = TableScorer(graph, np.zeros((3, 1, 3)))
    report = evaluate(scorer, Dataset(graph, test=graph))
    frame = report.to_polars()
    assert set(frame["by"]) == {"all", "pattern", "relation"}
    assert frame.filter(by="relation", side="both")["mrr"].to_list() == [report.mrr]
    assert report.to_pandas()["name"].tolist() == frame["name"].to_list()

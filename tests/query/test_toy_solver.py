"""A solver in one file, as "Add a solver" in CONTRIBUTING has it: entities by how often they occur.

It answers one edge at a time, by the number of facts in which an entity stands at that end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
import torch

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query import Explanation, Options, Query, Wanted, answer
from knowledge_sheaves.query.solvers import SOLVERS
from knowledge_sheaves.query.solvers.base import (
    Scores,
    Settings,
    Solver,
    condition_beyond,
    parameter,
    restrict,
)
from matrix_cases import FEATURES, MODELS, check_cell


@dataclass(frozen=True)
class PopularSettings(Settings):
    """What the toy can be told."""

    scale: float = parameter(1.0, "What a fact counts.", above=0)


class Popular(Solver):
    """The more facts an entity has at an end of a relation, the better an answer it is."""

    name = "popular"
    summary = "Entities by the number of facts at that end of the relation."
    Settings = PopularSettings

    def refusal(self, query: Query) -> str | None:
        (pattern, *others), (_, *targets) = query.patterns, query.targets
        alone = not (others or targets or pattern.without or len(pattern.edges) > 1)
        if not alone or condition_beyond(pattern, query.targets) or len(pattern.variables) > 1:
            return "The solver popular answers one edge between an entity and a target."
        return None

    def scores(self, queries: Sequence[Query], chances: bool = True) -> Scores:
        self.check(queries)
        energies = torch.stack([self._energies(query) for query in queries])
        patterns = [query.patterns[0] for query in queries]
        return Scores(restrict(self.model, energies, patterns, queries[0].targets[0], self.false))

    def explain(self, query: Query, answer: Sequence[int]) -> Explanation:
        entities = {query.targets[0]: answer[0]}
        energy = float(self._energies(query)[answer[0]])
        reason = self.reason(query.patterns[0].edges[0], entities, energy, probability=None)
        return Explanation(query.targets[0], self.name, self.named(entities), (reason,))

    def _energies(self, query: Query) -> torch.Tensor:
        (edge,) = query.patterns[0].edges
        graph = self.model.graph.by_name
        mine = graph.triples[graph.triples[:, 1] == int(edge.relation)]
        column = mine[:, 0 if edge.head in query.targets else 2]
        counts = torch.bincount(torch.from_numpy(column).long(), minlength=graph.num_entities)
        return -self.settings.scale * counts.double()


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(SOLVERS, Popular.name, Popular)
    return


@pytest.fixture
def model() -> SheafEmbedding:
    graph = KnowledgeGraph.from_triples([("a", "r", "c"), ("b", "r", "c"), ("a", "r", "b")])
    return SheafEmbedding(model_config("transe", dim=4), graph)


def test_the_toy_answers_by_name(model: SheafEmbedding) -> None:
    query = Query.from_triples([("b", "r", "?x")], "?x", model.graph)
    options = Options("popular", scale=2.0)
    (found,) = answer(model, query, options, Wanted(top=2), explain=2)
    assert [each.names for each in found] == [("c",), ("b",)]
    assert found.energies.tolist() == [-4.0, -2.0]
    assert found.explanation is not None
    assert [reasons.energy for reasons in found.explanation] == [-4.0, -2.0]


def test_the_toy_is_told_by_name_and_refuses_by_name(model: SheafEmbedding) -> None:
    with pytest.raises(InputError, match="scale is a number above 0, not -1"):
        Options("popular", scale=-1.0)
    path = Query.from_triples([("a", "r", "?y"), ("?y", "r", "?x")], "?x", model.graph)
    with pytest.raises(InputError, match="answers one edge"):
        answer(model, path, Options("popular"))


def test_the_toy_gets_the_whole_matrix() -> None:
    taken = [check_cell("popular", {}, kind, feature) for kind in MODELS for feature in FEATURES]
    assert 0 < sum(taken) < len(taken)

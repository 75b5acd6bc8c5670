"""What a step sees: every triple once an epoch, types respected, the same again for one seed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph, Relation, Schema
from knowledge_sheaves.training import TrainingConfig
from knowledge_sheaves.training.batches import Batch, Batches

SCHEMA = Schema(
    ["Person", "Film"],
    [
        Relation("friends", "Person", "Person"),
        Relation("knows", "Person", "Person"),
        Relation("likes", "Person", "Film"),
    ],
)


@pytest.fixture
def graph() -> KnowledgeGraph:
    rng = np.random.default_rng(0)
    people, films = np.arange(20), np.arange(20, 30)
    friends = np.stack([rng.choice(people, 60), rng.integers(0, 2, 60), rng.choice(people, 60)], 1)
    likes = np.stack([rng.choice(people, 40), np.full(40, 2), rng.choice(films, 40)], 1)
    rows = np.concatenate([friends, likes])
    return KnowledgeGraph.from_arrays(*rows.T, schema=SCHEMA, entity_types=[0] * 20 + [1] * 10)


@pytest.fixture
def paired(graph: KnowledgeGraph) -> KnowledgeGraph:
    """The same with a second relation from people to films, so that every one has another."""
    schema = Schema(SCHEMA.types, [*SCHEMA.relations, Relation("saw", "Person", "Film")])
    saw = np.array([[p, 3, 20 + p % 10] for p in range(20)])
    rows = np.concatenate([graph.triples, saw])
    return KnowledgeGraph.from_arrays(*rows.T, schema=schema, entity_types=[0] * 20 + [1] * 10)


def make(graph: KnowledgeGraph, reciprocal: bool = True, **options: object) -> Batches:
    model = SheafEmbedding(model_config("transe", dim=4, reciprocal=reciprocal), graph)
    config = TrainingConfig.from_dict({"batch_size": 16, "negatives": 5, **options})
    return Batches(model, graph, config)


def rows(batches: list[Batch]) -> list[tuple[int, ...]]:
    return sorted(tuple(row) for batch in batches for row in batch.triples.tolist())


def test_every_triple_comes_once_in_both_directions(graph: KnowledgeGraph) -> None:
    batches = make(graph)
    epoch = list(batches.epoch(0))
    forward = [tuple(row) for row in graph.triples.tolist()]
    backward = [(t, r + 3, h) for h, r, t in forward]
    assert rows(epoch) == sorted(forward + backward)
    assert len(epoch) == len(batches)
    assert rows(list(make(graph, reciprocal=False).epoch(0))) == sorted(forward)


def test_a_batch_has_tails_and_negatives_of_one_type(graph: KnowledgeGraph) -> None:
    for batch in make(graph).epoch(3):
        assert (graph.entity_types[batch.triples[:, 2].numpy()] == batch.kind).all()
        assert batch.negatives is not None
        assert (graph.entity_types[batch.negatives.numpy()] == batch.kind).all()
        assert len(batch.negatives) == 5


def test_all_candidates_when_there_are_too_few_to_sample(graph: KnowledgeGraph) -> None:
    assert all(batch.negatives is None for batch in make(graph, negatives=50).epoch(0))
    assert all(batch.negatives is None for batch in make(graph, negatives=None).epoch(0))


def test_the_seed_and_the_epoch_decide(graph: KnowledgeGraph) -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        return [
            b.triples.flatten().tolist() + b.negatives.tolist()
            for b in make(graph, seed=seed).epoch(epoch)
        ]

    assert order(1, 4) == order(1, 4)
    assert order(1, 4) != order(1, 5)
    assert order(1, 4) != order(2, 4)


def test_processes_share_an_epoch(graph: KnowledgeGraph) -> None:
    model = SheafEmbedding(model_config("transe", dim=4), graph)
    config = TrainingConfig(batch_size=16)
    parts = [list(Batches(model, graph, config, rank, 2).epoch(0)) for rank in range(2)]
    assert len(parts[0]) == len(parts[1])
    assert not set(rows(parts[0])) & set(rows(parts[1]))


@pytest.mark.parametrize("how", ["tail", "head", "relation", "both"])
@pytest.mark.parametrize("sampling", ["uniform", "bernoulli"])
def test_corruption_keeps_types_and_changes_one_place(
    paired: KnowledgeGraph, how: str, sampling: str
) -> None:
    graph, always = paired, 1 if how == "relation" else 0
    batches = make(graph, loss="margin", corrupt=how, sampling=sampling)
    changed = torch.zeros(3, dtype=torch.long)
    for batch in batches.epoch(0):
        assert batch.corrupted is not None
        difference = batch.corrupted != batch.triples
        assert (difference.sum(1) <= 1).all()
        assert (difference.sum(1) >= always).all()
        changed += difference.sum(0)
        types = torch.from_numpy(batches.model.edge_types)[batch.corrupted[:, 1]]
        kinds = torch.from_numpy(graph.entity_types)
        assert torch.equal(types[:, 0], kinds[batch.corrupted[:, 0]])
        assert torch.equal(types[:, 1], kinds[batch.corrupted[:, 2]])
    places = {"head": [0], "relation": [1], "tail": [2], "both": [0, 2]}[how]
    assert changed.nonzero().flatten().tolist() == places


@pytest.mark.parametrize("how", ["tail", "vertex"])
def test_known_facts_are_no_negatives_on_request(graph: KnowledgeGraph, how: str) -> None:
    options = {"loss": "margin", "corrupt": how, "subgraph": 3}
    plain, filtered = make(graph, **options), make(graph, **options, filter_negatives=True)

    def known(batches: Batches) -> int:
        return sum(int(batches._known(b.corrupted).sum()) for b in batches.epoch(0))

    assert known(plain) > 0
    assert known(filtered) == 0
    for batch in filtered.epoch(0):
        assert batch.corrupted.shape == batch.triples.shape
        if batch.owner is not None:  # no pair is left empty: it would cost the margin for nothing
            assert batch.owner.unique().tolist() == list(range(int(batch.owner.max()) + 1))


def test_a_relation_that_has_no_other_beside_it_cannot_be_corrupted(graph: KnowledgeGraph) -> None:
    with pytest.raises(InputError, match="'likes' is the only one from 'Person' to 'Film'"):
        make(graph, loss="margin", corrupt="relation")


def test_bernoulli_spares_the_side_with_many_answers() -> None:
    """One head with 50 tails: a corrupted tail may well be true, a corrupted head is not."""
    rows_ = [(0, 0, t) for t in range(1, 51)]
    graph = KnowledgeGraph.from_arrays(*np.array(rows_).T, schema=Schema.single(["of"]))
    batches = make(graph, reciprocal=False, loss="margin", sampling="bernoulli", batch_size=64)
    (batch,) = batches.epoch(0)
    at_tail = (batch.corrupted[:, 2] != batch.triples[:, 2]).sum()
    assert at_tail < 10


def test_stars_are_exchanged_as_a_whole(graph: KnowledgeGraph) -> None:
    batches = make(graph, loss="margin", corrupt="vertex", subgraph=3)
    for batch in batches.epoch(0):
        assert batch.owner is not None
        for pair in batch.owner.unique():
            star, other = (x[batch.owner == pair] for x in (batch.triples, batch.corrupted))
            degree = int((batches.triples[:, 0] == star[0, 0]).sum())
            assert len(star) == len(star.unique(dim=0)) == min(3, degree)
            assert len(star[:, 0].unique()) == len(other[:, 0].unique()) == 1
            assert torch.equal(star[:, 1:], other[:, 1:])
        forward = batch.triples[batch.triples[:, 1] < 3]
        assert graph.contains(forward.numpy()).all()


def test_weighed_candidates_stand_for_all(graph: KnowledgeGraph) -> None:
    """The sum over drawn candidates, each by its share, is right on average."""
    batches = make(graph, negatives=3, weigh_negatives=True, batch_size=8)
    values = torch.rand(graph.num_entities, generator=torch.Generator().manual_seed(0))
    seen: dict[int, list[float]] = {0: [], 1: []}
    for number in range(150):
        for batch in batches.epoch(number):
            assert batch.negatives is not None
            assert batch.log_share is not None
            ids = torch.cat([batch.triples[:, 2], batch.negatives]).unique()
            estimate = values[ids] * (-batch.log_share[ids]).exp()
            if len(batch.triples) == 8:  # the last batch of a type is shorter
                seen[batch.kind].append(float(estimate.sum()))
    for kind, sums in seen.items():
        total = float(values[torch.from_numpy(graph.entity_types == kind)].sum())
        assert np.mean(sums) == pytest.approx(total, abs=4 * np.std(sums) / len(sums) ** 0.5)


def test_stars_take_every_triple_of_an_entity_alike() -> None:
    """Three of five, without repetition: each triple is in three fifths of the stars."""
    rows_ = [(0, 0, t) for t in range(1, 6)]
    graph = KnowledgeGraph.from_arrays(*np.array(rows_).T, schema=Schema.single(["of"]))
    batches = make(graph, reciprocal=False, loss="margin", corrupt="vertex", subgraph=3)
    seen = torch.zeros(6)
    for number in range(500):
        for batch in batches.epoch(number):
            assert len(batch.triples) % 3 == 0
            seen += torch.bincount(batch.triples[:, 2], minlength=6)
    share = seen[1:] / seen.sum() * 3
    assert ((share - 0.6).abs() < 0.06).all()

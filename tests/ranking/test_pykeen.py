"""The same triples and scores give the same metrics as PyKEEN's evaluator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from pykeen.datasets import UMLS
from pykeen.evaluation import RankBasedEvaluator
from pykeen.models import DistMult, Model, TransE
from pykeen.training import SLCWATrainingLoop
from pykeen.triples import CoreTriplesFactory
from torch import Tensor

from knowledge_sheaves.graph import KnowledgeGraph, Schema
from knowledge_sheaves.ranking import RankMetrics, Ranks, rank_triples

SPLITS = ("training", "validation", "testing")


@dataclass
class PykeenScorer:
    """A PyKEEN model: its scores are better the larger, energies the smaller."""

    model: Model

    def score_tails(self, heads: Tensor, edges: Tensor) -> Tensor:
        return -self.model.predict_t(torch.stack((heads, edges), dim=1))

    def score_heads(self, edges: Tensor, tails: Tensor) -> Tensor:
        return -self.model.predict_h(torch.stack((edges, tails), dim=1))


def graphs_of(factories: list[CoreTriplesFactory]) -> list[KnowledgeGraph]:
    schema = Schema.single(str(place) for place in range(factories[0].num_relations))
    return [
        KnowledgeGraph.from_arrays(
            *factory.mapped_triples.numpy().T,
            schema=schema,
            num_entities=factories[0].num_entities,
        )
        for factory in factories
    ]


METRICS = {
    "mrr": "mean_reciprocal_rank",
    "mean_rank": "mean_rank",
    "hits_at_1": "hits@1",
    "hits_at_3": "hits@3",
    "hits_at_10": "hits@10",
    "amri": "adjusted_mean_rank_index",
}


def assert_equals_pykeen(model: Model, factories: list[CoreTriplesFactory]) -> Ranks:
    train, valid, test = (factory.mapped_triples for factory in factories)
    ranks = rank_triples(PykeenScorer(model), test.numpy(), graphs_of(factories))
    evaluator = RankBasedEvaluator(clear_on_finalize=False)
    results = evaluator.evaluate(
        model, test, batch_size=64, additional_filter_triples=[train, valid], use_tqdm=False
    )
    for side in ("head", "tail"):
        for name in ("optimistic", "pessimistic", "realistic"):
            theirs = np.concatenate(evaluator.ranks[side, name])
            assert np.array_equal(getattr(ranks.sides[side], name), theirs)
        theirs = np.concatenate(evaluator.num_candidates[side])
        assert np.array_equal(ranks.sides[side].candidates, theirs)
    for side, values in ranks.sides.items():
        ours = RankMetrics.of(values).to_dict()
        for mine, name in METRICS.items():
            # PyKEEN averages in single precision, so large mean ranks agree relatively.
            their = results.get_metric(f"{side}.realistic.{name}")
            assert ours[mine] == pytest.approx(their, rel=1e-6, abs=1e-6), (side, mine)
    return ranks


@pytest.mark.parametrize(("kind", "epochs"), [(TransE, 2), (DistMult, 0)])
def test_umls(kind: type[Model], epochs: int) -> None:
    factories = [UMLS().factory_dict[split] for split in SPLITS]
    model = kind(triples_factory=factories[0], embedding_dim=16, random_seed=0)
    if epochs:
        loop = SLCWATrainingLoop(model=model, triples_factory=factories[0])
        loop.train(factories[0], num_epochs=epochs, use_tqdm=False)
    # In double precision the sizes of batches cannot change the order of near ties.
    assert_equals_pykeen(model.eval().double(), factories)


class Rounded(TransE):
    """A model with many ties: its scores are whole numbers."""

    def score_t(self, *args: object, **kwargs: object) -> Tensor:
        return super().score_t(*args, **kwargs).round()

    def score_h(self, *args: object, **kwargs: object) -> Tensor:
        return super().score_h(*args, **kwargs).round()


@pytest.mark.parametrize("seed", range(5))
def test_random_graphs_with_many_ties(seed: int) -> None:
    generator = np.random.default_rng(seed)
    sizes = (30, 4, 30)
    rows = np.unique(generator.integers(0, sizes, (300, 3)), axis=0)
    parts = [torch.from_numpy(part) for part in np.split(generator.permutation(rows), (200, 240))]
    factories = [CoreTriplesFactory(part, sizes[0], sizes[1]) for part in parts]
    model = Rounded(triples_factory=factories[0], embedding_dim=4, random_seed=seed)
    both = assert_equals_pykeen(model.eval().double(), factories).sides["both"]
    assert (both.optimistic < both.pessimistic).mean() > 0.5

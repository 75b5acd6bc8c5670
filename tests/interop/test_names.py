"""PyKEEN numbers entities otherwise than we do: models meet data of the other side by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pykeen.datasets import Nations
from pykeen.evaluation import RankBasedEvaluator
from pykeen.models import RotatE
from pykeen.triples import CoreTriplesFactory, TriplesFactory

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.evaluation import evaluate
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.interop import from_pykeen, to_pykeen
from knowledge_sheaves.training import TrainingConfig, train

DATA = load("nations")


def their_mrr(model: Any, data: Nations) -> float:
    results = RankBasedEvaluator().evaluate(
        model,
        data.testing.mapped_triples,
        additional_filter_triples=[data.training.mapped_triples, data.validation.mapped_triples],
        use_tqdm=False,
        batch_size=32,
    )
    return float(results.get_metric("both.realistic.mean_reciprocal_rank"))


@pytest.mark.parametrize("name", ["complex", "transe"])
def test_pykeen_measures_a_model_of_ours_as_we_do(name: str) -> None:
    assert list(DATA.train.entities) != list(Nations().training.entity_to_id)
    config = model_config(name, dim=16, reciprocal=name == "complex")
    ours = train(DATA, config, TrainingConfig(epochs=8, batch_size=256, negatives=None, threads=1))
    theirs = Nations()
    model = to_pykeen(ours, theirs.training)
    assert their_mrr(model, theirs) == pytest.approx(evaluate(ours, DATA).mrr, abs=1e-5)
    # Every way of scoring speaks of the same facts.
    rows = theirs.testing.mapped_triples[:5]
    with torch.no_grad():
        whole = model.score_hrt(rows).squeeze(1)
        by_tail = model.score_t(rows[:, :2]).gather(1, rows[:, 2:]).squeeze(1)
        by_head = model.score_h(rows[:, 1:]).gather(1, rows[:, :1]).squeeze(1)
        by_relation = model.score_r(rows[:, [0, 2]]).gather(1, rows[:, 1:2]).squeeze(1)
    torch.testing.assert_close(by_tail, whole, rtol=1e-3, atol=1e-3)
    if name == "transe":
        torch.testing.assert_close(by_head, whole, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(by_relation, whole, rtol=1e-3, atol=1e-3)
    names = theirs.training.entity_id_to_label
    head, relation = rows[0, 0].item(), theirs.training.relation_id_to_label[rows[0, 1].item()]
    ids = ours.graph.encode([(names[head], relation, names[rows[0, 2].item()])])
    if name == "transe":
        assert float(whole[0]) == pytest.approx(-float(ours.scores(ids)[0].detach()), rel=1e-3)


def test_we_measure_a_model_of_pykeen_as_it_does() -> None:
    theirs = Nations()
    model = RotatE(triples_factory=theirs.training, embedding_dim=8, random_seed=1)
    ours = from_pykeen(model, theirs.training)
    assert evaluate(ours, DATA).mrr == pytest.approx(their_mrr(model, theirs), abs=1e-4)


def test_what_cannot_be_matched_by_name_is_refused() -> None:
    theirs = Nations().training
    other = KnowledgeGraph.from_triples([("Ann", "knows", "Bob"), ("Bob", "knows", "Cy")])
    model = SheafEmbedding(model_config("transe", dim=4), other)
    with pytest.raises(InputError, match=r"lacks .* of the entities, such as 'brazil'"):
        to_pykeen(model, theirs)
    with pytest.raises(InputError, match="have no names"):
        to_pykeen(model, CoreTriplesFactory(theirs.mapped_triples, 14, 55))
    with pytest.raises(InputError, match=r"lacks 14 of the entities"):
        evaluate(model, DATA)
    typed = KnowledgeGraph.from_triples(
        [("Ann", "likes", "Bob"), ("Ann", "likes", "Fargo")],
        types={"Ann": "P", "Bob": "P", "Fargo": "F"},
    )
    named = TriplesFactory.from_labeled_triples(np.array([["Ann", "likes", "Fargo"]]))
    with pytest.raises(InputError, match="'likes' connects several pairs of types"):
        to_pykeen(SheafEmbedding(model_config("transe", dim=4), typed), named)


def test_a_graph_numbered_otherwise_is_the_same_graph() -> None:
    """The order of names in a data set does not change how good a model is on it."""
    graph = DATA.train
    order = np.random.default_rng(0).permutation(graph.num_entities)
    names = graph.entities.names(order.tolist())
    turned = KnowledgeGraph.from_triples(graph.decode(graph.triples), entities=names)
    assert DATA.test is not None
    test = DATA.test.decode(DATA.test.triples)
    model = SheafEmbedding(model_config("transe", dim=8), graph, seed=2)
    plain, other = Dataset(graph, test=DATA.test), Dataset(turned, test=turned.with_triples(test))
    assert evaluate(model, plain).mrr == pytest.approx(evaluate(model, other).mrr, rel=1e-9)

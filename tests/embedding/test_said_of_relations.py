"""What a schema says of relations holds for the maps of every model that can, however trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from knowledge_sheaves.embedding import CATALOGUE, SheafConfig, SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.evaluation import evaluate
from knowledge_sheaves.graph import KnowledgeGraph, Relation, Schema
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.training import TrainingConfig, train
from knowledge_sheaves.training.objective import implied_edges

ROWS = [("Ann", "r", "Bob"), ("Bob", "r", "Cy"), ("Ann", "s", "Cy")]


def build(name: str, *says: dict[str, Any], **options: Any) -> SheafEmbedding:
    """A model over the relations r and s, with noise for parameters."""
    relations = [Relation(n, "T", "T", **said) for n, said in zip("rs", says, strict=False)]
    relations += [Relation("s", "T", "T")] * (len(says) == 1)
    types = {name: "T" for row in ROWS for name in row[::2]}
    graph = KnowledgeGraph.from_triples(ROWS, schema=Schema(["T"], relations), types=types)
    model = SheafEmbedding(model_config(name, dim=12, **options), graph)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))
        model.refresh()
    return model


@pytest.mark.parametrize("reciprocal", [True, "tied", False])
@pytest.mark.parametrize("name", list(CATALOGUE))
def test_an_inverse_is_the_relation_read_backwards(name: str, reciprocal: bool | str) -> None:
    config = CATALOGUE[name]
    try:
        model = build(name, {}, {"inverse_of": "r"}, reciprocal=reciprocal)
    except InputError:
        pytest.skip(f"{name} has no reciprocal: {reciprocal}")
    if reciprocal:  # whoever asks for heads of r and who asks for tails of s asks one and the same
        asked = torch.tensor([0, 1, 2])
        heads = model.score_heads(torch.zeros_like(asked), asked)
        torch.testing.assert_close(heads, model.score_tails(asked, torch.ones_like(asked)))
        tails = model.score_tails(asked, torch.zeros_like(asked))
        torch.testing.assert_close(tails, model.score_heads(torch.ones_like(asked), asked))
    if reciprocal is not True and not config.lifted:
        forwards, backwards = model.energies([[0, 0, 1]]), model.energies([[1, 1, 0]])
        torch.testing.assert_close(forwards, backwards)


def test_an_inverse_has_no_maps_of_its_own() -> None:
    apart, tied = build("se", {}), build("se", {}, {"inverse_of": "r"})
    assert tied.maps.parameters_of[0].shape[0] == apart.maps.parameters_of[0].shape[0] // 2


@pytest.mark.parametrize("name", ["complex", "quate", "rescal"])
@pytest.mark.parametrize("reciprocal", [True, False])
def test_an_antisymmetric_relation_changes_its_sign_with_its_ends(
    name: str, reciprocal: bool
) -> None:
    model = build(name, {"antisymmetric": True}, reciprocal=reciprocal)
    blocks = model.maps.map("head", 0).blocks
    torch.testing.assert_close(blocks, -blocks.mT)
    assert blocks.abs().sum() > 0
    if reciprocal:
        torch.testing.assert_close(model.maps.map("head", 2).blocks, -blocks)
    (sizes,) = model.maps.sizes("head", torch.tensor([0]))
    assert sizes.shape == (1, model.n_blocks)


@pytest.mark.parametrize(
    ("name", "message"), [("rotate", "no maps make a distance so"), ("distmult", "but for 0")]
)
def test_what_cannot_be_antisymmetric_is_refused(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(name, {"antisymmetric": True})


@pytest.mark.parametrize("name", ["se", "pairre", "translational"])
def test_an_inverse_functional_relation_has_an_injective_head_map(name: str) -> None:
    model = build(name, {"inverse_functional": True})
    blocks = model.maps.map("head", 0).blocks
    eye = torch.eye(blocks.shape[-1]).expand(len(blocks), -1, -1)
    torch.testing.assert_close(blocks.mT @ blocks, eye, atol=1e-4, rtol=1e-4)
    backwards = model.maps.map("tail", 2).blocks
    torch.testing.assert_close(backwards.mT @ backwards, eye, atol=1e-4, rtol=1e-4)
    other = model.maps.map("head", 1).blocks
    assert not torch.allclose(other.mT @ other, eye, atol=1e-2)


@pytest.mark.parametrize("name", ["se", "pairre", "translational", "rescal"])
def test_a_functional_relation_has_an_injective_tail_map_and_its_reciprocal_a_head_map(
    name: str,
) -> None:
    model = build(name, {"functional": True})
    injective = [("tail", 0), ("head", 2)]
    for end, edge in [*injective, ("head", 0), ("tail", 2)]:
        blocks = model.maps.map(end, edge).blocks
        eye = torch.eye(blocks.shape[-1]).expand(len(blocks), -1, -1)
        close = torch.allclose(blocks.mT @ blocks, eye, atol=1e-3)
        identity = model.config.tail == "identity" and end == "tail"
        assert close == ((end, edge) in injective or identity)


def test_what_forgets_is_not_injective() -> None:
    with pytest.raises(InputError, match="'r' needs an injective head map, so its dimension"):
        build("se", {"inverse_functional": True, "dim": 6})
    with pytest.raises(InputError, match="a projection map is not: choose another model, or drop"):
        build("transh", {"inverse_functional": True})


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ({"inverse_of": "q"}, "'r' is inverse_of 'q', which is no relation in the schema"),
        ({"inverse_of": "r"}, "cannot be inverse_of itself"),
        ({"subproperty_of": "q"}, "'r' is subproperty_of 'q', which is no relation"),
        ({"symmetric": True, "antisymmetric": True}, "marked symmetric and antisymmetric"),
        ({"inverse_of": 3}, "inverse_of 3 must be a name"),
        ({"antisymmetric": "yes"}, "antisymmetric must be true or false"),
    ],
)
def test_nonsense_is_refused(says: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build("se", says)


def test_an_inverse_goes_back_between_the_types() -> None:
    relations = [Relation("r", "A", "B"), Relation("s", "A", "B", inverse_of="r")]
    with pytest.raises(InputError, match="inverse_of 'r', which is no relation from 'B' to 'A'"):
        Schema(["A", "B"], relations)


@pytest.mark.parametrize("reciprocal", [True, "tied", False])
@pytest.mark.parametrize("name", ["se", "translational", "transr", "pairre"])
def test_what_a_relation_implies_has_its_maps_and_one_more(
    name: str, reciprocal: bool | str
) -> None:
    model = build(name, {"subproperty_of": "s"}, reciprocal=reciprocal)
    assert model.maps.through is not None
    for edge in (0, 2) if reciprocal else (0,):
        forwards = model.ends([[0, edge, 1]])
        implied = model.ends([[0, edge + 1, 1]])
        number = int(model.maps.through_of[edge + 1])
        behind = model.maps.through[number].unflatten(-1, (model.maps.rows,) * 2)
        for mine, other in zip(implied, forwards, strict=True):
            torch.testing.assert_close(mine[0], behind @ other[0], atol=1e-4, rtol=1e-4)
        for end in ("head", "tail"):
            made, own = (model.maps.map(end, e).blocks for e in (edge + 1, edge))
            torch.testing.assert_close(made, behind @ own, atol=1e-4, rtol=1e-4)
    triples = [[0, 0, 1], [0, 1, 1]]
    assert torch.equal(model.energies(triples), again(model).energies(triples))


def again(model: SheafEmbedding) -> SheafEmbedding:
    """The model with its parameters in another one of its kind."""
    other = SheafEmbedding(model.config, model.graph)
    other.load_state_dict(model.state_dict())
    return other


def test_what_follows_from_several_is_left_to_the_penalty() -> None:
    says = {"subproperty_of": "s"}
    assert build("se", says, {"symmetric": True}).maps.through is None
    assert build("complex", says).maps.through is None


# What it gains.


def learned(data: Dataset, config: SheafConfig, **says: dict[str, Any]) -> SheafEmbedding:
    """A model of the data under a schema that says more of its relations."""
    schema = data.train.schema.saying(says)

    def told(graph: KnowledgeGraph) -> KnowledgeGraph:
        return KnowledgeGraph(schema, graph.entities, graph.entity_types, *graph.triples.T)

    parts = {name: told(graph) for name, graph in data.splits.items()}
    how = TrainingConfig(epochs=30, batch_size=64, learning_rate=0.2, n3=0.005, seed=1)
    return train(Dataset(**parts), config, how)


def halves(second: str, backwards: bool) -> Dataset:
    """Facts of r about all, and of what follows from it about half; the others are to be found."""
    random = np.random.default_rng(0)
    pairs = {tuple(pair) for pair in random.integers(40, size=(160, 2)).tolist()}
    rows = sorted((f"e{a}", "r", f"e{b}") for a, b in pairs)
    follow = [(t, second, h) if backwards else (h, second, t) for h, _, t in rows]
    order = random.permutation(len(follow))
    known, asked = order[: len(order) // 8], order[len(order) // 8 :]
    train_ = KnowledgeGraph.from_triples(rows + [follow[i] for i in known])
    held_out = [follow[i] for i in asked]
    return Dataset(train_, test=train_.with_triples(held_out))


@pytest.mark.parametrize(
    ("backwards", "says"),
    [(True, {"s": {"inverse_of": "r"}}), (False, {"r": {"subproperty_of": "s"}})],
)
def test_facts_that_follow_are_found(backwards: bool, says: dict[str, dict[str, Any]]) -> None:
    data, config = halves("s", backwards), model_config("complex", dim=24)
    without = evaluate(learned(data, config), data).mrr
    told = evaluate(learned(data, config, **says), data).mrr
    assert told > without + 0.1, (told, without)


def test_an_order_is_learnt_as_one() -> None:
    random = np.random.default_rng(0)
    pairs = [(a, b) for a in range(30) for b in range(30) if a < b]
    order = random.permutation(len(pairs))
    rows = [(f"e{pairs[i][0]}", "before", f"e{pairs[i][1]}") for i in order]
    train_ = KnowledgeGraph.from_triples(rows[:90], entities=[f"e{i}" for i in range(30)])
    data = Dataset(train_, test=train_.with_triples(rows[90:]))
    config = model_config("complex", dim=24)

    def told_apart(model: SheafEmbedding) -> float:
        assert data.test is not None
        triples = torch.from_numpy(data.test.triples.astype(np.int64))
        energy = model.config.energy
        with torch.no_grad():
            right = energy.similarity(model, *model.ends(triples))
            turned = energy.similarity(model, *model.ends(triples[:, [2, 1, 0]]))
        return float((right > turned).float().mean())

    without = told_apart(learned(data, config))
    told = told_apart(learned(data, config, before={"antisymmetric": True}))
    assert told > without + 0.02, (told, without)


def test_what_is_implied_is_so_in_both_directions() -> None:
    model = build("complex", {"subproperty_of": "s"})
    implied = implied_edges(model)
    assert implied is not None
    assert implied.tolist() == [1, -1, 3, -1]

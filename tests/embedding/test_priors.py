"""What a schema says of a relation is honoured by its maps or refused, never dropped."""

from __future__ import annotations

import pytest
import torch

from knowledge_sheaves.embedding import CATALOGUE, SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph, Relation, Schema
from knowledge_sheaves.sheaf import BlockMap

ROWS = [("Ann", "r", "Bob"), ("Bob", "r", "Cy"), ("Ann", "s", "Cy")]


def build(name: str, options: dict[str, object] | None = None, **says: object) -> SheafEmbedding:
    """A model over the relations r, of which the schema says something, and s."""
    relations = [Relation("r", "T", "T", **says), Relation("s", "T", "T")]  # type: ignore[arg-type]
    schema = Schema(["T"], relations)
    types = {name: "T" for row in ROWS for name in row[::2]}
    graph = KnowledgeGraph.from_triples(ROWS, schema=schema, types=types)
    model = SheafEmbedding(model_config(name, dim=12, **(options or {})), graph)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return model


LIFTED = [name for name, row in CATALOGUE.items() if row.lifted]


@pytest.mark.parametrize("name", LIFTED)
@pytest.mark.parametrize("reciprocal", [True, False])
def test_a_symmetric_relation_of_a_lifted_model_scores_both_directions_alike(
    name: str, reciprocal: bool
) -> None:
    model = build(name, {"reciprocal": reciprocal}, symmetric=True)
    blocks = model.maps.map("head", 0).blocks
    torch.testing.assert_close(blocks, blocks.mT)
    other = model.maps.map("head", 1).blocks
    assert blocks.shape[-1] == 1 or not torch.allclose(other, other.mT)
    if reciprocal:  # read backwards it is the relation itself
        assert torch.equal(blocks, model.maps.map("head", 2).blocks)
    energies = model.energies([[0, 0, 1], [1, 0, 0]]).detach()
    map_ = BlockMap(blocks.detach())
    lengths = [float((map_ @ x).square().sum()) for x in flat(model)[:2]]
    products = energies - torch.tensor(lengths)  # M² − 2⟨R x_h, x_t⟩
    torch.testing.assert_close(products[0], products[1], atol=1e-4, rtol=1e-4)


def flat(model: SheafEmbedding) -> torch.Tensor:
    return model.entities.of_type(0).detach().flatten(1)


@pytest.mark.parametrize("name", ["complex", "rescal"])
def test_symmetric_maps_of_a_lifted_model_are_learnt_and_regularised(name: str) -> None:
    model = build(name, symmetric=True)
    (sizes,) = model.maps.sizes("head", torch.tensor([0]))
    assert sizes.shape == (1, model.n_blocks)
    model.energies([[0, 0, 1]]).sum().backward()
    group = int(model.maps.index[0, 0, 0])
    gradient = model.maps.parameters_of[group].grad
    assert gradient is not None
    assert gradient.abs().sum() > 0


def test_a_lifted_rotation_cannot_be_symmetric() -> None:
    with pytest.raises(InputError, match="'r' is symmetric, and a rotation map is not its own"):
        build("complex", {"head": "rotation"}, symmetric=True)


@pytest.mark.parametrize("name", ["transe", "rotate", "complex", "mure"])
def test_a_dimension_of_its_own_needs_a_tail_map(name: str) -> None:
    with pytest.raises(InputError, match="'r' has dimension 6, but a tail map that is the identi"):
        build(name, dim=6)
    build(name, dim=12)


@pytest.mark.parametrize("name", ["transr", "se", "translational", "pairre"])
def test_a_functional_relation_has_an_injective_tail_map_also_where_it_is_tied(name: str) -> None:
    model = build(name, functional=True)
    tail = model.maps.map("tail", 0)
    torch.testing.assert_close(tail.gram().dense(), torch.eye(12), atol=1e-5, rtol=0)
    if model.config.tail == "tied":
        assert torch.equal(tail.blocks, model.maps.map("head", 0).blocks)
    other = model.maps.map("tail", 1).gram().dense()
    assert not torch.allclose(other, torch.eye(12), atol=1e-2)


@pytest.mark.parametrize(
    ("name", "options", "says", "message"),
    [
        ("transh", {}, {}, "needs an injective tail map, and a projection map is not"),
        ("se", {}, {"dim": 4}, "its dimension cannot be below that of 'T'"),
        ("se-orthogonal", {}, {"dim": 4}, "its dimension cannot be below that of 'T'"),
        ("transr", {}, {"dim": 4}, "its dimension cannot be below that of 'T'"),
    ],
)
def test_what_cannot_be_injective_is_refused(
    name: str, options: dict[str, object], says: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        build(name, options, functional=True, **says)

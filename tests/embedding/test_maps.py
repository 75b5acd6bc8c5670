"""Maps of relations, applied to many triples at once, against their definition."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_sheaves.embedding.maps import MapSpec, RelationMaps


def make_maps(count: int, n_blocks: int, rows: int, cols: int) -> RelationMaps:
    """Free maps with random entries, in float64."""
    specs = [
        [MapSpec("free", rows, cols, (end, edge)) for edge in range(count)]
        for end in ("head", "tail")
    ]
    maps = RelationMaps(n_blocks, *specs).double()
    maps.reset(torch.Generator().manual_seed(count), 1.0, near_identity=False)
    return maps


@settings(max_examples=40, deadline=None)
@given(
    edges=st.lists(st.integers(0, 4), max_size=60),
    n_blocks=st.integers(1, 2),
    shape=st.sampled_from([(2, 3), (9, 12), (12, 9), (16, 16)]),
    sections=st.sampled_from([1, 2, 3, 100]),
    adjoint=st.booleans(),
)
def test_applying_maps_is_one_product_for_every_triple(
    edges: list[int], n_blocks: int, shape: tuple[int, int], sections: int, adjoint: bool
) -> None:
    maps = make_maps(5, n_blocks, *shape)
    width = shape[0] if adjoint else shape[1]
    x = torch.randn(len(edges), n_blocks, width, sections, dtype=torch.float64, requires_grad=True)
    found = maps.apply_map("head", torch.tensor(edges, dtype=torch.long), x, adjoint=adjoint)
    wanted = [
        (block.mT if adjoint else block) @ vectors
        for edge, vectors in zip(edges, x, strict=True)
        for block in [maps.map("head", edge).blocks]
    ]
    assert found.shape == (len(edges), n_blocks, shape[1] if adjoint else shape[0], sections)
    if not edges:
        return
    torch.testing.assert_close(found, torch.stack(wanted))
    inputs = [x, *maps.parameters()]
    weights = torch.randn_like(found)
    ours = torch.autograd.grad((found * weights).sum(), inputs)
    theirs = torch.autograd.grad((torch.stack(wanted) * weights).sum(), inputs)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("count", [1, 70])
def test_many_triples_of_one_relation_share_its_blocks(count: int) -> None:
    maps = make_maps(count, 1, 9, 9)
    edges = torch.arange(count).repeat_interleave(torch.arange(count) + 150)
    x = torch.randn(len(edges), 1, 9, 1, dtype=torch.float64)
    shuffled = torch.randperm(len(edges), generator=torch.Generator().manual_seed(0))
    found = maps.apply_map("tail", edges[shuffled], x[shuffled])
    torch.testing.assert_close(found, maps.blocks("tail", edges[shuffled]) @ x[shuffled])

"""Row-wise optimisers against torch's own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from knowledge_sheaves.training.optimisers import OPTIMISERS, RowOptimiser

PEERS = {"adagrad": torch.optim.Adagrad, "adam": torch.optim.Adam}


def run(
    table: nn.Parameter, optimiser: torch.optim.Optimizer, rows: list[torch.Tensor], sparse: bool
) -> None:
    weights = torch.linspace(1, 2, table.shape[1])
    for chosen in rows:
        optimiser.zero_grad()
        looked_up = nn.functional.embedding(chosen, table, sparse=sparse)
        ((looked_up * weights).sum(1) - 1).square().sum().backward()
        optimiser.step()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", ["adagrad", "adam"])
def test_all_rows_touched_is_the_usual_algorithm(name: str, sparse: bool) -> None:
    start = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    rows = [torch.randperm(6).repeat(2) for _ in range(5)]
    run(ours, OPTIMISERS[name]([ours], lr=0.1), rows, sparse)
    run(theirs, PEERS[name]([theirs], lr=0.1), rows, sparse=False)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_untouched_rows_stay_as_they_are(name: str) -> None:
    table = nn.Parameter(torch.randn(6, 3))
    before = table.detach().clone()
    optimiser: RowOptimiser = OPTIMISERS[name]([table], lr=0.1)
    run(table, optimiser, [torch.tensor([1, 4, 4])] * 3, sparse=True)
    moved = (table.detach() != before).any(1)
    assert moved.tolist() == [False, True, False, False, True, False]
    untouched = optimiser.state[table]
    assert all(not value[0].any() for value in untouched.values())


def test_rowwise_adagrad_keeps_one_number_a_row() -> None:
    """The sum of the mean squared gradients of a row, by which all of the row is divided."""
    start = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    table = nn.Parameter(start.clone())
    optimiser = OPTIMISERS["rowwise-adagrad"]([table], lr=0.1)
    expected, total = start.clone(), torch.zeros(3)
    for step in range(3):
        table.grad = torch.randn(3, 4, generator=torch.Generator().manual_seed(step))
        optimiser.step()
        total += table.grad.square().mean(1)
        expected -= 0.1 * table.grad / total.sqrt().unsqueeze(1)
    assert optimiser.state[table]["sum"].shape == (3,)
    torch.testing.assert_close(table.detach(), expected)


def test_sparse_adagrad_is_torchs_sparse_adagrad() -> None:
    start = torch.randn(6, 3)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    rows = [torch.tensor([0, 1, 1]), torch.tensor([1, 5])]
    run(ours, OPTIMISERS["adagrad"]([ours], lr=0.1), rows, sparse=True)
    run(theirs, torch.optim.Adagrad([theirs], lr=0.1), rows, sparse=True)
    torch.testing.assert_close(ours, theirs)


def test_a_parameter_without_gradient_is_left_alone() -> None:
    table = nn.Parameter(torch.ones(2, 2))
    optimiser = OPTIMISERS["adagrad"]([table], lr=0.1)
    assert optimiser.step(lambda: 3.0) == 3.0
    assert torch.equal(table, torch.ones(2, 2))

"""Forms that return are not multiplied out again, and give what dense arithmetic gives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from knowledge_sheaves.sheaf import Candidates, monomials

N_BLOCKS, WIDTH, POINTS = 4, 2, 6
Form = tuple[Tensor, Tensor, Tensor]


@pytest.fixture(params=["block", "general", "wide"])
def squares(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """Five S, of which each is to be met often."""
    s = torch.randn(5, N_BLOCKS, WIDTH, WIDTH, generator=seeded(1), dtype=torch.float64)
    if request.param == "block":
        return s[..., :1, :1].abs() * torch.eye(WIDTH, dtype=torch.float64)
    if request.param == "wide":
        monkeypatch.setattr(monomials, "WIDEST_EXPANDED_BLOCK", 1)
    return s @ s.mT


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def forms(squares: Tensor, which: list[int], seed: int) -> Form:
    """Queries that share S, each with known entities of its own."""
    linear = torch.randn(
        len(which), N_BLOCKS, WIDTH, 1, generator=seeded(seed), dtype=torch.float64
    )
    return squares[which], linear, linear.sum((1, 2, 3))


def points() -> Tensor:
    return torch.randn(POINTS, N_BLOCKS * WIDTH, generator=seeded(2), dtype=torch.float64)


def dense(form: Form, x: Tensor) -> Tensor:
    square, linear, constant = form
    whole = torch.stack([torch.block_diag(*s) for s in square])
    quadratic = torch.einsum("pi,bij,pj->bp", x, whole, x)
    return quadratic + 2 * linear.flatten(1) @ x.T + constant[:, None]


def test_forms_may_come_in_any_order_and_number(squares: Tensor) -> None:
    candidates = Candidates(points(), N_BLOCKS)
    asked = [[0], [0], [0], [1, 2], [2, 0, 2, 3], [4, 4], [3, 1, 0], [0, 1, 2, 3, 4], [4]]
    for seed, which in enumerate(asked):
        form = forms(squares, which, seed)
        torch.testing.assert_close(candidates.evaluate(*form), dense(form, points()))


def test_what_returns_is_kept_and_no_more_than_the_points_are(squares: Tensor) -> None:
    candidates = Candidates(points(), N_BLOCKS)
    for which in ([0], [0]):
        candidates.evaluate(*forms(squares, which, 0))
    candidates.monomials = candidates.blocks = None  # type: ignore[method-assign,assignment]
    form = forms(squares, [0, 0], 7)
    torch.testing.assert_close(candidates.evaluate(*form), dense(form, points()))

    candidates = Candidates(points(), N_BLOCKS)
    for seed in range(40):
        other = squares * (1 + seed)
        for form in (forms(other, [0, 0, 1], seed), forms(other, [1, 0], seed)):
            torch.testing.assert_close(candidates.evaluate(*form), dense(form, points()))
            assert len(candidates.squares) <= N_BLOCKS * WIDTH


def test_a_form_met_once_takes_no_room(squares: Tensor) -> None:
    candidates = Candidates(points(), N_BLOCKS)
    candidates.evaluate(*forms(squares, [0, 1, 2], 0))
    assert len(candidates.squares) == 0


def test_gradients_flow_through_forms_that_were_kept(squares: Tensor) -> None:
    candidates = Candidates(points(), N_BLOCKS)
    for _ in range(2):
        candidates.evaluate(*forms(squares, [0], 0))
    square, linear, constant = forms(squares, [0], 0)
    candidates.evaluate(square.clone().requires_grad_(), linear, constant).sum().backward()
    slope = linear.clone().requires_grad_()
    candidates.evaluate(square, slope, constant).sum().backward()
    assert slope.grad is not None
    torch.testing.assert_close(slope.grad.flatten(), 2 * points().sum(0))

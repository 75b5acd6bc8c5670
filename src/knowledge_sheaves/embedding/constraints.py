"""Constraints on restriction maps: how free numbers become the blocks of a map.

A constraint is a function from parameters (..., count) to blocks (..., rows, cols), together with
what is known of its Gram matrix FᵀF. Everything else about a model is the same code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor, nn

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.sheaf import BlockMap

Build = Callable[[Tensor, int, int], Tensor]


class Gram(IntEnum):
    """What FᵀF looks like, from the most special to the most general."""

    IDENTITY = 1
    BLOCK_MULTIPLE = 2
    GENERAL = 3


@dataclass(frozen=True)
class Constraint:
    """A family of maps: ``build(parameters, rows, cols)`` makes the blocks."""

    name: str
    count: Callable[[int, int], int]
    build: Build
    start: Callable[[int, int], Tensor]
    """Parameters of the map nearest to the identity: where learning starts, plus noise."""
    gram: Gram
    size: int | None = None
    """The only block size it makes sense for."""
    square: bool = False
    """Whether its blocks have as many rows as columns, whatever their size."""
    injective: bool = True
    """Whether maps with enough rows forget nothing, but for exceptions of measure zero."""

    def __reduce__(self) -> tuple[Callable[[str], Constraint], tuple[str]]:
        return _named, (self.name,)  # models are pickled by others, and functions cannot be

    def check(self, rows: int, cols: int) -> None:
        if self.size is not None and (rows, cols) != (self.size, self.size):
            raise InputError(
                f"A {self.name} map has blocks of size {self.size} × {self.size}, not "
                f"{rows} × {cols}: set block to {self.size} and give all stalks one dimension."
            )
        if self.square and rows != cols:
            raise InputError(
                f"A {self.name} map is square, not {rows} × {cols}: give the stalks of relations "
                "and types one dimension."
            )

    def gram_for(self, rows: int, cols: int) -> Gram:
        """What is known of FᵀF for blocks of this size."""
        if rows < cols:  # maps that forget something have no identity for a Gram matrix
            return Gram.GENERAL
        return Gram.BLOCK_MULTIPLE if self.gram is Gram.GENERAL and cols == 1 else self.gram


def _named(name: str) -> Constraint:
    return CONSTRAINTS[name]


def _identity(parameters: Tensor, rows: int, cols: int) -> Tensor:
    return _eye(rows, cols, parameters).expand(*parameters.shape[:-1], rows, cols)


def _orthogonal(parameters: Tensor, rows: int, cols: int) -> Tensor:
    """Orthonormal columns (rows where those are fewer), by QR with positive diagonal."""
    matrix = parameters.unflatten(-1, (rows, cols))
    if rows < cols:
        return _orthogonal(matrix.mT.flatten(-2), cols, rows).mT
    q, r = torch.linalg.qr(matrix)
    return q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)


def _projection(parameters: Tensor, rows: int, cols: int) -> Tensor:
    """I − w wᵀ: forget one direction (TransH's hyperplane)."""
    w = torch.nn.functional.normalize(parameters, dim=-1)
    return _eye(cols, cols, w) - w.unsqueeze(-1) * w.unsqueeze(-2)


def _eye(rows: int, cols: int, like: Tensor) -> Tensor:
    return torch.eye(rows, cols, dtype=like.dtype, device=like.device)


def _quaternion(parameters: Tensor, rows: int, cols: int) -> Tensor:
    """x ↦ x·q on (a, b, c, d): Hamilton multiplication from the right."""
    a, b, c, d = parameters.unbind(-1)
    rows_ = [(a, -b, -c, -d), (b, a, d, -c), (c, -d, a, b), (d, c, -b, a)]
    return torch.stack([torch.stack(row, -1) for row in rows_], -2)


def _complex(parameters: Tensor, rows: int, cols: int) -> Tensor:
    return BlockMap.from_complex(torch.view_as_complex(parameters.contiguous())).blocks


def _unit(count: int) -> Callable[[int, int], Tensor]:
    return lambda rows, cols: torch.eye(1, count)[0]


ODD = {"complex": "imaginary", "quaternion": "pure-quaternion"}
"""Numbers whose real part is 0: their conjugate is their negative."""


def _without_real(build: Build) -> Build:
    """The maps of numbers whose real part is 0."""
    return lambda p, r, c: build(nn.functional.pad(p, (1, 0)), r, c)


_PLAIN = [
    Constraint("identity", lambda r, c: 0, _identity, lambda r, c: torch.zeros(0), Gram.IDENTITY),
    Constraint(
        "free",
        lambda r, c: r * c,
        lambda p, r, c: p.unflatten(-1, (r, c)),
        lambda r, c: torch.eye(r, c).flatten(),
        Gram.GENERAL,
    ),
    Constraint(
        "symmetric",
        lambda r, c: r * c,
        lambda p, r, c: (p.unflatten(-1, (r, c)) + p.unflatten(-1, (r, c)).mT) / 2,
        lambda r, c: torch.eye(r, c).flatten(),
        Gram.GENERAL,
        square=True,
    ),
    Constraint(
        "antisymmetric",
        lambda r, c: r * c,
        lambda p, r, c: (p.unflatten(-1, (r, c)) - p.unflatten(-1, (r, c)).mT) / 2,
        lambda r, c: torch.zeros(r * c),
        Gram.GENERAL,
        square=True,
        injective=False,
    ),
    Constraint(
        "imaginary",
        lambda r, c: 1,
        _without_real(_complex),
        _unit(1),
        Gram.BLOCK_MULTIPLE,
        size=2,
    ),
    Constraint(
        "pure-quaternion",
        lambda r, c: 3,
        _without_real(_quaternion),
        _unit(3),
        Gram.BLOCK_MULTIPLE,
        size=4,
    ),
    Constraint(
        "multiple",
        lambda r, c: 1,
        lambda p, r, c: p.unsqueeze(-1) * torch.eye(r, c).to(p),
        lambda r, c: torch.ones(1),
        Gram.BLOCK_MULTIPLE,
    ),
    Constraint(
        "orthogonal",
        lambda r, c: r * c,
        _orthogonal,
        lambda r, c: torch.eye(r, c).flatten(),
        Gram.IDENTITY,
    ),
    Constraint(
        "rotation",
        lambda r, c: 1,
        lambda p, r, c: BlockMap.rotation(p[..., 0]).blocks,
        lambda r, c: torch.zeros(1),
        Gram.IDENTITY,
        size=2,
    ),
    Constraint(
        "reflection",
        lambda r, c: 1,
        lambda p, r, c: BlockMap.reflection(p[..., 0]).blocks,
        lambda r, c: torch.zeros(1),
        Gram.IDENTITY,
        size=2,
    ),
    Constraint("complex", lambda r, c: 2, _complex, _unit(2), Gram.BLOCK_MULTIPLE, size=2),
    Constraint("quaternion", lambda r, c: 4, _quaternion, _unit(4), Gram.BLOCK_MULTIPLE, size=4),
    Constraint(
        "projection",
        lambda r, c: c,
        _projection,
        lambda r, c: torch.zeros(c),
        Gram.GENERAL,
        square=True,
        injective=False,
    ),
]
UNSCALED = ("free", "symmetric", "antisymmetric", "multiple", "projection", *ODD.values())
"""These would be themselves again, or what they are for no more."""
SYMMETRIC = {
    "identity": "identity",
    "free": "symmetric",
    "symmetric": "symmetric",
    "multiple": "multiple",
    "complex": "multiple",  # a complex number that is its own conjugate is real
    "quaternion": "multiple",
    "reflection": "reflection",
    "projection": "projection",
    "scaled-identity": "scaled-identity",
}
"""Which maps of a kind are their own transpose."""
ANTISYMMETRIC = {"free": "antisymmetric", "antisymmetric": "antisymmetric", **ODD}
"""Which maps of a kind are their transpose's negative."""


def _scaled(inner: Constraint) -> Constraint:
    """The same maps after a scale of every coordinate."""

    def build(parameters: Tensor, rows: int, cols: int) -> Tensor:
        scale, rest = parameters[..., :cols], parameters[..., cols:]
        return inner.build(rest, rows, cols) * scale.unsqueeze(-2)

    return Constraint(
        f"scaled-{inner.name}",
        lambda r, c: c + inner.count(r, c),
        build,
        lambda r, c: torch.cat([torch.ones(c), inner.start(r, c)]),
        Gram.GENERAL,
        inner.size,
    )


CONSTRAINTS: dict[str, Constraint] = {
    c.name: c for c in [*_PLAIN, *(_scaled(c) for c in _PLAIN if c.name not in UNSCALED)]
}

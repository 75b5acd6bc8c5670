"""Quadratic forms over the vertices of a small graph: what an energy is once it is expanded.

Every step of harmonic extension is an operation on such a form: *fix* the known vertices, add a
*prior* to unknown ones, *eliminate* them (a Schur complement), *evaluate* what is left for many
candidates at once, or *factorise* it into maps again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.sheaf.blocks import BlockMap, to_blocks
from knowledge_sheaves.sheaf.linalg import common_shape, diagonal_scale, psd_solve, pseudoinverse
from knowledge_sheaves.sheaf.monomials import Candidates, Forms

K = TypeVar("K")


@dataclass(frozen=True, eq=False)
class Prior:
    """A Gaussian on an unknown: adds (y − mean)ᵀ precision (y − mean) to the energy."""

    mean: Tensor
    precision: BlockMap


class InducedMaps(NamedTuple):
    """‖head @ x + translation − tail @ y‖² + constant: a composite relation as an edge."""

    head: BlockMap
    tail: BlockMap
    translation: Tensor
    constant: Tensor


@dataclass(frozen=True, eq=False)
class QuadraticForm:
    """V(y) = ⟨y, S y⟩ + 2⟨ℓ, y⟩ + c over named vertices, in independent blocks.

    ``square[u, v]`` (u ≤ v in the order of ``widths``) is the (..., n_blocks, w_u, w_v) block of S
    between two vertices, left out where it is zero; ``linear[v]`` is (..., n_blocks, w_v, k) and
    ``constant`` is (...). ``scale[v]`` remembers how large S_vv was before anything was
    eliminated, which tells rounding from rank.

    The arithmetic is that of the tensors, float64 in an `energy_form`: in float32 the product of
    a map with itself has already lost what tells an ill-conditioned system from a singular one.
    Results (values, minimisers, and the form that `eliminate` leaves) have the number type
    ``dtype`` of the maps and candidates.

    >>> from knowledge_sheaves.graph import Multigraph
    >>> from knowledge_sheaves.sheaf import CellularSheaf, energy_form
    >>> one = torch.ones(1, 1)
    >>> path = Multigraph.from_edges(3, [(0, 1), (1, 2)])
    >>> form = energy_form(CellularSheaf.from_maps(path, [1, 1, 1], [one, one], [one, one]))
    >>> ends = form.eliminate([1])        # two unit springs in a row: half as stiff
    >>> ends({0: torch.tensor([0.0]), 2: torch.tensor([2.0])})
    tensor(2.)
    """

    widths: Mapping[int, int]
    square: Mapping[tuple[int, int], Tensor]
    linear: Mapping[int, Tensor]
    constant: Tensor
    n_blocks: int
    sections: int
    scale: Mapping[int, Tensor]
    dtype: torch.dtype | None = None

    @property
    def vertices(self) -> tuple[int, ...]:
        return tuple(self.widths)

    def block(self, u: int, v: int) -> Tensor | None:
        """S_uv, or None where it is zero."""
        if (u, v) in self.square:
            return self.square[u, v]
        return self.square[v, u].mT if (v, u) in self.square else None

    def __call__(self, values: Mapping[int, Tensor]) -> Tensor:
        """The form's value where every vertex has one, (...) in shape."""
        missing = [v for v in self.widths if v not in values]
        if missing:
            raise InputError(f"The form needs values for the vertices {missing} as well.")
        return self._result(self.fix({v: values[v] for v in self.widths}).constant)

    def fix(self, values: Mapping[int, Tensor]) -> QuadraticForm:
        """The form over the other vertices once these have values (dim,) or (..., dim, k)."""
        form = self
        for vertex, value in values.items():
            form = form._fix(vertex, form._blocks(vertex, value))
        return form

    def add_priors(self, priors: Mapping[int, Prior]) -> QuadraticForm:
        """Add a Gaussian prior on some vertices, constant included."""
        square, linear, scale = dict(self.square), dict(self.linear), dict(self.scale)
        constant = self.constant
        for v, prior in priors.items():
            mean = self._blocks(v, prior.mean)
            precision = prior.precision.blocks.to(mean)
            pull = precision @ mean
            accumulate(square, (v, v), precision)
            accumulate(linear, v, -pull)
            constant = constant + _dot(mean, pull)
            scale[v] = diagonal_scale(square[v, v])
        return replace(self, square=square, linear=linear, constant=constant, scale=scale)

    def eliminate(self, vertices: Iterable[int]) -> QuadraticForm:
        """Minimise over these vertices, one after the other: the Schur complement.

        Exact in any order, singular systems included, because partial minima of a convex form
        are convex forms; the vertex with fewest neighbours goes first, so trees stay trees.
        """
        form, left = self, set(vertices)
        while left:
            vertex = min(left, key=lambda v: (len(form._neighbours(v)), v))
            form = form._eliminate(vertex)
            left.remove(vertex)
        return form._in_results()

    def minimiser(self) -> dict[int, Tensor]:
        """Where the form is smallest (of smallest norm if there are many), by vertex."""
        square, linear = self._joined()
        y = self._result(psd_solve(square, -linear, self._joined_scale()))
        parts = torch.split(y, list(self.widths.values()), dim=-2)
        return {v: part.flatten(-3, -2) for v, part in zip(self.widths, parts, strict=True)}

    def minimum(self) -> Tensor:
        """The smallest value of the form."""
        return self.eliminate(self.vertices).constant

    def covariance(self, variance: Tensor | float = 1.0) -> BlockMap:
        """Posterior covariance of all vertices together: variance · S⁺, block by block.

        Within a block the vertices follow each other in the order of ``vertices``.
        """
        inverse = pseudoinverse(self._joined()[0], self._joined_scale())
        return BlockMap(self._result(torch.as_tensor(variance) * inverse))

    def evaluate(self, candidates: Tensor | Candidates) -> Tensor:
        """The form at every candidate (n, dim) or (n, dim, k) for its only vertex: (..., n).

        One matrix product for the whole batch; pass `Candidates` to keep the candidates' monomials
        from call to call.
        """
        if not isinstance(candidates, Candidates):
            candidates = Candidates(candidates, self.n_blocks)
        return candidates.evaluate(*self._at(candidates))

    def forms(self, candidates: Candidates) -> Forms | None:
        """What `evaluate` makes a product of, as its rows: see `Candidates.forms`."""
        return candidates.forms(*self._at(candidates))

    def _at(self, candidates: Candidates) -> tuple[Tensor, Tensor, Tensor]:
        """S, ℓ and c of the only vertex, for every form of the batch, as the candidates are."""
        (vertex,) = self._expect(1)
        if candidates.sections != self.sections:
            raise InputError(
                f"The candidates have {candidates.sections} sections, the form {self.sections}."
            )
        shape = (*self.constant.shape, self.n_blocks, self.widths[vertex])
        square = self.block(vertex, vertex)
        linear = self.linear.get(vertex)
        zero = self.constant.new_zeros(())
        full = zero.expand(*shape, shape[-1]) if square is None else square
        slope = zero.expand(*shape, self.sections) if linear is None else linear
        dtype = candidates.flat.dtype
        return (
            full.to(dtype).expand(*shape, -1),
            slope.to(dtype).expand(*shape, -1),
            self.constant.to(dtype),
        )

    def indifferent(self, tol: float | None = None) -> Tensor:
        """Whether nothing depends on the vertices that are left, up to rounding: (...), Boolean.

        So it is where the unknowns that were eliminated could satisfy everything, whatever the
        others are: on a path of two relations with d_r ≤ d_s / 2. Then all candidates have the
        same energy, and rounding would rank them. ``tol`` is relative to what was there before
        the elimination. Energies are never negative, so where S is zero, ℓ is as well.

        >>> from knowledge_sheaves.graph import Multigraph
        >>> from knowledge_sheaves.sheaf import CellularSheaf, energy_form
        >>> left, right = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
        >>> path = Multigraph.from_edges(3, [(0, 1), (1, 2)])
        >>> sheaf = CellularSheaf.from_maps(path, [2, 2, 2], [left, left], [right, right])
        >>> energy_form(sheaf).eliminate([1]).indifferent()
        tensor(True)
        """
        if tol is None:
            # What elimination leaves of rounding: systems nearer to singular are taken as such.
            working = 16 * torch.finfo(torch.float64).eps ** 0.5
            tol = max(working, 16 * torch.finfo(self.dtype or self.constant.dtype).eps)
        found = torch.ones(self._batch(), dtype=torch.bool, device=self.constant.device)
        for vertex in self.widths:
            own = self.block(vertex, vertex)
            if own is not None:
                found = found & (own.abs().amax((-2, -1)) <= tol * self.scale[vertex]).all(-1)
        return found

    def factorise(self) -> InducedMaps:
        """Write a form on two vertices as one edge between them, up to a constant.

        The head is the first vertex. The maps have as many rows as the two stalks have
        dimensions; rows that the rank does not need are zero.
        """
        head = self._expect(2)[0]
        square, linear = self._joined()
        values, vectors = torch.linalg.eigh(square)
        tolerance = torch.finfo(square.dtype).eps ** 0.75 * self._joined_scale()
        kept = values > tolerance.unsqueeze(-1)
        root = torch.where(kept, values, 1).sqrt() * kept
        inverse_root = torch.where(kept, values, 1).rsqrt() * kept
        maps = root.unsqueeze(-1) * vectors.mT
        translation = inverse_root.unsqueeze(-1) * (vectors.mT @ linear)
        constant = self.constant - _dot(translation, translation)
        maps = self._result(maps)
        return InducedMaps(
            BlockMap(maps[..., : self.widths[head]]),
            BlockMap(-maps[..., self.widths[head] :]),
            self._result(translation.flatten(-3, -2)),
            self._result(constant),
        )

    def _result(self, value: Tensor) -> Tensor:
        return value if self.dtype is None else value.to(self.dtype)

    def _in_results(self) -> QuadraticForm:
        if self.dtype is None or self.dtype is self.constant.dtype:
            return self
        return replace(
            self,
            square={key: self._result(block) for key, block in self.square.items()},
            linear={v: self._result(term) for v, term in self.linear.items()},
            constant=self._result(self.constant),
            scale={v: self._result(size) for v, size in self.scale.items()},
        )

    def _fix(self, vertex: int, x: Tensor) -> QuadraticForm:
        linear = {v: term for v, term in self.linear.items() if v != vertex}
        constant = self.constant
        for other in self._neighbours(vertex):
            accumulate(linear, other, self._block(other, vertex) @ x)
        own = self.block(vertex, vertex)
        if own is not None:
            constant = constant + _dot(x, own @ x)
        if vertex in self.linear:
            constant = constant + 2 * _dot(self.linear[vertex], x)
        return self._without(vertex, dict(self.square), linear, constant)

    def _eliminate(self, vertex: int) -> QuadraticForm:
        neighbours = self._neighbours(vertex)
        own = self.block(vertex, vertex)
        if own is None:  # no edge holds this vertex, so it changes nothing
            return self._without(vertex, dict(self.square), dict(self.linear), self.constant)
        columns = [self._block(vertex, other) for other in neighbours]
        if vertex in self.linear:
            columns.append(self.linear[vertex])
        if not columns:
            return self._without(vertex, dict(self.square), dict(self.linear), self.constant)
        solved = _solve_columns(own, columns, self.scale[vertex])
        square, linear, constant = dict(self.square), dict(self.linear), self.constant
        for i, u in enumerate(neighbours):
            for v, column in zip(neighbours[i:], solved[i:], strict=False):
                drop = (columns[i].mT @ column).neg_()  # in place: the largest tensors here
                accumulate(square, self._key(u, v), drop, flip=self._flip(u, v))
        if vertex in self.linear:
            for column, u in zip(columns, neighbours, strict=False):
                accumulate(linear, u, -(column.mT @ solved[-1]))
            constant = constant - _dot(self.linear[vertex], solved[-1])
        return self._without(vertex, square, linear, constant)

    def _without(
        self,
        vertex: int,
        square: dict[tuple[int, int], Tensor],
        linear: dict[int, Tensor],
        constant: Tensor,
    ) -> QuadraticForm:
        linear.pop(vertex, None)
        return replace(
            self,
            widths={v: w for v, w in self.widths.items() if v != vertex},
            square={key: block for key, block in square.items() if vertex not in key},
            linear=linear,
            constant=constant,
        )

    def _neighbours(self, vertex: int) -> list[int]:
        pairs = [key for key in self.square if vertex in key and key[0] != key[1]]
        return [u if v == vertex else v for u, v in pairs]

    def _block(self, u: int, v: int) -> Tensor:
        block = self.block(u, v)
        assert block is not None, "only asked for neighbours"
        return block

    def _flip(self, u: int, v: int) -> bool:
        order = list(self.widths)
        return order.index(u) > order.index(v)

    def _key(self, u: int, v: int) -> tuple[int, int]:
        return (v, u) if self._flip(u, v) else (u, v)

    def _blocks(self, vertex: int, value: Tensor) -> Tensor:
        if vertex not in self.widths:
            raise InputError(f"Vertex {vertex} is not among {list(self.widths)}.")
        blocks = to_blocks(value.to(self.constant.dtype), self.n_blocks)
        if blocks.shape[-2:] != (self.widths[vertex], self.sections):
            dim = self.n_blocks * self.widths[vertex]
            raise InputError(
                f"Vertex {vertex} has a stalk of dimension {dim} and {self.sections} section(s), "
                f"which a tensor of shape {tuple(value.shape)} does not fit."
            )
        return blocks

    def _expect(self, count: int) -> tuple[int, ...]:
        if len(self.widths) != count:
            raise InputError(
                f"This needs a form on {count} vertices, not on {len(self.widths)}: fix or "
                f"eliminate the others first."
            )
        return self.vertices

    def _joined(self) -> tuple[Tensor, Tensor]:
        """S and ℓ over all vertices together, (..., n_blocks, Σw, Σw) and (..., Σw, k)."""
        batch, total = self._batch(), sum(self.widths.values())
        square = self.constant.new_zeros(*batch, self.n_blocks, total, total)
        linear = self.constant.new_zeros(*batch, self.n_blocks, total, self.sections)
        start = dict(zip(self.widths, _starts(self.widths.values()), strict=True))
        place = {v: slice(start[v], start[v] + w) for v, w in self.widths.items()}
        for (u, v), block in self.square.items():
            square[..., place[u], place[v]] = block
            square[..., place[v], place[u]] = block.mT
        for v, term in self.linear.items():
            linear[..., place[v], :] = term
        return square, linear

    def _joined_scale(self) -> Tensor:
        scales = [self.scale[v] for v in self.widths if v in self.scale]
        if not scales:
            return self.constant.new_zeros(self.n_blocks)
        return torch.stack(torch.broadcast_tensors(*scales)).amax(0)

    def _batch(self) -> torch.Size:
        shapes = [t.shape[:-3] for t in (*self.square.values(), *self.linear.values())]
        return common_shape(self.constant.shape, *shapes)


def _solve_columns(matrix: Tensor, columns: list[Tensor], scale: Tensor) -> list[Tensor]:
    batch = common_shape(*(c.shape[:-2] for c in columns))
    rhs = torch.cat([c.expand(*batch, -1, -1) for c in columns], -1)
    solved = psd_solve(matrix, rhs, scale)
    return list(torch.split(solved, [c.shape[-1] for c in columns], -1))


def accumulate(terms: dict[K, Tensor], key: K, term: Tensor, flip: bool = False) -> None:
    """Add a term to a sum that may not have been started."""
    term = term.mT if flip else term
    terms[key] = terms[key] + term if key in terms else term


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum((-3, -2, -1))


def _starts(widths: Iterable[int]) -> list[int]:
    starts, at = [], 0
    for width in widths:
        starts.append(at)
        at += width
    return starts

"""Several targets at once: the best combinations of entities for all of them.

Each target's candidates are proposed by the energy that is left when the other targets may be
anywhere. That is a lower bound of every combination with the candidate, so the cut is exact as
soon as the answers shown lie below the bounds of all candidates left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.search.top import top
from knowledge_sheaves.query.pattern import Variable
from knowledge_sheaves.query.solvers.harmonic.forms import Springs
from knowledge_sheaves.query.solvers.harmonic.graph import QueryGraph, less_favour
from knowledge_sheaves.sheaf import QuadraticForm

COMBINATIONS = 1_000_000
"""How many combinations are looked at for one query."""


class Best(NamedTuple):
    """The best combinations of a query: ids (answers, targets), energies, and if none is missed.

    An ``indifferent`` query is satisfied whatever the combination is.
    """

    ids: Tensor
    energies: Tensor
    exact: bool
    indifferent: bool = False


def best_combinations(
    by: Springs,
    batch: QueryGraph,
    targets: tuple[Variable, ...],
    count: int,
    allowed: Sequence[Tensor] = (),
) -> list[Best]:
    """For every query of a batch, the combinations of entities with the least energy.

    ``allowed`` (entities) says for each target who may be it.
    """
    model, budget = by.model, by.budget
    vertices = [batch.vertex(target) for target in targets]
    form, strength, _ = by.least(batch, vertices)
    number = form.constant.dtype.itemsize
    kept = max(1, int(min(COMBINATIONS, budget.fit(4 * number)) ** (1 / len(targets))))
    bounds = [_bounds(by, batch, form, vertex, strength) for vertex in vertices]
    for vertex, bound, mine in zip(vertices, bounds, allowed, strict=False):
        bound[:, ~mine[model.entities_of_type(batch.types[vertex])]] = torch.inf
    found, alike = [], by.indifferent(batch, form)
    for row in range(len(batch)):
        budget.check_time()
        own = [bound[row] for bound in bounds]
        best = _combine(by, batch, form, vertices, own, kept, count, row)
        found.append(best._replace(indifferent=alike is not None and bool(alike[row])))
    return found


def _bounds(
    by: Springs, batch: QueryGraph, form: QuadraticForm, vertex: int, strength: float
) -> Tensor:
    """The energy of every candidate of a target when the other targets may be anywhere.

    They are favoured as the most favoured entity is, so that no combination costs less.
    """
    others = [v for v in form.vertices if v != vertex]
    relaxed = by.relax(batch, form, others, strength)
    bounds = relaxed.evaluate(by.model.pool(batch.types[vertex], "tail").candidates)
    bounds = less_favour(by.model, batch, vertex, bounds)
    return bounds + sum(_own(by.model, batch, other).min() for other in others)


def _own(model: SheafEmbedding, batch: QueryGraph, vertex: int) -> Tensor:
    """What every entity of a target's type costs whatever the others are."""
    entities = model.entities.of_type(batch.types[vertex])
    return less_favour(model, batch, vertex, entities.new_zeros(len(entities)))


def _combine(
    by: Springs,
    batch: QueryGraph,
    form: QuadraticForm,
    vertices: list[int],
    bounds: list[Tensor],
    kept: int,
    count: int,
    row: int,
) -> Best:
    model = by.model
    best_of = [top(bound, kept) for bound in bounds]
    candidates = [ids[values.isfinite()] for values, ids in best_of]
    points = [
        model.entities.of_type(batch.types[v])[ids]
        for v, ids in zip(vertices, candidates, strict=True)
    ]
    total = form.constant.expand(len(batch))[row]
    grid = [len(ids) for ids in candidates]
    energies = total.expand(grid).clone()
    for axis, vertex in enumerate(vertices):
        energies += _along(_own(model, batch, vertex)[candidates[axis]], axis, grid)
        if vertex in form.linear:
            slope = form.linear[vertex].expand(len(batch), -1, -1, -1)[row]
            energies += _along(2 * torch.einsum("nik,pnik->p", slope, points[axis]), axis, grid)
    pairs = itertools.combinations_with_replacement(range(len(vertices)), 2)
    for i, j in pairs:
        block = form.block(vertices[i], vertices[j])
        if block is None:
            continue
        block = block.expand(len(batch), -1, -1, -1)[row]
        image = torch.einsum("nij,pnjk->pnik", block, points[j])
        if i == j:
            energies += _along((image * points[i]).sum((1, 2, 3)), i, grid)
        else:
            cross = 2 * points[i].flatten(1) @ image.flatten(1).T
            shape = [1] * len(grid)
            shape[i], shape[j] = grid[i], grid[j]
            energies += cross.reshape(shape)
    best = torch.topk(energies.flatten(), min(count, energies.numel()), largest=False)
    places = torch.unravel_index(best.indices, energies.shape)
    columns = [
        model.entities_of_type(batch.types[v])[ids[place]]
        for v, ids, place in zip(vertices, candidates, places, strict=True)
    ]
    exact = by.bounded and all(
        not len(best.values)
        or len(ids) == len(bound)
        or float(bound.sort().values[len(ids)]) >= float(best.values[-1])
        for ids, bound in zip(candidates, bounds, strict=True)
    )
    return Best(torch.stack(columns, 1), best.values, exact)


def _along(values: Tensor, axis: int, grid: list[int]) -> Tensor:
    shape = [1] * len(grid)
    shape[axis] = grid[axis]
    return values.reshape(shape)

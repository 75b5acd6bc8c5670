"""Harmonic extension of queries: the unknowns may be anywhere, and are where the energy is least.

All queries of one shape become one batched quadratic form over the vertices of their graph. Known
entities are fixed, unknowns eliminated (a Schur complement), and what is left is evaluated at all
entities in one matrix product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.pattern import Variable
from knowledge_sheaves.query.solvers.harmonic.graph import QueryGraph
from knowledge_sheaves.query.solvers.harmonic.priors import type_prior
from knowledge_sheaves.sheaf import BlockMap, CellularSheaf, Prior, QuadraticForm, energy_form
from knowledge_sheaves.sheaf.linalg import diagonal_scale
from knowledge_sheaves.sheaf.quadratic import accumulate

Lift = Literal["free", "sphere", "composite"]
"""How a lifted model is extended: see `reduce`."""


def full_form(
    model: SheafEmbedding,
    batch: QueryGraph,
    lift: Lift = "free",
    priors: dict[int, Prior] | None = None,
) -> QuadraticForm:
    """The energy of all vertices of a batch of queries, known entities fixed."""
    if model.config.space == "torus":
        raise InputError(
            "The energy of a torus-valued model is no quadratic form: ask for one target, or use "
            "the solver chaining."
        )
    on_sphere = model.config.lifted and lift == "sphere"
    form = _sphere_form(model, batch) if on_sphere else _sheaf_form(model, batch)
    if priors:
        form = form.add_priors(priors)
    # Where nothing is known the form is the same for all queries, and still one for each.
    form = replace(form, constant=form.constant.expand(len(batch)))
    vectors = {
        slot: model.entities.lookup(batch.entities[:, slot])[..., : form.widths[slot], :].flatten(
            1, 2
        )
        for slot in range(batch.entities.shape[1])
    }
    return form.fix(vectors)


def _maps(model: SheafEmbedding, batch: QueryGraph, place: int) -> tuple[Tensor, Tensor]:
    head, tail = int(batch.graph.heads[place]), int(batch.graph.tails[place])
    edges = batch.edges[:, place]
    f = model.maps.blocks("head", edges)[..., : model.widths[batch.types[head]]]
    g = model.maps.blocks("tail", edges)[..., : model.widths[batch.types[tail]]]
    return f, g


def _sheaf_form(model: SheafEmbedding, batch: QueryGraph) -> QuadraticForm:
    """The sheaf's energy; entities of a lifted model bring their coordinate on the sphere."""
    maps = [_maps(model, batch, place) for place in range(batch.graph.num_edges)]
    dims = [model.n_blocks * model.widths[kind] for kind in batch.types]
    sheaf = CellularSheaf.from_maps(
        batch.graph, dims, [BlockMap(f) for f, _ in maps], [BlockMap(g) for _, g in maps]
    )
    z = None
    if model.translations is not None:
        parts = [model.translation(edges) for edges in batch.edges.T]
        z = torch.cat([part.flatten(1, 2) for part in parts if part is not None], 1)
    form = energy_form(sheaf, z, sections=model.config.sections)
    return _on_sphere(model, batch, form) if model.config.lifted else form


def _on_sphere(model: SheafEmbedding, batch: QueryGraph, form: QuadraticForm) -> QuadraticForm:
    """Add M² − ‖x‖² wherever an entity or a target is a tail: its distance from the equator.

    An unknown's lifted coordinate is free, and best at 0. Targets are told from unknowns later: see
    `reduce`, which adds this term for them.
    """
    constant = form.constant
    square = dict(form.square)
    for vertex in range(batch.entities.shape[1]):
        count = int((batch.graph.tails == vertex).sum())
        if count:
            _subtract_identity(square, vertex, count)
            constant = constant + count * model.radius.square()
    return replace(form, square=square, constant=constant)


def _subtract_identity(square: dict[tuple[int, int], Tensor], vertex: int, count: int) -> None:
    own = square[vertex, vertex]
    square[vertex, vertex] = own - count * torch.eye(own.shape[-1]).to(own)


def _sphere_form(model: SheafEmbedding, batch: QueryGraph) -> QuadraticForm:
    """−2⟨F x_h, x_t⟩ for every edge: what a lifted energy is on the sphere, constants aside."""
    square: dict[tuple[int, int], Tensor] = {}
    for place in range(batch.graph.num_edges):
        head, tail = int(batch.graph.heads[place]), int(batch.graph.tails[place])
        f, _ = _maps(model, batch, place)
        if head == tail:
            accumulate(square, (head, head), -(f + f.mT))
        elif head < tail:
            accumulate(square, (head, tail), -f.mT)
        else:
            accumulate(square, (tail, head), -f)
    widths = {v: model.widths[kind] for v, kind in enumerate(batch.types)}
    scale = {v: model.radius.new_ones(model.n_blocks) for v in widths}
    return QuadraticForm(
        widths,
        square,
        {},
        model.radius.new_zeros(len(batch)),
        model.n_blocks,
        model.config.sections,
        scale,
    )


def reduce(
    model: SheafEmbedding,
    batch: QueryGraph,
    targets: Sequence[Variable],
    lift: Lift = "free",
    priors: dict[int, Prior] | None = None,
) -> QuadraticForm:
    """The least energy as a form over the targets alone.

    For lifted models: ``free`` leaves the lifted coordinate of unknowns open, harmonic extension by
    the letter. ``sphere`` keeps them on the sphere in the mean, by their prior. ``composite`` is
    free, and then lifts what is left, one relation from the known entities to the target, as each
    of its parts was lifted: energy that a target has whatever the known entities are, ⟨x, S x⟩,
    goes into a lifted coordinate of its own and ranks nothing.
    """
    form = full_form(model, batch, lift, priors)
    kept = [batch.vertex(target) for target in targets]
    unknown = [v for v in form.vertices if v not in kept]
    if model.config.lifted and lift == "sphere":
        form = _eliminate_definite(form, unknown)
    else:
        form = form.eliminate(unknown)
    if model.config.lifted and lift != "sphere":
        form = _lift(model, batch, form, kept, whole=lift == "composite" and len(kept) == 1)
    return form


def _lift(
    model: SheafEmbedding, batch: QueryGraph, form: QuadraticForm, kept: list[int], whole: bool
) -> QuadraticForm:
    """Add the lifted coordinates of targets: of every edge, or of the ``whole`` relation."""
    square, constant = dict(form.square), form.constant
    for vertex in kept:
        count = int((batch.graph.tails == vertex).sum())
        constant = constant + count * model.radius.square()
        if whole:
            square.pop((vertex, vertex), None)
        elif count:
            _subtract_identity(square, vertex, count)
    return replace(form, square=square, constant=constant)


def _eliminate_definite(form: QuadraticForm, unknown: Sequence[int]) -> QuadraticForm:
    """Eliminate where a minimum exists: only the prior keeps bilinear terms from running away."""
    for vertex in unknown:
        own = form.block(vertex, vertex)
        if own is None or torch.linalg.eigvalsh(own).amin() <= 0:
            raise NotDefinite
        form = replace(form, scale={**form.scale, vertex: diagonal_scale(own)})
        form = form.eliminate([vertex])
    return form


class NotDefinite(Exception):
    """The prior does not outweigh the bilinear terms between unknowns."""


class Reduced(NamedTuple):
    """A form over the targets, with the priors on the unknowns that it was found with."""

    form: QuadraticForm
    strength: float
    priors: dict[int, Prior]


def least(
    model: SheafEmbedding,
    batch: QueryGraph,
    targets: Sequence[Variable],
    lift: Lift = "free",
    strength: float = 0.0,
) -> Reduced:
    """The least energy over the targets, with a prior of a given strength λ on the unknowns.

    On the sphere the prior is what keeps a minimum, and is raised until there is one. Queries of a
    batch share what it is raised to: ask `NotDefinite` queries alone, see `Harmonic`.
    """
    unknown = [batch.vertex(v) for v in batch.variables if v not in targets]
    if model.config.lifted and lift == "sphere" and unknown:
        strength = strength or 1.0
    while True:
        priors = {v: type_prior(model, batch.types[v], strength) for v in unknown if strength}
        try:
            return Reduced(reduce(model, batch, targets, lift, priors), strength, priors)
        except NotDefinite:
            if len(batch) > 1:
                raise
            strength *= 2

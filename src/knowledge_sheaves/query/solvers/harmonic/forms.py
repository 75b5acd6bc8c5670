"""Harmonic extension of queries: the unknowns may be anywhere, and are where the energy is least.

All queries of one shape become one batched quadratic form over the vertices of their graph. Known
entities are fixed, unknowns eliminated (a Schur complement), and what is left is evaluated at all
entities in one matrix product.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.maps import End
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import IntArray, Multigraph
from knowledge_sheaves.query.budget import Limits
from knowledge_sheaves.query.pattern import Pattern
from knowledge_sheaves.query.solvers.harmonic.torus import least_energies, torus_graph
from knowledge_sheaves.sheaf import BlockMap, CellularSheaf, Prior, QuadraticForm, energy_form
from knowledge_sheaves.sheaf.linalg import diagonal_scale
from knowledge_sheaves.sheaf.quadratic import accumulate

Lift = Literal["free", "sphere", "composite"]
"""How a lifted model is extended: see `reduce`."""


@dataclass(frozen=True, eq=False)
class QueryBatch:
    """Patterns of one shape and one typing, as a graph whose edges point towards the target.

    Vertices are the entities' slots, then the variables. ``edges`` (queries, edges of the graph)
    are edges of the model, reciprocal ones where a relation is read backwards.
    """

    graph: Multigraph
    entities: Tensor
    edges: Tensor
    variables: tuple[str, ...]
    types: tuple[int, ...]

    @classmethod
    def of(
        cls,
        model: SheafEmbedding,
        patterns: Sequence[Pattern],
        parts: Sequence[Sequence[int]],
        target: str,
    ) -> QueryBatch:
        """``parts`` are the edges of the schema that every pattern's relations stand for."""
        shape, first = patterns[0].shape, patterns[0]
        variables = first.variables
        entities = torch.tensor([_entities(p) for p in patterns], dtype=torch.long)
        count = entities.shape[1]

        def vertex(slot: tuple[str, int]) -> int:
            return slot[1] if slot[0] == "e" else count + slot[1]

        ends = [(vertex(head), vertex(tail)) for head, tail in shape.edges]
        edges = torch.tensor([list(row) for row in parts], dtype=torch.long)
        if model.config.reciprocal:
            near = _distances(ends, count + variables.index(target), count + len(variables))
            for place, (head, tail) in enumerate(ends):
                if near[tail] > near[head]:
                    ends[place] = (tail, head)
                    edges[:, place] += model.num_relations
        graph = Multigraph.from_edges(count + len(variables), ends)
        types = [-1] * graph.num_vertices
        for place, (head, tail) in enumerate(ends):
            kinds = model.edge_types[int(edges[0, place])]
            types[head], types[tail] = int(kinds[0]), int(kinds[1])
        return cls(graph, entities, edges, variables, tuple(types))

    def vertex(self, variable: str) -> int:
        return self.entities.shape[1] + self.variables.index(variable)

    def __len__(self) -> int:
        return len(self.edges)


def _entities(pattern: Pattern) -> list[int]:
    return [term for edge in pattern.edges for term in edge.terms if isinstance(term, int)]


def _distances(ends: Sequence[tuple[int, int]], target: int, vertices: int) -> list[int]:
    """How many edges each vertex is away from the target."""
    near = [vertices] * vertices
    near[target] = 0
    waiting = deque([target])
    while waiting:
        vertex = waiting.popleft()
        for edge in ends:
            if vertex in edge:
                other = edge[0] if edge[1] == vertex else edge[1]
                if near[other] == vertices and other != target:
                    near[other] = near[vertex] + 1
                    waiting.append(other)
    return near


def full_form(
    model: SheafEmbedding,
    batch: QueryBatch,
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
    vectors = {
        slot: model.entities.lookup(batch.entities[:, slot])[..., : form.widths[slot], :].flatten(
            1, 2
        )
        for slot in range(batch.entities.shape[1])
    }
    return form.fix(vectors)


def _maps(model: SheafEmbedding, batch: QueryBatch, place: int) -> tuple[Tensor, Tensor]:
    head, tail = int(batch.graph.heads[place]), int(batch.graph.tails[place])
    edges = batch.edges[:, place]
    f = model.maps.blocks("head", edges)[..., : model.widths[batch.types[head]]]
    g = model.maps.blocks("tail", edges)[..., : model.widths[batch.types[tail]]]
    return f, g


def _sheaf_form(model: SheafEmbedding, batch: QueryBatch) -> QuadraticForm:
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


def _on_sphere(model: SheafEmbedding, batch: QueryBatch, form: QuadraticForm) -> QuadraticForm:
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


def _sphere_form(model: SheafEmbedding, batch: QueryBatch) -> QuadraticForm:
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
    batch: QueryBatch,
    targets: Sequence[str],
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
    model: SheafEmbedding, batch: QueryBatch, form: QuadraticForm, kept: list[int], whole: bool
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


def type_prior(model: SheafEmbedding, kind: int, strength: float, shrink: float = 0.1) -> Prior:
    """λ times the Gaussian of a type's entities: their mean, and their covariance by blocks.

    The covariance is shrunk towards its mean variance, because small types have few entities.
    """
    x = model.entities.of_type(kind).detach()
    mean = x.mean(0)
    centred = (x - mean).movedim(0, 2).flatten(3)  # blocks, width, entities × sections
    centred = centred.flatten(2)
    covariance = centred @ centred.mT / max(1, centred.shape[-1])
    variance = covariance.diagonal(dim1=-2, dim2=-1).mean().clamp(min=1e-12)
    identity = torch.eye(covariance.shape[-1]).to(covariance)
    shrunk = (1 - shrink) * covariance + shrink * variance * identity
    return Prior(mean.flatten(0, 1), BlockMap(strength * torch.linalg.inv(shrunk)))


def target_energies(
    model: SheafEmbedding,
    batch: QueryBatch,
    target: str,
    lift: Lift = "free",
    strength: float = 0.0,
    limits: Limits | None = None,
) -> Tensor:
    """The least energy of every entity of the target's type: (queries, entities of the type).

    ``strength`` λ puts a Gaussian prior on the unknowns; on the sphere it is raised until the
    minimum exists. The torus has no Gaussians, and no prior.
    """
    vertex = batch.vertex(target)
    if model.config.space == "torus":
        values = _torus_energies(model, batch, vertex, limits or Limits())
    else:
        values = _form_energies(model, batch, target, lift, strength)
    return values if model.biases is None else values - target_bias(model, batch, vertex)


def target_bias(model: SheafEmbedding, batch: QueryBatch, vertex: int) -> Tensor:
    """What every entity of a target's type is favoured by, once for every edge it is an end of."""
    ends: tuple[tuple[End, IntArray], ...] = (
        ("head", batch.graph.heads),
        ("tail", batch.graph.tails),
    )
    ids = model.entities_of_type(batch.types[vertex])
    parts = [int((vertices == vertex).sum()) * model.bias(ids, end) for end, vertices in ends]
    return torch.stack(parts).sum(0)


def _torus_energies(
    model: SheafEmbedding, batch: QueryBatch, vertex: int, limits: Limits
) -> Tensor:
    slots = range(batch.entities.shape[1])
    graph = torus_graph(model, batch.graph, batch.edges, (*slots, vertex))
    known = {slot: model.entities.lookup(batch.entities[:, slot]).flatten(1) for slot in slots}
    table = model.entities.of_type(batch.types[vertex]).flatten(1)
    return least_energies(graph, known, vertex, table, limits)


def _form_energies(
    model: SheafEmbedding, batch: QueryBatch, target: str, lift: Lift, strength: float
) -> Tensor:
    unknown = [batch.vertex(v) for v in batch.variables if v != target]
    if model.config.lifted and lift == "sphere" and unknown:
        strength = strength or 1.0
    while True:
        priors = None
        if strength:
            priors = {v: type_prior(model, batch.types[v], strength) for v in unknown}
        try:
            form = reduce(model, batch, [target], lift, priors)
            break
        except NotDefinite:
            strength *= 2
    kind = batch.types[batch.vertex(target)]
    return form.evaluate(model.pool(kind, "tail").candidates)

"""What an energy is: how far the two ends of an edge are apart, as a number.

An energy knows its score of a triple, its comparison of queries with all candidates, whether it
has a quadratic form, its first values and its sharpness. What is here holds for every energy, by
definition and in chunks; kinds that can do better say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from knowledge_sheaves.embedding.maps import End
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.sheaf import BlockMap, RelationMaps
from knowledge_sheaves.sheaf.monomials import Candidates, Forms

if TYPE_CHECKING:
    from knowledge_sheaves.embedding.config import SheafConfig
    from knowledge_sheaves.embedding.model import SheafEmbedding

CHUNK_BYTES = 1 << 28
"""How large a temporary may become where a product is not possible."""


class Query(NamedTuple):
    """Edges with one end known: ``image`` a, to be compared with G x at the ``target`` end."""

    target: End
    edges: Tensor
    image: Tensor
    bias: Tensor | None


class Pool(NamedTuple):
    """Candidates for the open end of a query, with their biases where the model has any."""

    candidates: Candidates
    bias: Tensor | None = None


class Start(NamedTuple):
    """First values: the spread of entities and translations, the noise of maps, and where from."""

    spread: float
    noise: float = 0.05
    uniform: bool = False
    """Entities lie evenly between 0 and the spread, instead of around 0."""
    near_identity: bool = True
    """Maps start from the identity, with noise, instead of from noise alone."""


class Energy:
    """‖ρ‖_norm^power by its definition; other kinds change what they know better.

    A kind of one's own that is chosen by ``space`` needs `space` and `measure` or `difference`.
    """

    name: ClassVar[str]
    space: ClassVar[str] = "vector"
    sharpness: ClassVar[float] = 1.0
    """What makes of the energy the logit that others publish settings for."""
    linear: ClassVar[bool] = True
    """Whether its square is a quadratic form in the entities, which harmonic extension needs."""
    extension: ClassVar[str] = "springs"
    """The kind of harmonic extension that finds unknowns: see `query.solvers.harmonic`."""
    additive: ClassVar[bool] = False
    """Whether the energy of a direct sum is the sum of the energies."""
    on_sphere: ClassVar[bool] = False
    """Whether entities stand on a sphere that holds all their vectors, one coordinate higher."""
    ranks_heads: ClassVar[bool] = True
    """Whether heads can be ranked by it; otherwise they are as tails of reciprocal relations."""
    ties_symmetric: ClassVar[bool] = True
    """Whether equal maps at both ends make a relation symmetric."""
    bounded: ClassVar[bool] = True
    """Whether it cannot fall without end as the vectors grow, so that no weight must hold them."""
    nearness: ClassVar[Literal["distance", "cosine"]] = "distance"
    """What says how alike two entities are."""

    def __init__(self, config: SheafConfig) -> None:
        self.config = config

    @classmethod
    def claims(cls, config: SheafConfig) -> bool:
        """Whether the choices of a model mean this energy."""
        return config.space == cls.space and not config.lifted

    @classmethod
    def check(cls, config: SheafConfig) -> None:
        """Refuse the choices that this energy cannot do, with the reason."""

    @property
    def notes(self) -> list[str]:
        """Where scores are not the energies that queries minimise, in sentences for the user."""
        return []

    def start(self) -> Start:
        """What the first values are drawn from."""
        init = self.config.init
        return Start(0.5 * self.config.dim**-0.5 if init is None else init)

    def networks(self, relations: int) -> dict[str, RelationMaps]:
        """Modules with the maps at head and tail, where they are not of the model's own kind."""
        return {}

    def check_schema(self, model: SheafEmbedding) -> None:
        """Refuse what a schema says and this energy cannot do, with the reason."""

    # One triple.

    def image(self, model: SheafEmbedding, end: End, edges: Tensor, vectors: Tensor) -> Tensor:
        """F x of every edge and its own x (edges, n_blocks, width, k)."""
        return model.maps.apply_map(end, edges, vectors)

    def difference(self, left: Tensor, right: Tensor) -> Tensor:
        """The residual of two ends."""
        return left - right

    def measure(self, residual: Tensor) -> Tensor:
        """The score of residuals (..., coordinates), lower for what fits better: (...)."""
        length = torch.linalg.vector_norm(residual, self.config.norm, dim=-1)
        return length**self.config.power

    def shorten(self, vectors: Tensor) -> Tensor:
        """F x as scores compare it, (n, …): cut where the model says so."""
        return vectors

    def score(self, model: SheafEmbedding, left: Tensor, right: Tensor) -> Tensor:
        """What candidates are ranked by, from the ends (triples, n_blocks, rows, k)."""
        return self.measure(self.difference(left, right).flatten(1))

    def square(self, model: SheafEmbedding, left: Tensor, right: Tensor) -> Tensor:
        """V_e = ‖ρ_e‖², what harmonic extension minimises, from the ends."""
        return self.difference(left, right).square().sum((-3, -2, -1))

    def similarity(self, model: SheafEmbedding, left: Tensor, right: Tensor) -> Tensor:
        """The score with the sign that others give it: higher for what fits better."""
        return -self.score(model, left, right)

    # All candidates.

    def query(
        self,
        model: SheafEmbedding,
        target: End,
        edges: Tensor,
        known: Tensor,
        vectors: Tensor | None = None,
    ) -> Query:
        """Edges whose other end is known, ready to be compared with candidates."""
        other: End = "head" if target == "tail" else "tail"
        vectors = model.lookup(other, known) if vectors is None else vectors
        image = self.shorten(self.image(model, other, edges, vectors))
        z = model.translation(edges)
        if z is not None:
            image = image + z if target == "tail" else image - z
        return Query(target, edges, image, favour(model, known, other))

    def compare(
        self,
        model: SheafEmbedding,
        query: Query,
        pool: Pool,
        scale: float = 1.0,
        relative: bool = False,
    ) -> Tensor:
        """``scale`` times the score of every query with every candidate: (queries, candidates).

        The same numbers as `SheafEmbedding.scores` of the triples, lower first, up to rounding.
        Where only differences within a query matter (``relative``), what all its candidates have
        in common may be left out: every pass over this largest of all tensors costs time.
        """
        values = self.values(model, query, pool.candidates, scale, relative)
        return self.with_biases(values, query, pool, scale, relative)

    @staticmethod
    def with_biases(
        values: Tensor, query: Query, pool: Pool, scale: float, relative: bool
    ) -> Tensor:
        """Take ``scale`` times the biases off: one more column of the candidates."""
        if query.bias is None or pool.bias is None:
            return values
        own = 0.0 if relative else query.bias.unsqueeze(1)
        biases = scale * (pool.bias + own)
        return values - biases if values.requires_grad else values.sub_(biases)

    def values(
        self,
        model: SheafEmbedding,
        query: Query,
        candidates: Candidates,
        scale: float,
        relative: bool,
    ) -> Tensor:
        """`compare` without biases; candidates are projected once per relation."""
        image = query.image.flatten(1)
        if model.maps.is_identity[query.target]:
            return scale * self.distances(image, self.shorten(candidates.flat))
        return scale * self.by_edge(model, query, candidates)

    def by_edge(self, model: SheafEmbedding, query: Query, candidates: Candidates) -> Tensor:
        """The score of every query with every candidate; an edge at a time has its images."""
        image = query.image.flatten(1)
        out = image.new_empty(len(image), len(candidates))
        for edge in query.edges.unique():
            mine = (query.edges == edge).nonzero().squeeze(1)
            images = self.images(model, query.target, edge, candidates)
            out = out.index_copy(0, mine, self.distances(image[mine], images))
        return out

    def images(
        self, model: SheafEmbedding, target: End, edge: Tensor, candidates: Candidates
    ) -> Tensor:
        """The candidates as one edge compares them, flat."""
        width = candidates.blocks.shape[2]
        block = model.maps.blocks(target, edge.reshape(1))[0, ..., :width]
        projected = torch.einsum("nij,pnjk->pnik", block, candidates.blocks)
        return self.shorten(projected.flatten(1))

    def forms(self, model: SheafEmbedding, query: Query, candidates: Candidates) -> Forms | None:
        """Forms that rank candidates as the scores do, biases aside; None where there are none.

        They are what an index can search (`embedding.search`).
        """
        return None

    def of_forms(self, values: Tensor) -> Tensor:
        """The scores, from the values of `forms`."""
        return values

    def distances(self, a: Tensor, b: Tensor) -> Tensor:
        """The score of every row of a with every row of b, in chunks."""
        rows = max(1, CHUNK_BYTES // max(1, b.numel() * b.element_size()))
        parts = [self.apart(part.unsqueeze(1), b) for part in a.split(rows)]
        return torch.cat(parts) if parts else a.new_empty(0, len(b))

    def apart(self, a: Tensor, b: Tensor) -> Tensor:
        """The score of flat images, without the last axis."""
        return self.measure(self.difference(a, b))

    def similarities(
        self, model: SheafEmbedding, target: End, edges: Tensor, known: Tensor, pool: Pool
    ) -> Tensor:
        """`similarity` of known ends with every candidate, biases included."""
        return -self.compare(model, self.query(model, target, edges, known), pool)

    def relations(
        self, model: SheafEmbedding, edges: Tensor, heads: Tensor, tails: Tensor
    ) -> Tensor:
        """The scores of pairs of entities under every edge, (pairs, edges).

        Biases are the same for all relations and left out.
        """
        columns = []
        for edge in edges:
            ends = model.ends(torch.stack([heads, edge.expand(len(heads)), tails], 1), clamped=True)
            columns.append(self.score(model, *ends))
        return torch.stack(columns, 1)

    # The sheaf behind it.

    def lift(self, model: SheafEmbedding, x: Tensor) -> Tensor:
        """An entity's vector (dim,) or (dim, k) as it stands in the cochain."""
        return x

    def lift_map(self, map_: BlockMap, end: End) -> BlockMap:
        """A restriction map on the stalks of the cochain."""
        if self.linear:
            return map_
        raise InputError(f"A {self.space}-valued model has no linear sheaf: use sheaf.ValuedSheaf.")


def favour(model: SheafEmbedding, entities: Tensor, end: End) -> Tensor | None:
    """What entities are favoured by at one end of their edges: β, where the model has any."""
    return None if model.biases is None else model.bias(entities, end)


def less_favour(
    model: SheafEmbedding, scores: Tensor, heads: Tensor, tails: Tensor, weight: float = 1.0
) -> Tensor:
    """Scores of triples with ``weight`` (β_h + β_t) taken off."""
    at_head, at_tail = favour(model, heads, "head"), favour(model, tails, "tail")
    if at_head is None or at_tail is None:
        return scores
    return scores - weight * (at_head + at_tail)


def less_favour_of(
    model: SheafEmbedding, scores: Tensor, entities: Tensor, heads: int, tails: int
) -> Tensor:
    """Scores of entities (…, entities) that are heads of some edges and tails of others.

    Their biases are taken off once for every edge.
    """
    at_head, at_tail = favour(model, entities, "head"), favour(model, entities, "tail")
    if at_head is None or at_tail is None:
        return scores
    return scores - (heads * at_head + tails * at_tail)

"""Scores of all entities as matrix products.

With one end of an edge known, the energy is a quadratic form in the other: ‖a − G x‖² with a known.
Expanded, that is linear in x and in few monomials of x (see `sheaf.monomials`), so a batch of
queries against all entities is one product. Norms other than the square, and the torus, have no
such expansion and are computed in chunks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.embedding.constraints import Gram
from knowledge_sheaves.embedding.maps import End
from knowledge_sheaves.sheaf.monomials import (
    WIDEST_EXPANDED_BLOCK,
    Candidates,
    Monomials,
    form_weights,
)
from knowledge_sheaves.sheaf.valued import torus_difference

if TYPE_CHECKING:
    from knowledge_sheaves.embedding.config import SheafConfig
    from knowledge_sheaves.embedding.model import SheafEmbedding

CHUNK_BYTES = 1 << 28
"""How large a temporary may become where a product is not possible."""

KINDS = {
    Gram.IDENTITY: Monomials.NORM,
    Gram.BLOCK_MULTIPLE: Monomials.BLOCKS,
    Gram.GENERAL: Monomials.PRODUCTS,
}


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


def make_query(
    model: SheafEmbedding,
    target: End,
    edges: Tensor,
    known: Tensor,
    vectors: Tensor | None = None,
) -> Query:
    """Edges whose other end is known, ready to be compared with candidates.

    ``vectors`` are those of the known entities, where the caller has looked them up already.
    """
    other: End = "head" if target == "tail" else "tail"
    bias = None if model.biases is None else model.bias(known, other)
    z = model.translation(edges)
    vectors = model.lookup(other, known) if vectors is None else vectors
    image = clamp(model.config, model.maps.apply_map(other, edges, vectors))
    if z is not None:
        image = image + z if target == "tail" else image - z
    return Query(target, edges, image, bias)


def compare(
    model: SheafEmbedding,
    query: Query,
    pool: Pool,
    scale: float = 1.0,
    relative: bool = False,
) -> Tensor:
    """``scale`` times the score of every query with every candidate: (queries, candidates).

    The same numbers as `SheafEmbedding.scores` of the triples, lower first, up to rounding. Where
    only differences within a query matter (``relative``), what all its candidates have in common
    may be left out: every pass over this largest of all tensors costs time.
    """
    config = model.config
    if not _is_quadratic(config):
        values = scale * _distances(model, query, pool.candidates)
    elif config.power != 2:
        squares = _quadratic(model, query, pool.candidates, 1.0, relative=False)
        values = scale * _to_power(config, squares)
    else:
        values = _quadratic(model, query, pool.candidates, scale, relative)
    if query.bias is not None and pool.bias is not None:
        own = 0.0 if relative else query.bias.unsqueeze(1)
        biases = scale * (pool.bias + own)
        values = values - biases if values.requires_grad else values.sub_(biases)
    return values


class Siblings:
    """The parts of every relation: edges with the same name that fit the same known end."""

    def __init__(self, names: list[object], edge_types: np.ndarray, target: End) -> None:
        known, self.open_types = edge_types.T if target == "tail" else edge_types.T[::-1]
        groups: dict[object, list[int]] = {}
        for edge, name in enumerate(names):
            groups.setdefault((name, known[edge]), []).append(edge)
        lists = [groups[name, known[edge]] for edge, name in enumerate(names)]
        self.edges = torch.tensor([e for part in lists for e in part], dtype=torch.long)
        lengths = [len(part) for part in lists]
        self.offsets = torch.tensor([0, *np.cumsum(lengths)], dtype=torch.long)
        self.types = torch.from_numpy(np.ascontiguousarray(self.open_types))

    def of(self, edges: Tensor) -> tuple[Tensor, Tensor]:
        """(place in ``edges``, sibling) for every sibling of every edge."""
        start, counts = self.offsets[edges], self.offsets[edges + 1] - self.offsets[edges]
        rows = torch.repeat_interleave(torch.arange(len(edges)), counts)
        within = torch.arange(len(rows)) - (counts.cumsum(0) - counts)[rows]
        return rows, self.edges[start[rows] + within]


def score_entities(model: SheafEmbedding, target: End, edges: Tensor, known: Tensor) -> Tensor:
    """Scores of all entities at the open end, infinite for those that the schema rules out."""
    if len(model.graph.schema.types) == 1:
        return compare(model, make_query(model, target, edges, known), model.pool(0, target))
    out = model.radius.new_full((len(edges), model.graph.num_entities), torch.inf)
    siblings = model.siblings(target)
    rows, parts = siblings.of(edges)
    kinds = siblings.types[parts]
    for kind in kinds.unique().tolist():
        mine = (kinds == kind).nonzero().squeeze(1)
        query = make_query(model, target, parts[mine], known[rows[mine]])
        values = compare(model, query, model.pool(kind, target))
        out[rows[mine].unsqueeze(1), model.entities_of_type(kind)] = values
    return out


def score_relations(model: SheafEmbedding, heads: Tensor, tails: Tensor) -> Tensor:
    """Scores of all edges of the schema between pairs of entities: (pairs, edges)."""
    out = model.radius.new_full((len(heads), model.num_relations), torch.inf)
    kinds = torch.from_numpy(model.graph.entity_types.astype(np.int64))
    pairs = torch.stack([kinds[heads], kinds[tails]], 1)
    types = torch.from_numpy(model.edge_types[: model.num_relations])
    for pair in pairs.unique(dim=0):
        mine = (pairs == pair).all(1).nonzero().squeeze(1)
        edges = (types == pair).all(1).nonzero().squeeze(1)
        if len(edges):
            values = relation_scores(model, edges, heads[mine], tails[mine])
            out[mine.unsqueeze(1), edges] = values
    return out


def relation_scores(model: SheafEmbedding, edges: Tensor, heads: Tensor, tails: Tensor) -> Tensor:
    """‖F_h x_h + z − F_t x_t‖² for all pairs and all edges: forms of edges at pairs of vectors.

    For a lifted model the bilinear part alone counts, as it does for tails. Biases are the same for
    all relations and left out.
    """
    config = model.config
    if config.lifted:
        return _bilinear_relations(model, edges, heads, tails)
    wide = sum(model.maps.cols.values()) > WIDEST_EXPANDED_BLOCK
    if not _is_quadratic(config) or wide:
        return _relation_distances(model, edges, heads, tails)
    f, g = model.maps.blocks("head", edges), model.maps.blocks("tail", edges)
    vectors = [model.lookup("head", heads), model.lookup("tail", tails)]
    points = Candidates(torch.cat(vectors, 2).flatten(1, 2), model.n_blocks)
    joint = torch.cat([f, -g], -1)
    square = joint.mT @ joint
    z = model.translation(edges)
    linear = square.new_zeros(*square.shape[:3], config.sections) if z is None else joint.mT @ z
    constant = square.new_zeros(len(edges)) if z is None else z.square().sum((-3, -2, -1))
    values = points.evaluate(square, linear, constant, Monomials.PRODUCTS).T
    return _to_power(config, values)


def _bilinear_relations(
    model: SheafEmbedding, edges: Tensor, heads: Tensor, tails: Tensor
) -> Tensor:
    """−2⟨F x_h, x_t⟩ is linear in the products of coordinates of x_h and x_t."""
    x_h, x_t = model.lookup("head", heads), model.lookup("tail", tails)
    products = x_t @ x_h.mT
    return -2 * products.flatten(1) @ model.maps.blocks("head", edges).flatten(1).T


def _relation_distances(
    model: SheafEmbedding, edges: Tensor, heads: Tensor, tails: Tensor
) -> Tensor:
    columns = []
    for edge in edges:
        left, right = model.ends(torch.stack([heads, edge.expand(len(heads)), tails], 1), True)
        columns.append(_norm(model.config, left.flatten(1), right.flatten(1)))
    return torch.stack(columns, 1)


def _is_quadratic(config: SheafConfig) -> bool:
    """Whether scores are functions of ‖a − G x‖², which can be expanded."""
    return config.space == "vector" and config.norm == 2 and config.clamp is None


def clamp(config: SheafConfig, vectors: Tensor) -> Tensor:
    """Vectors no longer than the model allows where scores are compared."""
    if config.clamp is None:
        return vectors
    flat = vectors.flatten(1)
    lengths = torch.linalg.vector_norm(flat, config.norm, dim=1, keepdim=True)
    factor = config.clamp / lengths.clamp(min=config.clamp)
    return (flat * factor).reshape(vectors.shape)


def _to_power(config: SheafConfig, squares: Tensor) -> Tensor:
    if config.power == 2:
        return squares
    return squares.clamp(min=1e-12) ** (config.power / 2)  # the root has no slope at 0


def _quadratic(
    model: SheafEmbedding, query: Query, candidates: Candidates, scale: float, relative: bool
) -> Tensor:
    """scale · ‖a − G x‖² by expansion; lifted, the norm of x is the sphere's and drops out."""
    image, width = query.image, candidates.blocks.shape[2]
    linear = model.maps.apply_map(query.target, query.edges, -scale * image, adjoint=True)
    linear = linear[:, :, :width].flatten(1)
    constant = None if relative else scale * image.square().sum((-3, -2, -1))
    if model.config.lifted:
        sphere = scale * model.radius.square()
        if query.target == "tail":
            constant = None if constant is None else constant + sphere
            return candidates.product(linear, None, Monomials.NONE, constant)
        constant = sphere.expand(len(image))
    kind = KINDS[model.maps.gram[query.target]]
    if kind is Monomials.NORM:
        weights = image.new_full((len(image), 1), scale)
        return candidates.product(linear, weights, kind, constant)
    blocks = model.maps.blocks(query.target, query.edges)[..., :width]
    if kind is Monomials.BLOCKS:
        weights = blocks.square().sum((-2, -1)) * (scale / width)
        return candidates.product(linear, weights, kind, constant)
    gram = scale * (blocks.mT @ blocks)
    if width > WIDEST_EXPANDED_BLOCK:
        constant = image.new_zeros(len(image)) if constant is None else constant
        return candidates.evaluate(gram, linear, constant, kind)
    return candidates.product(linear, form_weights(gram, kind), kind, constant)


def _distances(model: SheafEmbedding, query: Query, candidates: Candidates) -> Tensor:
    """‖a − G x‖_norm^power without expansion, the candidates projected once per relation."""
    config, image = model.config, query.image.flatten(1)
    if model.maps.is_identity[query.target]:
        return _measure(config, image, clamp(config, candidates.flat))
    width = candidates.blocks.shape[2]
    out = image.new_empty(len(image), len(candidates))
    for edge in query.edges.unique():
        mine = (query.edges == edge).nonzero().squeeze(1)
        block = model.maps.blocks(query.target, edge.reshape(1))[0, ..., :width]
        projected = torch.einsum("nij,pnjk->pnik", block, candidates.blocks)
        projected = clamp(config, projected.flatten(1))
        out = out.index_copy(0, mine, _measure(config, image[mine], projected))
    return out


def _measure(config: SheafConfig, a: Tensor, b: Tensor) -> Tensor:
    """The distance of every row of a from every row of b."""
    if config.space == "vector":
        return torch.cdist(a, b, p=config.norm) ** config.power
    rows = max(1, CHUNK_BYTES // max(1, b.numel() * b.element_size()))
    return torch.cat([_norm(config, part.unsqueeze(1), b) for part in a.split(rows)])


def _norm(config: SheafConfig, a: Tensor, b: Tensor) -> Tensor:
    difference = torus_difference(a, b) if config.space == "torus" else a - b
    return torch.linalg.vector_norm(difference, config.norm, dim=-1) ** config.power

"""The square of the residual's length, and powers of it: comparisons are matrix products.

With one end of an edge known, the energy is a quadratic form in the other: ‖a − G x‖² with a known.
Expanded, that is linear in x and in few monomials of x (see `sheaf.monomials`), so a batch of
queries against all entities is one product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from knowledge_sheaves.embedding.constraints import Gram
from knowledge_sheaves.embedding.energies.base import Energy, Query
from knowledge_sheaves.sheaf.monomials import (
    WIDEST_EXPANDED_BLOCK,
    Candidates,
    Forms,
    Monomials,
    form_weights,
)

if TYPE_CHECKING:
    from knowledge_sheaves.embedding.config import SheafConfig
    from knowledge_sheaves.embedding.model import SheafEmbedding

KINDS = {
    Gram.IDENTITY: Monomials.NORM,
    Gram.BLOCK_MULTIPLE: Monomials.BLOCKS,
    Gram.GENERAL: Monomials.PRODUCTS,
}


class Square(Energy):
    """V_e = ‖ρ_e‖², the energy of the sheaf itself."""

    name = "square"
    additive = True

    @classmethod
    def claims(cls, config: SheafConfig) -> bool:
        return super().claims(config) and euclidean(config) and config.power == 2

    def score(self, model: SheafEmbedding, left: Tensor, right: Tensor) -> Tensor:
        return self.square(model, left, right)

    def values(
        self,
        model: SheafEmbedding,
        query: Query,
        candidates: Candidates,
        scale: float,
        relative: bool,
    ) -> Tensor:
        constant = None if relative else scale * query.image.square().sum((-3, -2, -1))
        return expanded(model, query, candidates, scale, constant)

    def forms(self, model: SheafEmbedding, query: Query, candidates: Candidates) -> Forms | None:
        return squared_forms(model, query, candidates)

    def relations(
        self, model: SheafEmbedding, edges: Tensor, heads: Tensor, tails: Tensor
    ) -> Tensor:
        if sum(model.maps.cols.values()) > WIDEST_EXPANDED_BLOCK:
            return super().relations(model, edges, heads, tails)
        return expanded_relations(model, edges, heads, tails)


class Power(Energy):
    """‖ρ‖^power in the Euclidean norm: a function of the square, and as quick to compare."""

    name = "power"

    @classmethod
    def claims(cls, config: SheafConfig) -> bool:
        return super().claims(config) and euclidean(config) and config.power != 2

    def values(
        self,
        model: SheafEmbedding,
        query: Query,
        candidates: Candidates,
        scale: float,
        relative: bool,
    ) -> Tensor:
        constant = query.image.square().sum((-3, -2, -1))
        return scale * self._of(expanded(model, query, candidates, 1.0, constant))

    def forms(self, model: SheafEmbedding, query: Query, candidates: Candidates) -> Forms | None:
        """Those of the square, which ranks alike; biases would have to be taken off the power."""
        return None if query.bias is not None else squared_forms(model, query, candidates)

    def of_forms(self, values: Tensor) -> Tensor:
        return self._of(values)

    def relations(
        self, model: SheafEmbedding, edges: Tensor, heads: Tensor, tails: Tensor
    ) -> Tensor:
        if sum(model.maps.cols.values()) > WIDEST_EXPANDED_BLOCK:
            return super().relations(model, edges, heads, tails)
        return self._of(expanded_relations(model, edges, heads, tails))

    def _of(self, squares: Tensor) -> Tensor:
        return squares.clamp(min=1e-12) ** (self.config.power / 2)  # the root has no slope at 0


def euclidean(config: SheafConfig) -> bool:
    """Whether scores are functions of ‖a − G x‖², which can be expanded."""
    return config.norm == 2 and config.clamp is None


def expanded(
    model: SheafEmbedding,
    query: Query,
    candidates: Candidates,
    scale: float,
    constant: Tensor | None,
) -> Tensor:
    """scale · (‖G x‖² − 2⟨a, G x⟩) + constant for every query and every candidate."""
    found = expanded_forms(model, query, candidates, scale, constant)
    if found is not None:
        return candidates.product(*found)
    linear, gram = expanded_slope(model, query, candidates, scale), _gram(model, query, candidates)
    constant = query.image.new_zeros(len(query.image)) if constant is None else constant
    return candidates.evaluate(scale * gram, linear, constant, Monomials.PRODUCTS)


def expanded_forms(
    model: SheafEmbedding,
    query: Query,
    candidates: Candidates,
    scale: float,
    constant: Tensor | None,
) -> Forms | None:
    """The same as rows of one product; None where blocks are too wide to be expanded."""
    target, image = query.target, query.image
    linear = expanded_slope(model, query, candidates, scale)
    kind = KINDS[model.maps.gram[target]]
    if kind is Monomials.NORM:
        return Forms(linear, image.new_full((len(image), 1), scale), kind, constant)
    width = candidates.blocks.shape[2]
    if kind is Monomials.BLOCKS:
        blocks = model.maps.blocks(target, query.edges)[..., :width]
        return Forms(linear, blocks.square().sum((-2, -1)) * (scale / width), kind, constant)
    if width > WIDEST_EXPANDED_BLOCK:
        return None
    weights = form_weights(scale * _gram(model, query, candidates), kind)
    return Forms(linear, weights, kind, constant)


def squared_forms(model: SheafEmbedding, query: Query, candidates: Candidates) -> Forms | None:
    """‖a − G x‖² as rows of one product."""
    constant = query.image.square().sum((-3, -2, -1))
    return expanded_forms(model, query, candidates, 1.0, constant)


def _gram(model: SheafEmbedding, query: Query, candidates: Candidates) -> Tensor:
    """GᵀG of every query, as wide as the candidates' blocks."""
    blocks = model.maps.blocks(query.target, query.edges)[..., : candidates.blocks.shape[2]]
    return blocks.mT @ blocks


def expanded_slope(
    model: SheafEmbedding, query: Query, candidates: Candidates, scale: float
) -> Tensor:
    """−scale · Gᵀ a of every query, as wide as the candidates are: (queries, coordinates)."""
    width = candidates.blocks.shape[2]
    slope = model.maps.apply_map(query.target, query.edges, -scale * query.image, adjoint=True)
    return slope[:, :, :width].flatten(1)


def expanded_relations(
    model: SheafEmbedding, edges: Tensor, heads: Tensor, tails: Tensor
) -> Tensor:
    """‖F_h x_h + z − F_t x_t‖² for all pairs and all edges: forms of edges at pairs of vectors."""
    f, g = model.maps.blocks("head", edges), model.maps.blocks("tail", edges)
    vectors = [model.lookup("head", heads), model.lookup("tail", tails)]
    points = Candidates(torch.cat(vectors, 2).flatten(1, 2), model.n_blocks)
    joint = torch.cat([f, -g], -1)
    square, z = joint.mT @ joint, model.translation(edges)
    if z is None:
        linear = square.new_zeros(*square.shape[:3], model.config.sections)
        constant = square.new_zeros(len(edges))
    else:
        linear, constant = joint.mT @ z, z.square().sum((-3, -2, -1))
    return points.evaluate(square, linear, constant, Monomials.PRODUCTS).T

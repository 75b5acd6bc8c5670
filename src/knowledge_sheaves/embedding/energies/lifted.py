"""Bilinear models as sheaves: entities on a sphere of radius M, x̃ = (x, √(M² − ‖x‖²)).

F_h acts as (R | 0) and F_t as the identity, so V = ‖R x_h‖² + M² − 2⟨R x_h, x_t⟩: ranking tails by
energy is ranking them by the product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from knowledge_sheaves.embedding.energies.base import Energy, Pool, Query, Start, favour
from knowledge_sheaves.embedding.energies.square import (
    euclidean,
    expanded,
    expanded_forms,
    expanded_slope,
)
from knowledge_sheaves.embedding.maps import End
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.sheaf import BlockMap
from knowledge_sheaves.sheaf.monomials import Candidates, Forms, Monomials

if TYPE_CHECKING:
    from knowledge_sheaves.embedding.config import SheafConfig
    from knowledge_sheaves.embedding.model import SheafEmbedding


class Lifted(Energy):
    """V_e = ‖R x_h − x_t‖² + M² − ‖x_t‖²."""

    name = "lifted"
    sharpness = 0.5  # −V/2 = ⟨R x_h, x_t⟩ + …
    extension = "lifted"
    additive = True
    on_sphere = True
    ranks_heads = False
    ties_symmetric = False
    bounded = False
    nearness = "cosine"

    @classmethod
    def claims(cls, config: SheafConfig) -> bool:
        return config.lifted

    @classmethod
    def check(cls, config: SheafConfig) -> None:
        if config.tail != "identity" or config.translation:
            raise InputError(
                "A lifted model has tail: identity and no translation: the lift itself takes the "
                "place of the tail map."
            )
        if config.biases == "by-end":
            raise InputError(
                "A lifted model has one bias for every entity, in its lifted coordinate: use "
                "biases: true."
            )
        if config.space != cls.space or not euclidean(config) or config.power != 2:
            raise InputError(
                "A lifted model is measured by the square of the Euclidean norm, in which the lift "
                "makes it a product: leave out norm, power, clamp and space."
            )

    def start(self) -> Start:
        spread = 1e-3 if self.config.init is None else self.config.init
        # Maps start as noise of a size that keeps products alive.
        return Start(spread, noise=max(spread, 1e-3), near_identity=False)

    def square(self, model: SheafEmbedding, left: Tensor, right: Tensor) -> Tensor:
        height = model.radius.square() - right.square().sum((-3, -2, -1))
        return super().square(model, left, right) + height

    def score(self, model: SheafEmbedding, left: Tensor, right: Tensor) -> Tensor:
        return self.square(model, left, right)

    def similarity(self, model: SheafEmbedding, left: Tensor, right: Tensor) -> Tensor:
        return (left * right).sum((-3, -2, -1))

    def values(
        self,
        model: SheafEmbedding,
        query: Query,
        candidates: Candidates,
        scale: float,
        relative: bool,
    ) -> Tensor:
        """The norm of a tail is the sphere's and drops out; so does that of a known one."""
        sphere = scale * model.radius.square()
        if query.target == "head":
            return expanded(model, query, candidates, scale, sphere.expand(len(query.image)))
        slope = expanded_slope(model, query, candidates, scale)
        constant = None
        if not relative:
            constant = scale * query.image.square().sum((-3, -2, -1)) + sphere
        return candidates.product(slope, None, Monomials.NONE, constant)

    def forms(self, model: SheafEmbedding, query: Query, candidates: Candidates) -> Forms | None:
        sphere = model.radius.square().expand(len(query.image))
        if query.target == "head":
            return expanded_forms(model, query, candidates, 1.0, sphere)
        slope = expanded_slope(model, query, candidates, 1.0)
        constant = query.image.square().sum((-3, -2, -1)) + sphere
        return Forms(slope, None, Monomials.NONE, constant)

    def similarities(
        self, model: SheafEmbedding, target: End, edges: Tensor, known: Tensor, pool: Pool
    ) -> Tensor:
        """⟨R x_h, x_t⟩ = ⟨x_h, Rᵀ x_t⟩ and half of the biases, whichever end is open."""
        back = target == "head"
        end: End = "tail" if back else "head"
        image = model.maps.apply_map("head", edges, model.lookup(end, known), adjoint=back)
        products = image.flatten(1) @ pool.candidates.flat.T
        query = Query(target, edges, image, favour(model, known, end))
        return self.with_biases(products, query, pool, -self.sharpness, relative=False)

    def relations(
        self, model: SheafEmbedding, edges: Tensor, heads: Tensor, tails: Tensor
    ) -> Tensor:
        """−2⟨R x_h, x_t⟩ alone, as for tails; it is linear in the products of coordinates."""
        x_h, x_t = model.lookup("head", heads), model.lookup("tail", tails)
        products = x_t @ x_h.mT
        return -2 * products.flatten(1) @ model.maps.blocks("head", edges).flatten(1).T

    def lift(self, model: SheafEmbedding, x: Tensor) -> Tensor:
        """One more row for the height above the equator, in the first section where there are many.

        The length of a matrix is that of all its sections together, and so is its height.
        """
        row = torch.zeros_like(x[:1])
        row.view(-1)[0] = (model.radius.square() - x.square().sum()).clamp(min=0).sqrt()
        return torch.cat([x, row])

    def lift_map(self, map_: BlockMap, end: End) -> BlockMap:
        dense = map_.dense()
        corner = dense.new_full((1, 1), 1.0 if end == "tail" else 0.0)
        return BlockMap.from_dense(torch.block_diag(dense, corner))

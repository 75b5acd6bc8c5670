"""Sheaves with values elsewhere, trained: stalks with a metric and any differentiable maps.

V_e = d(F_h(x_h), F_t(x_t))^power. What an entity has is the coordinates of its point, in a chart of
the stalk; what a relation has is a map at each end, of a module with parameters by relation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from knowledge_sheaves.embedding.energies.base import Energy, Query
from knowledge_sheaves.embedding.maps import End
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.schema import FLAGS, OTHERS
from knowledge_sheaves.sheaf.hyperbolic import HyperbolicBall, MoebiusMaps
from knowledge_sheaves.sheaf.maps import RelationMaps, TwoLayerMaps
from knowledge_sheaves.sheaf.monomials import Candidates
from knowledge_sheaves.sheaf.valued import Euclidean, Space

if TYPE_CHECKING:
    from knowledge_sheaves.embedding.config import SheafConfig
    from knowledge_sheaves.embedding.model import SheafEmbedding


class Valued(Energy):
    """A stalk and maps of one's own: a subclass says `stalk` and `maps`, and has a name.

    >>> from knowledge_sheaves.embedding.energies import ENERGIES
    >>> sorted(name for name, kind in ENERGIES.items() if issubclass(kind, Valued))
    ['hyperbolic', 'layers']
    """

    linear = False
    extension = "descent"
    precise: ClassVar[bool] = False
    """Whether images and distances are computed with twice the digits."""

    @property
    def stalk(self) -> Space:
        """The stalk of relations, and of entities; ``stalk.point`` is its chart."""
        raise NotImplementedError

    def maps(self, end: End, relations: int) -> RelationMaps:
        """The maps at one end of all relations."""
        raise NotImplementedError

    def networks(self, relations: int) -> dict[str, RelationMaps]:
        return {"head": self.maps("head", relations), "tail": self.maps("tail", relations)}

    @classmethod
    def check(cls, config: SheafConfig) -> None:
        """Maps and translations are those of the space."""
        if {config.head, config.tail} != {"identity"} or config.block != 1 or config.translation:
            raise InputError(
                f"space: {cls.space} brings its own maps: leave head and tail the identity, block "
                "1 and translation false, as model: unstructured has them."
            )
        if config.norm != 2 or config.clamp is not None or config.sections != 1:
            raise InputError(
                f"space: {cls.space} is measured by its own distance, of single points: leave out "
                "norm, clamp and sections."
            )

    def check_schema(self, model: SheafEmbedding) -> None:
        """Refuse what a schema says and these maps cannot be held to."""
        if len(set(model.widths)) > 1 or model.widths[0] * model.n_blocks != self.config.dim:
            raise InputError(
                f"space: {self.space} has one stalk for all types: leave out their dimensions."
            )
        for relation in model.graph.schema.relations:
            for said in (*FLAGS, *OTHERS):
                if said != "symmetric" and getattr(relation, said):
                    raise InputError(
                        f"The relation {relation.name!r} is marked {said}, to which the maps of "
                        f"space: {self.space} cannot be held: drop {said}, or choose another space."
                    )

    # One triple.

    def image(self, model: SheafEmbedding, end: End, edges: Tensor, vectors: Tensor) -> Tensor:
        """F(x) of points by their coordinates (n, n_blocks, width, k).

        A relation that is read backwards by its own maps has them exchanged; of a symmetric one
        the head's stands at both ends.
        """
        coordinates = vectors.flatten(1)
        points = self.stalk.point(coordinates.double() if self.precise else coordinates)
        networks, own = model.networks, model.edges_with_maps
        turned = edges >= own
        rows = torch.where(turned, edges - own, edges)
        at_head = (turned != (end == "head")) | model.symmetric[rows]
        if bool((rows == rows[:1]).all()) and len(rows):
            rows = rows[0]  # one map for all of them, not a copy for each
        if at_head.all():
            found = networks["head"](points, rows)
        elif not at_head.any():
            found = networks["tail"](points, rows)
        else:
            both = (networks[name](points, rows) for name in ("head", "tail"))
            found = torch.where(at_head.unsqueeze(1), *both)
        return found.unflatten(1, (-1, 1, 1))

    def score(self, model: SheafEmbedding, left: Tensor, right: Tensor) -> Tensor:
        return self.apart(left.flatten(1), right.flatten(1)).to(model.radius.dtype)

    def square(self, model: SheafEmbedding, left: Tensor, right: Tensor) -> Tensor:
        """V_e: there is no other energy than that of the distance."""
        return self.score(model, left, right)

    def _power(self, distances: Tensor) -> Tensor:
        return distances if self.config.power == 1 else distances**self.config.power

    # All candidates.

    def values(
        self,
        model: SheafEmbedding,
        query: Query,
        candidates: Candidates,
        scale: float,
        relative: bool,
    ) -> Tensor:
        return (scale * self.by_edge(model, query, candidates)).to(candidates.flat.dtype)

    def images(
        self, model: SheafEmbedding, target: End, edge: Tensor, candidates: Candidates
    ) -> Tensor:
        each = edge.expand(len(candidates))
        return self.image(model, target, each, candidates.blocks).flatten(1)

    def apart(self, a: Tensor, b: Tensor) -> Tensor:
        return self._power(self.stalk.distance(a, b))


class Hyperbolic(Valued):
    """A ball of curvature −1 with Möbius maps, x ↦ (M ⊗ x) ⊕ z, at both ends."""

    name = space = "hyperbolic"
    precise = True  # near the rim of the ball the last digits decide

    @property
    def stalk(self) -> HyperbolicBall:
        return HyperbolicBall(self.config.dim)

    def maps(self, end: End, relations: int) -> RelationMaps:
        return MoebiusMaps(relations, self.stalk, self.stalk)


class Layers(Valued):
    """Networks of two layers, x ↦ B tanh(A x + c) + z, at both ends."""

    name = space = "layers"

    @property
    def stalk(self) -> Euclidean:
        return Euclidean(self.config.dim)

    def maps(self, end: End, relations: int) -> RelationMaps:
        dim = self.config.dim
        return TwoLayerMaps(relations, dim, dim, dim)

"""Entities on a torus: coordinates count modulo 1, and so do their differences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from knowledge_sheaves.embedding.energies.base import Energy, Start
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.sheaf.valued import torus_difference

if TYPE_CHECKING:
    from knowledge_sheaves.embedding.config import SheafConfig


class Torus(Energy):
    """‖x_h + z − x_t mod 1‖_norm^power: there is no quadratic form in it."""

    name = space = extension = "torus"
    linear = False

    @classmethod
    def check(cls, config: SheafConfig) -> None:
        if {config.head, config.tail} - {"identity", "tied"}:
            raise InputError(
                "On a torus coordinates count modulo 1, which no maps respect but the identity: "
                "use head: identity and tail: identity, or space: vector."
            )
        if config.clamp is not None:
            raise InputError("Coordinates modulo 1 have no length to be cut: leave out clamp.")

    @property
    def notes(self) -> list[str]:
        return ["Differences are taken modulo 1; harmonic extension minimises their squares."]

    def start(self) -> Start:
        return Start(1.0 if self.config.init is None else self.config.init, uniform=True)

    def difference(self, left: Tensor, right: Tensor) -> Tensor:
        return torus_difference(left, right)

"""Energies: how the two ends of an edge are measured. One module a kind, one line to register it.

>>> from knowledge_sheaves.embedding import model_config
>>> [model_config(name).energy.name for name in ("rotate", "complex", "toruse")]
['square', 'lifted', 'torus']
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge_sheaves.embedding.energies.base import Energy as Energy
from knowledge_sheaves.embedding.energies.lifted import Lifted
from knowledge_sheaves.embedding.energies.norms import Norm
from knowledge_sheaves.embedding.energies.square import Power, Square
from knowledge_sheaves.embedding.energies.torus import Torus
from knowledge_sheaves.embedding.energies.valued import Hyperbolic, Layers
from knowledge_sheaves.embedding.energies.valued import Valued as Valued
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.vocabulary import suggestion

if TYPE_CHECKING:
    from knowledge_sheaves.embedding.config import SheafConfig

ENERGIES: dict[str, type[Energy]] = {
    kind.name: kind for kind in (Square, Power, Norm, Lifted, Torus, Hyperbolic, Layers)
}


def register(kind: type[Energy]) -> type[Energy]:
    """Let configurations choose an energy of one's own, by its ``space``; may be a decorator."""
    ENERGIES[kind.name] = kind
    return kind


def energy_of(config: SheafConfig) -> Energy:
    """The energy that a model's choices mean; choices that it cannot do are refused."""
    spaces = sorted({kind.space for kind in ENERGIES.values()})
    if config.space not in spaces:
        raise InputError(
            f"space must be one of {', '.join(spaces)}, not {config.space!r}"
            f"{suggestion(str(config.space), spaces) or '.'}"
        )
    kind = next(kind for kind in ENERGIES.values() if kind.claims(config))
    kind.check(config)
    return kind(config)

"""An embedding as a density, p(x) ∝ Π_e ψ_e with ψ_e = exp(−V_e / 2σ²): see `sheaf.gaussian`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from knowledge_sheaves.embedding.hierarchy import unfold
from knowledge_sheaves.embedding.noise import model_noise, relation_noise
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.sheaf import log_density, log_potentials
from knowledge_sheaves.sheaf.gaussian import LARGEST

if TYPE_CHECKING:
    from knowledge_sheaves.embedding.model import SheafEmbedding

MOST_WORK = 2e11
"""Operations that all eigenvalues of a Laplacian may take: some minutes of one core."""


@dataclass(frozen=True)
class Potential:
    """The mean log ψ_e of a relation's facts, and its own noise σ_r² (of a lifted one, τ_r)."""

    name: str
    facts: int
    log_potential: float
    variance: float
    label: str | None = None


@dataclass(frozen=True)
class Density:
    """What `density` found, relations by their mean log-potential, the most surprising first."""

    variance: float
    log_potential: float
    """The sum over all facts: the log-density up to its constant."""
    log_density: float | None
    relations: list[Potential]
    notes: list[str] = field(default_factory=list)

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """Plain data, with the first ``top`` relations."""
        document = asdict(self)
        document["relations"] = document["relations"][:top]
        return document


@torch.no_grad()
def density(model: SheafEmbedding) -> Density:
    """The log-density of a model's vectors, and the potentials that it is the product of.

    σ² is the mean energy per dimension of facts held out from training, or of training's where
    there are none. Relations are read forwards. The normalising constant takes all eigenvalues of
    the Laplacian, and is left out where they would take too long.

    >>> from knowledge_sheaves.embedding import SheafEmbedding, model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    >>> found = density(SheafEmbedding(model_config("transe", dim=4), graph))
    >>> round(found.log_potential, 3), found.relations[0].name     # −½ a dimension and fact
    (-4.0, 'r')
    """
    if not model.graph.num_triples:
        raise InputError("The graph of the model has no triples: nothing gives it a density.")
    variance = model_noise(model)
    if not variance > 0:
        raise InputError("All facts have the energy 0: there is no noise to make a density of.")
    parts = unfold(model)
    sheaf, z = parts.sheaf.on(parts.typing)
    logs = log_potentials(sheaf, parts.cochain, z, variance).double().numpy()
    notes: list[str] = []
    whole = None
    size = int(sheaf.vertex_offsets[-1]) / sheaf.n_blocks
    if size <= LARGEST and sheaf.n_blocks * size**3 <= MOST_WORK:
        whole = float(log_density(sheaf, parts.cochain, z, variance))
    else:
        notes.append(
            f"The log-density is left out: its constant takes all eigenvalues of a Laplacian with "
            f"{sheaf.n_blocks:,} × {size:,.0f} dimensions."
        )
    if model.config.energy.on_sphere:
        notes.append("Most of a lifted energy is M²: relations have a temperature, not a σ².")
    return Density(variance, float(logs.sum()), whole, _by_relation(model, logs), notes)


def _by_relation(model: SheafEmbedding, logs: np.ndarray) -> list[Potential]:
    """Every relation that has facts; parts of a relation between pairs of types are taken apart."""
    relations, edges = model.graph.schema.relations, model.graph.triples[:, 1]
    own = relation_noise(model)
    counts = np.bincount(edges, minlength=len(relations))
    sums = np.bincount(edges, logs, minlength=len(relations))
    found = [
        Potential(r.name, int(counts[e]), float(sums[e] / counts[e]), float(own[e]), r.label)
        for e, r in enumerate(relations)
        if counts[e]
    ]
    return sorted(found, key=lambda each: each.log_potential)

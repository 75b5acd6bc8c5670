"""What harmonic extension is, whatever the energy: the unknowns are where it is least.

An energy names the extension that suits it (`Energy.extension`), and nothing else asks which energy
a model has. `forms` has that of springs, `lifted` those of entities on a sphere, `torus` that of
coordinates modulo 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.energies.base import less_favour_of
from knowledge_sheaves.embedding.maps import End
from knowledge_sheaves.query.budget import Budget
from knowledge_sheaves.query.explanation import Candidate
from knowledge_sheaves.query.pattern import Variable
from knowledge_sheaves.query.solvers.harmonic.graph import QueryGraph
from knowledge_sheaves.sheaf import QuadraticForm

if TYPE_CHECKING:
    from knowledge_sheaves.query.solvers.harmonic.forms import Springs


class Least(NamedTuple):
    """The least energies (queries, candidates), and which queries are ``indifferent`` (queries).

    Those are satisfied whatever their answer is, so that rounding ranks their candidates.
    """

    energies: Tensor
    indifferent: Tensor | None = None


class LeastForm(NamedTuple):
    """`Least` before it is evaluated."""

    form: QuadraticForm
    indifferent: Tensor | None = None


class Extension(ABC):
    """How the unknowns of query graphs are found, for one kind of energy."""

    gives_way: ClassVar[bool] = True
    """Whether edges in a row give way more easily than one: of k springs, 1/k is left."""

    def __init__(
        self, model: SheafEmbedding, strength: float = 0.0, budget: Budget | None = None
    ) -> None:
        self.model, self.strength, self.budget = model, strength, budget or Budget()
        self.weights: Tensor | None = None
        """How much every edge of the model counts; None: all alike."""

    def weight(self, batch: QueryGraph, place: int) -> Tensor | None:
        """How much an edge counts in each query, (queries)."""
        return None if self.weights is None else self.weights[batch.edges[:, place]]

    @classmethod
    def of(
        cls, model: SheafEmbedding, lift: str, strength: float, budget: Budget | None = None
    ) -> Extension:
        """The extension by what `harmonic` was told."""
        return cls(model, strength, budget)

    @property
    @abstractmethod
    def jointly(self) -> Springs | None:
        """The extension that ranks several targets at once, if there is one."""

    @abstractmethod
    def energies(self, batch: QueryGraph, target: Variable) -> Least:
        """The least energy of every entity of the target's type, biases aside."""

    def form_at(self, batch: QueryGraph, target: Variable) -> LeastForm | None:
        """The least energy as a form over the target; None where it is not known as one."""
        return None

    @abstractmethod
    def place(self, batch: QueryGraph, targets: Mapping[int, int]) -> Placement:
        """Where the unknowns of one query are, once its targets (by vertex) have entities."""

    def edge(self, left: Tensor, right: Tensor, free: bool) -> Tensor:
        """The energy of an edge from its ends, by definition; a ``free`` tail is an unknown."""
        return self.model.config.energy.square(self.model, left, right)

    def vectors(self, batch: QueryGraph, vertex: int, entities: Tensor) -> Tensor:
        """The vectors of entities in the place of a vertex, (entities, dim, k)."""
        width = self.model.widths[batch.types[vertex]]
        return self.model.entities.lookup(entities)[..., :width, :].flatten(1, 2)


@dataclass(frozen=True, eq=False)
class Placement(ABC):
    """The vectors (1, dim, k) of all vertices of one query, by vertex."""

    by: Extension
    batch: QueryGraph
    targets: Mapping[int, int]
    values: Mapping[int, Tensor]

    @abstractmethod
    def costs(self, vertex: int) -> Tensor:
        """The energy of every entity of its type in the place of an unknown, others adapting."""

    def pull(self, vertex: int) -> float:
        """The energy of the prior at the place of an unknown."""
        return 0.0

    def spreads(self) -> dict[int, float]:
        """The posterior deviation of each unknown: the root of its mean variance."""
        return {}

    def beyond(self) -> dict[str, float]:
        """Energies that no single edge has, by name."""
        return {}

    @property
    def unknown(self) -> list[int]:
        slots = self.batch.entities.shape[1]
        return [v for v in range(slots, len(self.batch.types)) if v not in self.targets]

    def total(self) -> float:
        pulls = sum(self.pull(vertex) for vertex in self.unknown)
        return sum(self.energies()) + pulls + sum(self.beyond().values())

    def energies(self) -> list[float]:
        """The energy of every edge by its definition: all digits count here."""
        return [self._energy(place) for place in range(self.batch.graph.num_edges)]

    def _energy(self, place: int) -> float:
        model, graph = self.by.model, self.batch.graph
        edge = self.batch.edges[:, place]
        head, tail = int(graph.heads[place]), int(graph.tails[place])
        left, right = self._image("head", edge, head), self._image("tail", edge, tail)
        z = model.translation(edge)
        energy = self.by.edge(left if z is None else left + z, right, tail in self.unknown)
        weight = self.by.weight(self.batch, place)
        energy = energy if weight is None else weight * energy
        return float(self._less_favour(energy, slice(place, place + 1)))

    def _less_favour(self, energies: Tensor, edges: slice) -> Tensor:
        """Biases of targets count once for every edge; those of the known change no order."""
        model, graph = self.by.model, self.batch.graph
        for vertex, entity in self.targets.items():
            ids = torch.tensor([entity], device=model.device)
            ends = (graph.heads[edges] == vertex, graph.tails[edges] == vertex)
            energies = less_favour_of(model, energies, ids, *(int(end.sum()) for end in ends))
        return energies

    def _image(self, end: End, edge: Tensor, vertex: int) -> Tensor:
        model, width = self.by.model, self.by.model.widths[self.batch.types[vertex]]
        blocks = self.values[vertex].unflatten(-2, (model.n_blocks, width))
        return model.maps.blocks(end, edge)[..., :width] @ blocks

    def nearest(self, vertex: int, count: int) -> dict[int, Candidate]:
        """The entities that cost least in the place of an unknown, and how far they are from it."""
        model, kind = self.by.model, self.batch.types[vertex]
        costs = self._less_favour(self.costs(vertex), slice(None))
        best = costs.topk(min(count, len(costs)), largest=False)
        points = model.entities.of_type(kind)[best.indices].flatten(1)
        away = model.config.energy.difference(points, self.values[vertex].flatten(1)).norm(dim=1)
        ids = model.entities_of_type(kind)[best.indices].tolist()
        found = zip(ids, best.values.tolist(), away.tolist(), strict=True)
        return {
            entity: Candidate(model.graph.name(entity), energy=energy, distance=distance)
            for entity, energy, distance in found
        }

"""What could stand for the unknowns of a question: the Gaussian view of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.options import Options
from knowledge_sheaves.query.pattern import Entity, Query
from knowledge_sheaves.query.solvers.base import grounded
from knowledge_sheaves.query.solvers.harmonic.forms import FormPlacement
from knowledge_sheaves.query.solvers.harmonic.graph import QueryGraph
from knowledge_sheaves.query.solvers.harmonic.solver import Harmonic
from knowledge_sheaves.query.types import readings
from knowledge_sheaves.sheaf import Ball, Gaussian, HalfSpace
from knowledge_sheaves.sheaf.regions import Probability


class Completions(NamedTuple):
    """The joint density of a question's unknowns, by the names of their variables."""

    gaussian: Gaussian
    vertices: Mapping[str, int]

    def mean(self, variable: str) -> Tensor:
        """Where an unknown most likely lies: what harmonic extension finds."""
        return self.gaussian.mean[self._vertex(variable)].flatten()

    def covariance(self, variable: str) -> Tensor:
        """How sure that is, as a matrix."""
        return self.gaussian.covariance(self._vertex(variable)).dense()

    def sample(self, count: int, seed: int = 0) -> dict[str, Tensor]:
        """Draws of all unknowns together, (count, dim) by variable."""
        drawn = self.gaussian.sample(count, torch.Generator().manual_seed(seed))
        return {name: drawn[vertex].reshape(count, -1) for name, vertex in self.vertices.items()}

    def probability(self, variable: str, region: Ball | HalfSpace) -> Probability:
        """How likely an unknown lies in a region."""
        return self.gaussian.probability(self._vertex(variable), region)

    def log_density(self, values: Mapping[str, Tensor]) -> float:
        """log p of vectors for all unknowns."""
        given = {self._vertex(name): value.reshape(-1, 1) for name, value in values.items()}
        return float(self.gaussian.log_density(given))

    def _vertex(self, variable: str) -> int:
        if variable not in self.vertices:
            raise InputError(
                f"{variable} is no unknown of the question: those are "
                f"{', '.join(self.vertices) or 'none'}."
            )
        return self.vertices[variable]


@torch.no_grad()
def completions(
    model: SheafEmbedding,
    query: Query,
    answer: Mapping[str, str],
    options: Options | None = None,
) -> Completions:
    """The density of a conjunction's unknowns once its targets have entities, by name.

    The noise σ² is that of facts held out; a ``strength`` among the options is the weight of the
    prior on unknowns. Unknowns that nothing holds have no density, and that is an error.

    >>> from knowledge_sheaves.embedding import model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "s", "c")])
    >>> model = SheafEmbedding(model_config("transe", dim=2), graph)
    >>> query = Query.from_triples([("a", "r", "?y"), ("?y", "s", "?x")], "?x", graph)
    >>> found = completions(model, query, {"?x": "c"})
    >>> found.sample(5)["?y"].shape
    torch.Size([5, 2])
    """
    solver = (options or Options()).but(solver=Harmonic.name).start(model)
    assert isinstance(solver, Harmonic), "chosen by name"
    if len(query.patterns) > 1 or query.is_negated:
        raise InputError("A density has one conjunction without negation: ask for one branch.")
    pattern = grounded(query.patterns[0], query.targets)
    given = {v: model.graph.entities.id(_of(answer, v)) for v in query.targets}
    known = pattern.substitute(lambda v: Entity(given[v]) if v in given else None)
    parts = readings(known, model.graph)[0]
    batch = QueryGraph.of(model, [pattern], [parts], query.targets[-1])
    placed = solver.extension.place(batch, {batch.vertex(v): e for v, e in given.items()})
    if not isinstance(placed, FormPlacement):
        raise InputError(
            f"The energy of a {model.config.energy.name}-valued model is no quadratic form, and "
            "its unknowns no Gaussian."
        )
    unknown = {str(v): batch.vertex(v) for v in pattern.variables if v not in given}
    return Completions(Gaussian(placed.form, placed.by.variance(placed.reduced.strength)), unknown)


def _of(answer: Mapping[str, str], target: str) -> str:
    if target not in answer:
        raise InputError(f"Give the entity that {target} stands for: its answer has a density.")
    return answer[target]

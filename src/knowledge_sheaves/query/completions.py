"""What could stand for the unknowns of a question: the Gaussian view of an answer."""

from __future__ import annotations

import math
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
    kinds: Mapping[str, int]
    """The types of the unknowns."""

    def mean(self, variable: str) -> Tensor:
        """Where an unknown most likely lies: what harmonic extension finds."""
        return self.gaussian.mean[self._vertex(variable)].flatten()

    def covariance(self, variable: str) -> Tensor:
        """How sure that is, as a matrix."""
        dense = self.gaussian.covariance(self._vertex(variable)).dense()
        return dense.reshape(dense.shape[-2:])  # of one question

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

    def deviation(self, variable: str) -> float:
        """How far an unknown typically lies from its mean, by coordinate."""
        return float(self.covariance(variable).diagonal().mean().clamp(min=0).sqrt())

    def log_marginal(self, variable: str, vectors: Tensor) -> Tensor:
        """log p of vectors (n, dim) for one unknown, whatever the others are: (n,)."""
        mean = self.mean(variable).double()
        one = self.covariance(variable).double()
        sections = len(mean) // len(one)
        away = (vectors.double() - mean).unflatten(1, (-1, sections))
        factor = torch.linalg.cholesky(one)
        white = torch.linalg.solve_triangular(factor, away, upper=False)
        normal = factor.diagonal().log().sum() + len(one) / 2 * math.log(2 * math.pi)
        return -white.square().sum((1, 2)) / 2 - sections * normal

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
    gaussian = Gaussian(placed.form, placed.by.variance(placed.reduced.strength))
    return Completions(gaussian, unknown, {v: batch.types[place] for v, place in unknown.items()})


class Candidate(NamedTuple):
    """An entity for an unknown: how often a draw lies nearest to it, and log p of its vector."""

    entity: int
    share: float
    log_density: float


@torch.no_grad()
def candidates(
    model: SheafEmbedding, found: Completions, variable: str, count: int = 1000, seed: int = 0
) -> list[Candidate]:
    """The entities that draws of an unknown lie nearest to, the most frequent first.

    The share estimates the probability that of all entities this one is nearest to the unknown.

    >>> from knowledge_sheaves.embedding import model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "s", "c")])
    >>> model = SheafEmbedding(model_config("transe", dim=2), graph)
    >>> query = Query.from_triples([("a", "r", "?y"), ("?y", "s", "?x")], "?x", graph)
    >>> drawn = candidates(model, completions(model, query, {"?x": "c"}), "?y")
    >>> round(sum(each.share for each in drawn), 6)
    1.0
    """
    draws = found.sample(count, seed)[variable]
    kind = found.kinds[variable]
    table = model.entities.of_type(kind).flatten(1)
    nearest = torch.cat([torch.cdist(part, table).argmin(1) for part in draws.split(256)])
    places, numbers = nearest.unique(return_counts=True)
    logs = found.log_marginal(variable, table[places])
    ids = model.entities_of_type(kind)[places].tolist()
    rows = zip(ids, (numbers / count).tolist(), logs.tolist(), strict=True)
    return sorted((Candidate(*row) for row in rows), key=lambda each: -each.share)


def _of(answer: Mapping[str, str], target: str) -> str:
    if target not in answer:
        raise InputError(f"Give the entity that {target} stands for: its answer has a density.")
    return answer[target]

"""What the solvers leave open, chosen by how well validation queries are answered.

One thing after another, each on the queries that it matters to and with what was chosen before it:
the temperature τ, how much all candidates of an unknown count beside the best (softness), how many
times colder edges to unknowns are (focus), how hard a negation bites (κ), how many candidates
chaining keeps (k), and the strength of the prior on unknowns (λ). A value is as good as its MRR by
the benchmark's protocol, the mean over the types of queries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.storage import dataset_of
from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.evaluation.benchmark import Protocol
from knowledge_sheaves.evaluation.betae import TYPES, BetaEFolder, Half, Translation, TypeQueries
from knowledge_sheaves.evaluation.calibration import fit_temperature
from knowledge_sheaves.evaluation.prediction import Predictor
from knowledge_sheaves.evaluation.queries import rank_answers, take
from knowledge_sheaves.evaluation.ranking import FloatArray
from knowledge_sheaves.query.answers import by_shape
from knowledge_sheaves.query.facts.sampler import sample_queries
from knowledge_sheaves.query.language.betae import smaller_and_larger
from knowledge_sheaves.query.options import CALIBRATED, Settled
from knowledge_sheaves.query.pattern import Query
from knowledge_sheaves.query.solve import QUERY_TAU, Options, scores
from knowledge_sheaves.query.solvers.chaining.rows import slices

SLACK = 0.001
"""As much MRR is given away for fewer candidates: they are what takes time."""


def _is_negated(query: Query) -> bool:
    return any(pattern.without for pattern in query.patterns)


def _is_composed(query: Query) -> bool:
    """Whether a positive query has more than one edge: of one, any temperature ranks alike."""
    return not _is_negated(query) and sum(len(p.edges) for p in query.patterns) > 1


def _has_unknowns(query: Query) -> bool:
    return any(set(p.variables) - set(query.targets) for p in query.patterns)


def _is_positive_with_unknowns(query: Query) -> bool:
    return _has_unknowns(query) and not _is_negated(query)


@dataclass(frozen=True)
class Parameter:
    """What can be chosen: the solver that it is for, values to try, and queries that it matters to.

    The first of the values that is as good as the best is taken, but for some slack.
    """

    solver: str
    values: tuple[float, ...]
    matters: Callable[[Query], bool]
    slack: float = 0.0


PARAMETERS = {
    # Times the temperature of facts.
    "tau": Parameter("chaining", (1.0, 0.125, 0.25, 0.5, 0.7, 1.4, 2.0, 4.0), _is_composed),
    "softness": Parameter("chaining", (0.0, 0.25, 0.5, 1.0), _is_positive_with_unknowns),
    "focus": Parameter("chaining", (1.0, 1.4, 2.0), _is_positive_with_unknowns),
    "kappa": Parameter("chaining", (1.0, 0.25, 0.5, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0), _is_negated),
    "k": Parameter("chaining", (16, 32, 64, 128, 256), _has_unknowns, SLACK),
    "strength": Parameter(
        "harmonic",
        (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
        _is_positive_with_unknowns,
    ),
}
"""In the order in which they are chosen."""


@dataclass(frozen=True)
class Trial:
    """A value that was tried: how well the queries that it matters to were answered with it."""

    parameter: str
    value: float
    solver: str
    queries: int
    mrr: float
    seconds: float


@dataclass(frozen=True)
class QueryCalibration:
    """What was chosen, as a model keeps it, what was tried for it, and what could not be."""

    values: dict[str, float]
    trials: tuple[Trial, ...]
    notes: tuple[str, ...]

    def chosen(self, trial: Trial) -> bool:
        """Whether this is the value that was chosen."""
        return self.values.get(_stored(trial.parameter)) == trial.value

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name."""
        trials = [asdict(trial) | {"chosen": self.chosen(trial)} for trial in self.trials]
        return {"calibration": self.values, "trials": trials, "notes": list(self.notes)}


Report: TypeAlias = Callable[[Trial, int], None]
"""Told of a trial, and how many will follow at most."""


def folder_queries(
    model: SheafEmbedding,
    folder: str | Path,
    sample: int,
    seed: int = 0,
    half: Half | None = None,
) -> list[TypeQueries]:
    """Up to ``sample`` validation queries of every type, from a folder of the benchmark."""
    there = BetaEFolder(folder, "valid")
    translate, asked = Translation(there.data, model), Protocol(sample=sample, seed=seed, half=half)
    return [translate(asked.queries(there.queries(name))) for name in there.types]


def drawn_queries(model: SheafEmbedding, sample: int, seed: int = 0) -> list[TypeQueries]:
    """``sample`` queries of every type from the model's own facts, or as many as are found.

    Their easy answers follow from the training facts, their hard ones need a validation fact.
    """
    data = dataset_of(model)
    if data.valid is None or not data.valid.num_triples:
        raise InputError(
            "The model has no validation facts in its folder to draw queries from: give queries "
            "with --queries FOLDER."
        )
    smaller, larger = smaller_and_larger(data, "valid")
    found = []
    for name in TYPES:
        size = sample
        while size:  # a shape may be rare
            try:
                drawn = sample_queries(smaller, larger, name, size, seed)
            except SheafError:
                size //= 4
                continue
            found.append(TypeQueries(name, drawn.queries, drawn.easy, drawn.hard))
            break
    if not found:
        raise SheafError("The validation facts are too few to draw queries from them.")
    return found


def calibrate(
    model: SheafEmbedding,
    queries: Sequence[TypeQueries],
    *,
    tau: Literal["queries", "facts"] = "queries",
    facts: str = "remembered",
    only: Collection[str] = tuple(PARAMETERS),
    report: Report | None = None,
) -> QueryCalibration:
    """Choose τ, softness, focus, κ, k and λ; the model is left as it is.

    ``tau`` says what the temperature of queries is fitted on: these queries, or single facts of the
    validation data. ``facts`` whether chaining remembers those of training. With ``only`` some are
    chosen, and the others stay as the model has them.

    >>> from knowledge_sheaves.embedding import ModelInfo, model_config
    >>> from knowledge_sheaves.graph.readers import load
    >>> data = load("nations")
    >>> model = SheafEmbedding(model_config("complex", dim=4), data.train)
    >>> model.info = ModelInfo.of(data)
    >>> found = calibrate(model, drawn_queries(model, 2))
    >>> sorted(found.values)
    ['focus', 'k', 'kappa', 'query_tau', 'softness', 'strength', 'tau']
    """
    strange = sorted(set(only) - set(PARAMETERS))
    if strange:
        raise InputError(f"There is no {strange[0]!r} to choose, only {', '.join(PARAMETERS)}.")
    of_facts, notes = fact_temperature(model), []
    kept = {} if model.info is None else dict(model.info.calibration)
    for name in only:
        kept.pop(_stored(name), None)
    wanted = [n for n in PARAMETERS if n in only and not (n == "tau" and tau == "facts")]
    if not model.config.energy.linear and "strength" in wanted:
        wanted.remove("strength")
        notes.append("Unknowns on a torus have no prior: strength is left open.")
    # What is not chosen yet is as by default, whatever the model was calibrated to before.
    options = Options(facts=facts, tau=kept.get(QUERY_TAU, of_facts))
    for name in CALIBRATED:
        options = _with(options, name, kept.get(name, getattr(Settled, name)))
    search = _Search(model, queries, options, wanted, report)
    for name in wanted:
        search.choose(name, of_facts if name == "tau" else 1)
    values = kept | {"tau": of_facts} | {_stored(n): v for n, v in search.chosen.items()}
    return QueryCalibration(values, tuple(search.trials), (*notes, *search.notes))


def _stored(name: str) -> str:
    """What a model calls a parameter: it has a temperature of facts as well."""
    return QUERY_TAU if name == "tau" else name


def fact_temperature(model: SheafEmbedding) -> float:
    """The temperature fitted on facts; where none were held out, known ones must do."""
    fitted = Predictor(model).tau
    if fitted is not None:
        return fitted
    return fit_temperature(model, model.graph, model.graph.with_triples(model.graph.triples[:0]))


class _Search:
    def __init__(
        self,
        model: SheafEmbedding,
        queries: Sequence[TypeQueries],
        options: Options,
        names: Sequence[str],
        report: Report | None,
    ) -> None:
        self.model, self.queries, self.options, self.report = model, queries, options, report
        self.most = sum(len(PARAMETERS[name].values) for name in names)
        self.chosen: dict[str, float] = {}
        self.trials: list[Trial] = []
        self.notes: list[str] = []

    def choose(self, name: str, unit: float = 1) -> None:
        """Keep the best value of a parameter; ``unit`` is what its values are multiples of."""
        about = PARAMETERS[name]
        groups = [group for group in self.queries if len(group) and about.matters(group.queries[0])]
        if not groups:
            self.notes.append(f"There are no queries that {name} matters to: it is left open.")
            return
        options = replace(self.options, solver=about.solver)
        tried = [self._try(name, unit * value, groups, options) for value in about.values]
        best = max(trial.mrr for trial in tried)
        chosen = next(trial.value for trial in tried if trial.mrr >= best - about.slack)
        self.chosen[name] = chosen
        self.options = _with(self.options, name, chosen)

    def _try(
        self, name: str, value: float, groups: Sequence[TypeQueries], options: Options
    ) -> Trial:
        start = time.perf_counter()
        tried = _with(options, name, value)
        mrr = float(np.mean([reciprocal_ranks(self.model, g, tried).mean() for g in groups]))
        seconds = time.perf_counter() - start
        trial = Trial(name, value, options.solver, sum(map(len, groups)), mrr, seconds)
        self.trials.append(trial)
        if self.report is not None:
            self.report(trial, self.most - len(self.trials))
        return trial


def _with(options: Options, name: str, value: float) -> Options:
    changed: dict[str, Any] = {name: value}
    return replace(options, **changed)


@torch.no_grad()
def reciprocal_ranks(model: SheafEmbedding, group: TypeQueries, options: Options) -> FloatArray:
    """The mean reciprocal rank of the hard answers of each query, by the benchmark's protocol.

    Queries come shape by shape: one type has several where relations are read backwards.
    """
    most = max(1, options.memory_limit // (8 * 4 * model.graph.num_entities))
    found = []
    for members in by_shape(group.queries).values():
        for part in slices(len(members), most):
            places = np.array(members[part])
            queries = [group.queries[place] for place in places.tolist()]
            energies, _ = scores(model, queries, options, chances=False)
            ranks = rank_answers(energies, take(group.easy, places), take(group.hard, places))
            found.append(ranks.reciprocal)
    return np.concatenate(found)

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
from knowledge_sheaves.evaluation.queries import rank_answers, take
from knowledge_sheaves.query.asking import scores
from knowledge_sheaves.query.batches import by_shape, slices
from knowledge_sheaves.query.facts.sampler import Alike, sample_queries
from knowledge_sheaves.query.language.betae import smaller_and_larger
from knowledge_sheaves.query.options import Options
from knowledge_sheaves.query.solvers import SOLVERS, parameters
from knowledge_sheaves.query.solvers.base import QUERY_TAU, Fit
from knowledge_sheaves.ranking import fact_temperature
from knowledge_sheaves.ranking.ranker import FloatArray
from knowledge_sheaves.ranking.temperature import TAU


def fitted_parameters() -> dict[str, tuple[str, Fit]]:
    """What can be chosen, with the solver that it is chosen for, in the order of choosing.

    >>> list(fitted_parameters())
    ['tau', 'softness', 'focus', 'kappa', 'k', 'strength']
    """
    found: dict[str, tuple[str, Fit]] = {}
    for solver in SOLVERS.values():
        for name, about in solver.Settings.parameters().items():
            if about.fit is not None:
                found.setdefault(name, (solver.name, about.fit))
    return found


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


SPLITS = {"valid": "validation", "test": "test"}
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


def drawn_queries(
    model: SheafEmbedding,
    sample: int,
    seed: int = 0,
    *,
    split: str = "valid",
    types: Sequence[str] = TYPES,
    after_train: bool = False,
    alike: Alike | None = None,
) -> list[TypeQueries]:
    """``sample`` queries of every type from the model's own facts, or as many as are found.

    Their easy answers follow from the facts before the split, their hard ones need one of it. With
    ``after_train`` only those of training come before it. Of queries that are ``alike`` one is
    drawn.
    """
    data = dataset_of(model)
    if after_train and split == "test":
        data = replace(data, valid=None)
    if split not in data.splits or not data.splits[split].num_triples:
        raise InputError(
            f"The model has no {SPLITS[split]} facts in its folder to draw queries from: give "
            "queries with --queries FOLDER."
        )
    smaller, larger = smaller_and_larger(data, split)
    found = []
    for name in types:
        drawn = sample_queries(smaller, larger, name, sample, seed, alike=alike, at_most=True)
        if drawn.queries:
            found.append(TypeQueries(name, drawn.queries, drawn.easy, drawn.hard))
    if not found:
        raise SheafError(f"The {SPLITS[split]} facts are too few to draw queries from them.")
    return found


def calibrate(
    model: SheafEmbedding,
    queries: Sequence[TypeQueries],
    *,
    tau: Literal["queries", "facts"] = "queries",
    facts: str = "remembered",
    only: Collection[str] | None = None,
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
    known = fitted_parameters()
    only = list(known) if only is None else only
    strange = sorted(set(only) - set(known))
    if strange:
        raise InputError(f"There is no {strange[0]!r} to choose, only {', '.join(known)}.")
    of_facts, notes = fact_temperature(model), []
    kept = {} if model.info is None else dict(model.info.calibration)
    for name in only:
        kept.pop(_stored(name), None)
    wanted = [n for n in known if n in only and not (n == TAU and tau == "facts")]
    if not model.config.energy.linear and "strength" in wanted:
        wanted.remove("strength")
        notes.append("Unknowns on a torus have no prior: strength is left open.")
    # What is not chosen yet is as by default, whatever the model was calibrated to before.
    settled = {name: kept.get(name, about.default) for name, about in parameters().items()}
    temperature = kept.get(QUERY_TAU, of_facts)
    options = Options(**settled | {"facts": facts, TAU: temperature})
    search = _Search(model, queries, options, wanted, report)
    for name in wanted:
        search.choose(name, of_facts if name == TAU else 1)
    values = kept | {"tau": of_facts} | {_stored(n): v for n, v in search.chosen.items()}
    return QueryCalibration(values, tuple(search.trials), (*notes, *search.notes))


def _stored(name: str) -> str:
    """What a model calls a parameter: it has a temperature of facts as well."""
    return QUERY_TAU if name == TAU else name


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
        self.known = fitted_parameters()
        self.most = sum(len(self.known[name][1].values) for name in names)
        self.chosen: dict[str, float] = {}
        self.trials: list[Trial] = []
        self.notes: list[str] = []

    def choose(self, name: str, unit: float = 1) -> None:
        """Keep the best value of a parameter; ``unit`` is what its values are multiples of."""
        solver, about = self.known[name]
        groups = [group for group in self.queries if len(group) and about.matters(group.queries[0])]
        if not groups:
            self.notes.append(f"There are no queries that {name} matters to: it is left open.")
            return
        options = self.options.but(solver=solver)
        tried = [self._try(name, unit * value, groups, options) for value in about.values]
        best = max(trial.mrr for trial in tried)
        chosen = next(trial.value for trial in tried if trial.mrr >= best - about.slack)
        self.chosen[name] = chosen
        self.options = self.options.but(**{name: chosen})

    def _try(
        self, name: str, value: float, groups: Sequence[TypeQueries], options: Options
    ) -> Trial:
        start = time.perf_counter()
        tried = options.but(**{name: value})
        mrr = float(np.mean([reciprocal_ranks(self.model, g, tried).mean() for g in groups]))
        seconds = time.perf_counter() - start
        trial = Trial(name, value, options.solver, sum(map(len, groups)), mrr, seconds)
        self.trials.append(trial)
        if self.report is not None:
            self.report(trial, self.most - len(self.trials))
        return trial


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

"""Do probabilities hold what they promise? Judged on test facts, which nothing else has seen.

The first answer, and the first ten, to the questions of test facts, known facts left out: in bins
of equal mass, what was promised beside what was right. One common temperature stands beside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.probability import probabilities
from knowledge_sheaves.embedding.storage import dataset_of, measured
from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.evaluation.trials import trials
from knowledge_sheaves.evaluation.trust import ask
from knowledge_sheaves.files import writing
from knowledge_sheaves.graph import BoolArray, IntArray
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.query.drawing import FORMATS
from knowledge_sheaves.query.options import Options
from knowledge_sheaves.query.questions import question_trust
from knowledge_sheaves.ranking.logistic import (
    Bin,
    bins,
    calibration_error,
    chance_error,
    log_loss,
)
from knowledge_sheaves.ranking.proposals import FIRST, propose
from knowledge_sheaves.ranking.ranker import MEMORY_LIMIT, FloatArray, chunks
from knowledge_sheaves.ranking.temperature import temperature
from knowledge_sheaves.ranking.triples import known_facts, rank_triples, ranked_side
from knowledge_sheaves.ranking.trust import WORK, others, triple_probabilities, trust_of

COVERAGES = (0.5, 0.8, 0.9, 0.95)
SAMPLE = 4_000
"""How many questions of a type are judged at most: of 1,000 first answers chance leaves 0.045."""
MORE = 4
"""How many times as many facts are judged as a fit is made of: it leaves half as much to chance."""
COMPARED = 200_000_000
"""How many entities they are compared with; 200 questions are asked even so, where there are."""


@dataclass(frozen=True)
class Reliability:
    """Answers of one kind: how far probabilities are from what was right, and the bins.

    ``chance`` is the error that would be seen if they were exactly right.
    """

    name: str
    answers: int
    right: float
    error: float
    chance: float
    loss: float
    common_error: float
    common_loss: float
    bins: tuple[Bin, ...]

    @classmethod
    def of(cls, name: str, p: FloatArray, common: FloatArray, right: BoolArray) -> Reliability:
        """Judge probabilities, and those of one common temperature beside them."""
        return cls(
            *(name, len(right), float(right.mean())),
            *(calibration_error(p, right), chance_error(p), log_loss(p, right)),
            *(calibration_error(common, right), log_loss(common, right)),
            tuple(bins(p, right)),
        )

    def row(self) -> dict[str, Any]:
        """A row of a table."""
        return {
            "answers": self.name,
            "count": self.answers,
            "right": self.right,
            "ECE": self.error,
            "ECE by chance": self.chance,
            "log-loss": self.loss,
            "ECE, one temperature": self.common_error,
            "log-loss, one temperature": self.common_loss,
        }


@dataclass(frozen=True)
class Covered:
    """Sets that were to hold the missing answer so often: how often they did, and how large."""

    coverage: float
    reached: float
    median_size: float
    facts: int

    def row(self) -> dict[str, Any]:
        """A row of a table."""
        return {
            "asked for": self.coverage,
            "reached": self.reached,
            "median size": self.median_size,
            "ranks": self.facts,
        }


@dataclass(frozen=True)
class ReliabilityReport:
    """All that was judged."""

    answers: tuple[Reliability, ...]
    covered: tuple[Covered, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def reliability(
    model: SheafEmbedding,
    *,
    questions: Sequence[str] = (),
    sample: int | None = None,
    seed: int = 1,
) -> ReliabilityReport:
    """Judge a model that was measured; ``questions`` are types of questions to judge too."""
    judge = measured(model)
    data = dataset_of(judge)
    if data.test is None or not data.test.num_triples:
        raise InputError("Reliability is judged on test facts, and this model has none.")
    if trust_of(model) is None:
        raise InputError("Nothing was measured of this model: too few facts were held out.")
    if judge.info is not None and model.info is not None:
        judge.info.trust = model.info.trust
        judge.info.calibration = dict(model.info.calibration)
    sample = sample or min(SAMPLE, max(200, COMPARED // judge.graph.num_entities))
    found = [*_facts(judge, data, seed), *_questions(judge, questions, sample, seed)]
    return ReliabilityReport(tuple(found), tuple(_coverage(judge, data)))


def _facts(judge: SheafEmbedding, data: Dataset, seed: int) -> Iterable[Reliability]:
    assert data.test is not None, "checked"
    known = judge.graph.with_triples(others(judge, "test"))
    most = max(200, MORE * WORK // (11 * judge.graph.num_entities))
    found = propose(judge, data.test, known, most=most, seed=seed)
    p, common = triple_probabilities(judge, found.triples), _common(judge, found.triples)
    for name, first in (("first", 1), ("first ten", FIRST)):
        mine = found.ranks < first
        yield Reliability.of(f"{name}, facts", p[mine], common[mine], found.right[mine])


@torch.no_grad()
def _common(judge: SheafEmbedding, triples: IntArray) -> FloatArray:
    """n · softmax of the tail at one temperature for all: what was shown without measuring."""
    tau = temperature(judge).value
    facts, names = known_facts([judge.graph])
    heads, edges, tails = triples.T.astype(np.int64)
    pairs, places = np.unique(np.stack([heads, edges], 1), axis=0, return_inverse=True)
    places = places.ravel()
    out = np.empty(len(triples))
    for part in chunks(len(pairs), facts.num_entities, MEMORY_LIMIT):
        asked, by = (pairs[part, i].copy() for i in (0, 1))
        n = torch.from_numpy(facts.out_degree(asked, names[by]))
        p = probabilities(judge.score_tails(torch.from_numpy(asked), torch.from_numpy(by)), n, tau)
        mine = np.flatnonzero((places >= part.start) & (places < part.stop))
        rows = torch.from_numpy(places[mine] - part.start)
        out[mine] = p[rows, torch.from_numpy(tails[mine])].double().numpy()
    return out


def _questions(
    judge: SheafEmbedding, types: Sequence[str], sample: int, seed: int
) -> Iterable[Reliability]:
    fitted = question_trust(Options().start(judge))
    for kind in types if fitted is not None else ():
        assert fitted is not None, "asked"
        drawn = trials(judge, {kind: sample}, "test", seed)
        if not drawn:
            raise SheafError(f"The test facts are too few to draw {kind!r} from them.")
        asked = ask(judge, drawn, trust_of(judge))
        rows, right, places, kinds = asked.examples
        p, raw = fitted(rows, kinds), np.concatenate(asked.scores)
        for name, most in (("first", 1), ("first ten", FIRST)):
            mine = places < most
            yield Reliability.of(f"{name}, {kind}", p[mine], raw[mine], right[mine])


def _coverage(judge: SheafEmbedding, data: Dataset) -> Iterable[Covered]:
    """Sets by relation and side, as answers are shown, held against test facts."""
    trust = trust_of(judge)
    assert trust is not None, "checked"
    assert data.test is not None, "checked"
    rows = data.test.triples
    ranks = rank_triples(judge, rows, list(data.splits.values()), ranked_side(judge))
    schema = judge.graph.schema
    names = [schema.relation_names[place] for place in schema.edge_names[rows[:, 1]].tolist()]
    for coverage in COVERAGES:
        sizes, stood = [], []
        for side, found in (("head", ranks.head), ("tail", ranks.tail)):
            if found is None:
                continue
            by_name = {name: _size(trust, name, coverage, side) for name in set(names)}
            sizes += [by_name[name] for name in names]
            stood += found.pessimistic.tolist()
        reached = np.array(stood) <= np.array(sizes)
        yield Covered(coverage, float(reached.mean()), float(np.median(sizes)), len(sizes))


def _size(trust: Any, name: str, coverage: float, side: str) -> float:
    record = trust.record(name)
    size = None if record is None else record.size(coverage, side)
    size = trust.overall.size(coverage, side) if size is None else size
    return float("inf") if size is None else float(size)


def plot(report: ReliabilityReport, path: str | Path) -> None:
    """Draw what was right over what was promised into an SVG, PNG or PDF file."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: pictures are written as {', '.join(FORMATS)}.")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 5), layout="constrained")
    axes = figure.add_subplot()
    most = max(max(b.promised, b.right) for each in report.answers for b in each.bins)
    edge = min(1.0, 1.05 * most)
    axes.plot([0, edge], [0, edge], color="#888888", linewidth=1, linestyle=":")
    for each in report.answers:
        points = [(part.promised, part.right) for part in each.bins]
        label = f"{each.name} (ECE {each.error:.3f})"
        axes.plot(*zip(*points, strict=True), marker="o", markersize=4, linewidth=1, label=label)
    axes.set_xlabel("probability shown")
    axes.set_ylabel("share that was right")
    axes.set_xlim(0, edge)
    axes.set_ylim(0, edge)
    axes.legend(frameon=False)
    with writing(path) as beside:
        figure.savefig(beside, dpi=150)

"""The BetaE benchmark: all queries of a folder answered by a model, and their answers ranked.

What was measured of a type is kept in a file, if wanted, under a key of everything it depends on: a
run that was stopped goes on with the types that are left, and nothing stale is ever reused.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from typing import Protocol as Protocol_

import numpy as np
import torch

from knowledge_sheaves import __version__
from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.known import TRAIN
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.evaluation.benchmark_report import BenchmarkReport, TypeResult
from knowledge_sheaves.evaluation.betae import (
    Agreement,
    BetaEFolder,
    Half,
    Translation,
    TypeQueries,
    refuse_disagreement,
)
from knowledge_sheaves.evaluation.published import query_set
from knowledge_sheaves.evaluation.queries import (
    AnswerRanks,
    AnswerSet,
    one_of_each,
    ranked_and_filtered,
    take,
)
from knowledge_sheaves.files import is_sealed, locked, said_of, sealed, write_text
from knowledge_sheaves.graph.arrays import gather_slices
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.plain_data import read_plain_data
from knowledge_sheaves.memory import peak_memory
from knowledge_sheaves.query.asking import scores
from knowledge_sheaves.query.batches import by_shape, slices
from knowledge_sheaves.query.facts.symbolic import SymbolicAnswers
from knowledge_sheaves.query.options import Options
from knowledge_sheaves.ranking import rank_among

FORMAT = 2


@dataclass(frozen=True)
class Protocol:
    """Which answers are ranked: all of a set, or one that is drawn of each query.

    ``half`` takes one half of each type's queries, ``sample`` draws some of them.
    """

    answers: AnswerSet = "hard"
    one_answer: bool = False
    sample: int | None = None
    seed: int = 0
    half: Half | None = None

    def __post_init__(self) -> None:
        if self.sample is not None and self.sample < 1:
            raise InputError(f"A sample has at least one query of each type, not {self.sample}.")

    def queries(self, given: TypeQueries) -> TypeQueries:
        """Those of a type's queries that are asked."""
        if self.half is not None:
            given = given.half(self.half, self.seed)
        return given if self.sample is None else given.sample(self.sample, self.seed)

    def sets(self, given: TypeQueries) -> tuple[SymbolicAnswers, SymbolicAnswers]:
        """The answers to rank, and those that do not compete with them."""
        ranked, filtered = ranked_and_filtered(given.easy, given.hard, self.answers)
        return (one_of_each(ranked, self.seed) if self.one_answer else ranked), filtered


@dataclass(frozen=True)
class BenchmarkProgress:
    """How far a run is: ``done`` of the queries of a type; ``result`` once it is finished."""

    type: str
    done: int
    queries: int
    result: TypeResult | None = None


Report = Callable[[BenchmarkProgress], object]


class Source(Protocol_):
    """Where the queries of a benchmark come from."""

    data: Dataset

    @property
    def name(self) -> str: ...

    @property
    def hash(self) -> str: ...

    @property
    def counts(self) -> dict[str, int]: ...

    def named(self, names: Sequence[str] | None) -> list[str]:
        """The types with these names, all where none are given."""

    def queries(self, name: str) -> TypeQueries:
        """The queries of a type with their answers."""

    def check(self, given: TypeQueries) -> Agreement:
        """Hold answers against those that the triples give."""


def benchmark(
    model: SheafEmbedding,
    folder: str | Path | Source,
    split: str = "test",
    *,
    types: Sequence[str] | None = None,
    options: Options | None = None,
    protocol: Protocol | None = None,
    check: bool = False,
    state: Path | None = None,
    progress: Report | None = None,
) -> BenchmarkReport:
    """Answer the queries of a folder in the benchmark's layout, and rank their answers.

    Or those of another source, such as `own_queries.OwnQueries` of the same split.
    Entities and relations are found in the model by name. With ``check`` the files' answers must be
    those of the triples. Known are the facts of training only. ``state`` is a file that keeps
    finished types. Types that the solver refuses are in the report with its reason.
    """
    started = time.perf_counter()
    protocol, tell = protocol or Protocol(), progress or (lambda _: None)
    source: Source = BetaEFolder(folder, split) if isinstance(folder, str | Path) else folder
    asked = source.named(types)
    translation = Translation(source.data, model)
    options = options or Options()
    solver = options.start(model, measures=True)
    kept = _State(state, model)
    results: dict[str, TypeResult] = {}
    refused: dict[str, str] = {}
    for name in asked:
        given = protocol.queries(source.queries(name))
        if check:
            refuse_disagreement([source.check(given)])
        run = _Run(model, translation(given), options, protocol)
        reason = run.refused()
        if reason is not None:
            refused[name] = reason
            continue
        results[name] = kept.get(run) or kept.keep(run, run.measure(tell))
        tell(BenchmarkProgress(name, len(given), len(given), results[name]))
    graph = source.data.train
    size = graph.num_entities, len(graph.schema.relation_names)
    return BenchmarkReport(
        solver=solver.name,
        label=solver.label,
        data=source.name,
        entities=size[0],
        relations=size[1],
        split=split,
        options=solver.choices | {"known": options.known or TRAIN},
        protocol=asdict(protocol),
        parameters=model.num_parameters,
        types=results,
        refused=refused,
        seconds=time.perf_counter() - started,
        peak_memory=peak_memory(),
        query_set=query_set(source.hash, size, source.counts),
    )


class _Run:
    """One type of queries and how they are to be answered."""

    def __init__(
        self, model: SheafEmbedding, given: TypeQueries, options: Options, protocol: Protocol
    ) -> None:
        self.model, self.given, self.protocol = model, given, protocol
        self.options = options
        self.ranked, self.filtered = protocol.sets(given)

    @torch.no_grad()
    def refused(self) -> str | None:
        """Why the solver does not answer queries of this type, or None where it does."""
        try:
            scores(self.model, self.given.queries[:1], self.options, chances=False)
        except InputError as error:
            return str(error)
        return None

    @torch.no_grad()
    def measure(self, tell: Report) -> TypeResult:
        """Solve all queries, a batch at a time, and rank their answers."""
        started = time.perf_counter()
        ranks = np.empty(len(self.ranked.ids))
        queries, done = self.given.queries, 0
        size = max(1, self.options.memory_limit // (8 * 4 * self.model.graph.num_entities))
        for members in by_shape(queries).values():
            for part in slices(len(members), size):
                places = np.array(members[part])
                ranks[self._answers_of(places)] = self._rank(places)
                done += len(places)
                tell(BenchmarkProgress(self.given.name, done, len(queries)))
        seconds = time.perf_counter() - started
        found = AnswerRanks(ranks, self.ranked.offsets)
        return TypeResult(self.given.name, len(queries), found, seconds)

    def _rank(self, places: np.ndarray) -> np.ndarray:
        queries = [self.given.queries[place] for place in places.tolist()]
        energies, _ = scores(self.model, queries, self.options, chances=False)
        sets = take(self.ranked, places), take(self.filtered, places)
        return rank_among(energies, *sets).realistic

    def _answers_of(self, places: np.ndarray) -> np.ndarray:
        offsets = self.ranked.offsets
        return gather_slices(np.arange(len(self.ranked.ids)), offsets[places], offsets[places + 1])[
            0
        ]

    def key(self, weights: str) -> str:
        """A hash of all that the ranks depend on."""
        digest = hashlib.sha256(f"{__version__} {weights}".encode())
        choices = self.options.start(self.model).choices | {"known": self.options.known or TRAIN}
        digest.update(json.dumps(choices, sort_keys=True).encode())
        digest.update(repr(self.given.queries).encode())
        for answers in (self.ranked, self.filtered):
            digest.update(answers.offsets.astype("<i8").tobytes())
            digest.update(answers.ids.astype("<i8").tobytes())
        return digest.hexdigest()


def fingerprint(model: SheafEmbedding) -> str:
    """A hash of what a model answers by: its choices, its weights and the facts that it knows."""
    digest = hashlib.sha256(json.dumps(model.config.to_dict(), sort_keys=True).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensor.cpu().numpy()).tobytes())
    digest.update(model.graph.entity_types.astype("<i8").tobytes())
    digest.update(model.graph.triples.astype("<i8").tobytes())
    if (classes := model.graph.classes) is not None:
        digest.update(json.dumps(classes.to_dict(), sort_keys=True).encode())
        digest.update(classes.pairs.astype("<i8").tobytes())
    return digest.hexdigest()


class _State:
    """What a run has measured so far, in a file or nowhere."""

    def __init__(self, path: Path | None, model: SheafEmbedding) -> None:
        self.path = path
        self.weights = "" if path is None else fingerprint(model)
        self.types = self._read()

    def get(self, run: _Run) -> TypeResult | None:
        """What an earlier run measured, if nothing has changed since."""
        saved = self.types.get(run.given.name)
        if self.path is None or saved is None or saved["key"] != run.key(self.weights):
            return None
        ranks = AnswerRanks(np.array(saved["ranks"], np.float64), run.ranked.offsets)
        return TypeResult(run.given.name, len(run.given), ranks, saved["seconds"], resumed=True)

    def keep(self, run: _Run, result: TypeResult) -> TypeResult:
        """Keep a result; a reader, or a kill, meets the file before or after."""
        if self.path is None:
            return result
        found = {
            "key": run.key(self.weights),
            "seconds": result.seconds,
            "ranks": result.ranks.ranks.tolist(),
        }
        # Another run may have measured other types of the same file meanwhile.
        with said_of(self.path), locked(self.path.resolve()):
            self.types = self._read() | {result.name: found}
            write_text(self.path, json.dumps(sealed({"format": FORMAT, "types": self.types})))
        return result

    def _read(self) -> dict[str, Any]:
        if self.path is None or not self.path.exists():
            return {}
        with said_of(self.path), locked(self.path.resolve()):  # which removes a killed run's lock
            return _read_state(self.path)


def _read_state(path: Path) -> dict[str, Any]:
    try:
        saved = read_plain_data(path)
        if saved["format"] == 1:  # of version 0.1, and not sealed: measured again
            return {}
        if saved["format"] == FORMAT and is_sealed(saved):
            return dict(saved["types"])
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise InputError(
        f"{path} is not the state of a benchmark, or was changed after it was written: remove it "
        "or choose another --out."
    )

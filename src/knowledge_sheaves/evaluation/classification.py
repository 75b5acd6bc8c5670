"""Triple classification: true or false, by a threshold of each relation on calibrated energies.

The energy of a triple is compared with those of all that could stand in its place: with
−log(n · softmax(−V/τ)) as in `probabilities`, the mean of both sides. Raw energies are not
comparable between heads in lifted models, whose energies only rank tails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import BoolArray, IntArray, KnowledgeGraph
from knowledge_sheaves.graph.labels import label_of
from knowledge_sheaves.notebook import Framed
from knowledge_sheaves.ranking import fact_temperature
from knowledge_sheaves.ranking.ranker import MEMORY_LIMIT, FloatArray, chunks
from knowledge_sheaves.ranking.triples import known_facts

FEW = 20
"""A relation with fewer validation triples goes by the threshold of all."""


@dataclass(frozen=True)
class Labelled:
    """Triples of ids (head, edge of the schema, tail) and which of them are true.

    An edge is −1 where the types of head and tail rule the relation out; ``relations`` are its
    places among the relation names all the same.
    """

    triples: IntArray
    relations: IntArray
    true: BoolArray

    @classmethod
    def of(
        cls, graph: KnowledgeGraph, positives: IntArray, negatives: Sequence[tuple[str, str, str]]
    ) -> Labelled:
        """Known triples of ids, and false ones by name; names must be those of the graph.

        >>> graph = KnowledgeGraph.from_triples([("a", "r", "b")])
        >>> Labelled.of(graph, graph.triples, [("b", "r", "a")]).triples.tolist()
        [[0, 0, 1], [1, 0, 0]]
        """
        heads, tails = (graph.entities.ids([row[end] for row in negatives]) for end in (0, 2))
        names, kinds = [row[1] for row in negatives], graph.entity_types
        edges = graph.schema.find_edges(names, kinds[heads], kinds[tails])
        places = {name: place for place, name in enumerate(graph.schema.relation_names)}
        false = np.array([places[name] for name in names], np.int64)
        return cls(
            np.concatenate([positives, np.stack([heads, edges, tails], 1)]).astype(np.int64),
            np.concatenate([graph.schema.edge_names[positives[:, 1]], false]),
            np.arange(len(positives) + len(negatives)) < len(positives),
        )


def known_names(
    graph: KnowledgeGraph, rows: Sequence[tuple[str, str, str]]
) -> list[tuple[str, str, str]]:
    """The triples whose names are all in the graph."""
    entities, relations = graph.entities, set(graph.schema.relation_names)
    return [r for r in rows if r[0] in entities and r[1] in relations and r[2] in entities]


@dataclass(frozen=True)
class Thresholds:
    """A triple counts as true up to the threshold of its relation, or else of all."""

    overall: float
    by_relation: dict[int, float]

    @classmethod
    def fit(cls, energies: FloatArray, given: Labelled, few: int = FEW) -> Thresholds:
        """Those with the best accuracy; ``few`` is how many triples a relation needs at least.

        >>> graph = KnowledgeGraph.from_triples([("a", "r", "b")])
        >>> given = Labelled.of(graph, graph.triples, [("b", "r", "a")])
        >>> Thresholds.fit(np.array([1.0, 2.0]), given).overall
        1.5
        """
        if given.true.all() or not given.true.any():
            raise InputError("A threshold needs true and false validation triples.")
        own = {}
        for relation in np.unique(given.relations).tolist():
            mine = given.relations == relation
            if mine.sum() >= few and given.true[mine].any() and not given.true[mine].all():
                own[relation] = best_threshold(energies[mine], given.true[mine])
        return cls(best_threshold(energies, given.true), own)

    def accept(self, energies: FloatArray, relations: IntArray) -> BoolArray:
        """Whether triples count as true."""
        limits = [self.by_relation.get(r, self.overall) for r in relations.tolist()]
        return np.asarray(energies <= np.array(limits))


def best_threshold(energies: FloatArray, true: BoolArray) -> float:
    """The threshold with the most right verdicts: half-way between two energies.

    >>> best_threshold(np.array([0.0, 1.0, 3.0, 4.0]), np.array([True, True, False, True]))
    2.0
    """
    order = np.argsort(energies, kind="stable")
    ordered = energies[order]
    # After the i-th energy: the true ones before it and the false ones behind it are right.
    gain = np.concatenate([[0], np.cumsum(np.where(true[order], 1, -1))])
    cuts = np.concatenate([[True], ordered[1:] != ordered[:-1], [True]])
    place = int(np.argmax(np.where(cuts, gain, -len(true) - 1)))
    if place == 0:
        return -np.inf
    if place == len(ordered) or np.isinf(ordered[place]):
        return float(ordered[place - 1])
    return float(ordered[place - 1] + ordered[place]) / 2


@dataclass(frozen=True)
class Verdicts:
    """How many verdicts were right, and how far positive ones can be trusted."""

    count: int
    accuracy: float
    precision: float
    recall: float
    f1: float

    @classmethod
    def of(cls, accepted: BoolArray, true: BoolArray) -> Verdicts:
        """Compare verdicts with the truth.

        >>> Verdicts.of(np.array([True, True, False]), np.array([True, False, False])).recall
        1.0
        """
        hits = int((accepted & true).sum())
        precision = hits / max(1, int(accepted.sum()))
        recall = hits / max(1, int(true.sum()))
        f1 = 2 * hits / max(1, int(accepted.sum() + true.sum()))
        return cls(len(true), float((accepted == true).mean()), precision, recall, f1)


@dataclass(frozen=True)
class ClassificationReport(Framed):
    """Verdicts on all test triples and by relation, with the thresholds, by name."""

    overall: Verdicts
    by_relation: dict[str, Verdicts]
    thresholds: dict[str, float]
    tau: float

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name."""
        return asdict(self)

    def rows(self) -> list[dict[str, Any]]:
        """A row for every relation, and one for all."""
        return [
            {"relation": str(name), "label": label_of(name), **asdict(of)}
            for name, of in [*self.by_relation.items(), ("all", self.overall)]
        ]


def classify(
    model: SheafEmbedding,
    valid: Labelled,
    test: Labelled,
    *,
    tau: float | None = None,
    few: int = FEW,
) -> ClassificationReport:
    """Fit thresholds on validation triples, and judge test triples by them.

    >>> from knowledge_sheaves.embedding import model_config
    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    >>> model = SheafEmbedding(model_config("transe", dim=2), graph)
    >>> given = Labelled.of(graph, graph.triples, [("c", "r", "a"), ("a", "r", "a")])
    >>> classify(model, given, given, tau=1.0).overall.count
    4
    """
    tau = fact_temperature(model) if tau is None else tau
    if not len(test.true):
        raise InputError("There are no test triples to classify.")
    fitted = Thresholds.fit(calibrated_energies(model, valid.triples, tau), valid, few)
    accepted = fitted.accept(calibrated_energies(model, test.triples, tau), test.relations)
    names: tuple[str, ...] = model.graph.schema.labelled_names
    by_relation = {
        names[r]: Verdicts.of(accepted[test.relations == r], test.true[test.relations == r])
        for r in np.unique(test.relations).tolist()
    }
    thresholds = {names[r]: value for r, value in fitted.by_relation.items()}
    overall = Verdicts.of(accepted, test.true)
    return ClassificationReport(overall, by_relation, {"": fitted.overall, **thresholds}, tau)


@torch.no_grad()
def calibrated_energies(
    model: SheafEmbedding, triples: IntArray, tau: float, memory_limit: int = MEMORY_LIMIT
) -> FloatArray:
    """−log(n · softmax(−V/τ)) of triples, the mean of both sides; infinite where types forbid them.

    n is the number of answers that training knows on that side, at least 1.
    """
    if not tau > 0:
        raise InputError(f"A temperature is a positive number, not {tau!r}.")
    found = np.full(len(triples), np.inf)
    fits = triples[:, 1] >= 0
    heads, edges, tails = triples[fits].T.astype(np.int64)
    facts, names = known_facts([model.graph])

    def score_heads(asked: Tensor, by: Tensor) -> Tensor:
        return model.score_heads(by, asked)

    n_tails = facts.out_degree(heads, names[edges])
    n_heads = facts.in_degree(names[edges], tails)
    rest = tau, facts.num_entities, memory_limit
    of_tails = _surprise(model.score_tails, heads, edges, tails, n_tails, *rest)
    of_heads = _surprise(score_heads, tails, edges, heads, n_heads, *rest)
    found[fits] = (of_tails + of_heads) / 2
    return found


def _surprise(
    score: Callable[[Tensor, Tensor], Tensor],
    asked: IntArray,
    edges: IntArray,
    answers: IntArray,
    known: IntArray,
    tau: float,
    num_entities: int,
    memory_limit: int,
) -> FloatArray:
    pairs, places = np.unique(np.stack([asked, edges], 1), axis=0, return_inverse=True)
    order = np.argsort(places.ravel(), kind="stable")
    rows = places.ravel()[order]
    found: npt.NDArray[np.float64] = np.empty(len(answers))
    for part in chunks(len(pairs), num_entities, memory_limit):
        entities, by = (torch.from_numpy(column.copy()) for column in pairs[part].T)
        logs = torch.log_softmax(-score(entities, by) / tau, dim=-1)
        first, last = np.searchsorted(rows, [part.start, part.stop])
        mine = order[first:last]
        values = logs[torch.from_numpy(rows[first:last] - part.start), answers[mine]]
        found[mine] = -values.double().numpy()
    return found - np.log(np.maximum(known, 1))

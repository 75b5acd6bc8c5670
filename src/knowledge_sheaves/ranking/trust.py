"""How far to trust an answer, from what was measured on held-out facts.

A triple has one probability, whichever way it is asked for: a calibrated function of its shares
from both ends (`shares`), fitted on what the model that never saw them proposes for validation
facts. It says how likely an answer is right; it never reorders answers.

Beside it stands, by relation, what became of answers of such a probability, and at which rank
missing facts are found. Under ``FEW`` held-out facts a relation goes by what holds for all.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any

import numpy as np

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.loops import is_barred
from knowledge_sheaves.embedding.probability import EPSILON
from knowledge_sheaves.embedding.storage import dataset_of
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import BoolArray, IntArray
from knowledge_sheaves.ranking.logistic import Bin, Logistic, bins, halves
from knowledge_sheaves.ranking.proposals import Proposals, propose
from knowledge_sheaves.ranking.ranker import FloatArray
from knowledge_sheaves.ranking.shares import LEAST, both_sides
from knowledge_sheaves.ranking.temperature import temperature
from knowledge_sheaves.ranking.triples import rank_triples, ranked_side

FEW = 30
"""Under so many held-out facts there is too little to tell of a relation."""
UNLEARNED = 0.05
"""A relation of which fewer missing facts are among the first ten could not be learned."""
KNOTS = (LEAST, -6.0, -4.0, -2.0, -1.0, -0.3, 0.0)
"""Between which logarithms count by one weight: chosen on validation facts."""
FIRST_COUNTS = 11.0
"""How often the first answer to a question counts in the fit: chosen on validation facts.

A triple that is first from one end may be proposed late from the other, where it is right less
often; it has one probability all the same. Counting first answers more makes that hold for them.
"""
FALL = 0.2
"""The least weight below all knots: there are too few examples to fit one by."""
WORK = 1_000_000_000
"""How many energies are computed at the most to fit probabilities."""
MOST_FACTS = 10_000
"""How many held-out facts are ranked at the most."""
UNMEASURED = (
    "How far to trust these probabilities was not measured for this model: `sheaves evaluate` "
    "measures it where facts were held out."
)


@dataclass(frozen=True)
class Record:
    """What was measured of one relation, of one shape of questions, or of all of them.

    ``bins`` hold answers by probability, ``ranks`` say by side (tail, head) where the facts that
    were held out stood, ascending.
    """

    count: int
    bins: tuple[Bin, ...] = ()
    ranks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def found(self, first: int = 10, side: str | None = None) -> float:
        """The share of the held-out facts that is among the first answers."""
        count = sum(bisect_right(ranks, first) for ranks in self._lists(side))
        return count / max(1, self.size_of(side))

    def size_of(self, side: str | None) -> int:
        """How many ranks there are of one side, or of both."""
        return sum(map(len, self._lists(side)))

    def right(self, probability: float) -> float | None:
        """The share of answers at about this probability that was right."""
        near = min(self.bins, key=lambda each: abs(each.promised - probability), default=None)
        return None if near is None else near.right

    def size(self, coverage: float, side: str | None = None) -> int | None:
        """How many first answers hold the missing one that often; None where too few can tell.

        Split conformal prediction: of n ranks the ⌈(n + 1) · coverage⌉-th.

        >>> Record(9, ranks={"tail": (1, 1, 2, 2, 3, 5, 8, 13, 40)}).size(0.8, "tail")
        13
        """
        ranks = sorted(chain.from_iterable(self._lists(side)))
        place = math.ceil((len(ranks) + 1) * coverage)
        return None if place > len(ranks) else max(1, ranks[place - 1])

    def _lists(self, side: str | None) -> list[tuple[int, ...]]:
        own = None if side is None else self.ranks.get(side)
        return list(self.ranks.values()) if own is None else [own]

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers."""
        rows = [[each.count, each.promised, each.right] for each in self.bins]
        return {
            "count": self.count,
            "bins": rows,
            "ranks": {k: list(v) for k, v in self.ranks.items()},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Record:
        """From plain data."""
        rows = tuple(Bin(int(n), float(p), float(share)) for n, p, share in data["bins"])
        ranks = {str(k): tuple(map(int, v)) for k, v in data["ranks"].items()}
        return cls(int(data["count"]), rows, ranks)


@dataclass(frozen=True)
class Trust:
    """Probabilities of triples, and what was measured by relation (`Record`)."""

    weights: tuple[float, ...]
    bends: Mapping[str, tuple[float, float]]
    overall: Record
    relations: Mapping[str, Record]

    @property
    def least(self) -> float:
        """Of no triple that can be it is told that it is less likely: so many were judged."""
        return 1 / (2 + sum(each.count for each in self.overall.bins))

    def record(self, relation: str) -> Record | None:
        """What was measured of a relation, where it had enough held-out facts."""
        found = self.relations.get(relation)
        return found if found is not None and found.count >= FEW else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as a model's folder keeps them."""
        return {
            "weights": list(self.weights),
            "bends": {name: list(pair) for name, pair in self.bends.items()},
            "all": self.overall.to_dict(),
            "relations": {name: each.to_dict() for name, each in self.relations.items()},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Trust:
        """From plain data; what does not fit is an error."""
        with understood():
            return cls(
                tuple(map(float, data["weights"])),
                {str(name): (float(a), float(b)) for name, (a, b) in data["bends"].items()},
                Record.from_dict(data["all"]),
                {str(name): Record.from_dict(each) for name, each in data["relations"].items()},
            )


@contextmanager
def understood() -> Iterator[None]:
    """What was measured is read here: that it was damaged is one sentence."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"What was measured of the model cannot be understood: {error}.") from None


FACTS = "facts"


def trust_of(model: SheafEmbedding) -> Trust | None:
    """What a model keeps of how far to trust it; None for one that was never measured."""
    kept = {} if model.info is None else model.info.trust
    return model.keep(("trust", id(kept)), lambda: _read(kept))


def _read(kept: Mapping[str, Any]) -> Trust | None:
    found = Trust.from_dict(kept[FACTS]) if FACTS in kept else None
    # What was fitted to other pieces, by another version, says nothing here.
    fits = found is not None and len(found.weights) in (2 + len(KNOTS), 2 + 2 * len(KNOTS))
    return found if fits else None


def triple_probabilities(
    model: SheafEmbedding, triples: IntArray, tau: float | None = None
) -> FloatArray:
    """The probability of each triple (head, edge of the schema, tail) by itself.

    Without anything measured it is the geometric mean of n · softmax from both ends, at the
    model's temperature or one that is given.

    >>> from knowledge_sheaves.embedding import model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    >>> model = SheafEmbedding(model_config("transe", dim=2), graph)
    >>> triple_probabilities(model, graph.triples).shape
    (2,)
    """
    rows, trust = _one_way(model, np.asarray(triples, np.int64).reshape(-1, 3)), trust_of(model)
    found = np.zeros(len(rows))
    fits = rows[:, 1] >= 0  # the schema has such an edge
    cold = temperature(model).value if tau is None or trust is not None else tau
    features = both_sides(model, rows[fits], cold)
    if trust is None:
        sides = features.shape[1] // 2
        counts = np.log(np.maximum(np.expm1(features[:, -sides:]), 1))
        found[fits] = np.exp((features[:, :sides] + counts).mean(1))
    else:
        names = model.graph.schema.edge_names[rows[fits, 1]]
        fitted = _fitted(model, trust)(in_pieces(features), names)
        found[fits] = np.maximum(fitted, trust.least)
    impossible = np.flatnonzero(fits)[features[:, : features.shape[1] // 2].min(1) <= LEAST]
    found[impossible] = 0.0
    return np.minimum(found, 1 - EPSILON)


def _one_way(model: SheafEmbedding, triples: IntArray) -> IntArray:
    """A symmetric relation says one thing both ways: its triples with the lower id first.

    Where types rule that out, they stand the other way.
    """
    schema = model.graph.schema
    flags = np.array([relation.symmetric for relation in schema.relations], np.bool_)
    both_ways = triples[:, 1] >= 0
    both_ways &= flags[triples[:, 1]] if len(flags) else False
    found = triples.copy()
    mine = np.where((triples[:, :1] > triples[:, 2:]), triples[:, ::-1], triples)[both_ways]
    barred = is_barred(model.graph, mine)
    found[both_ways] = np.where(barred[:, None], mine[:, ::-1], mine)
    return found


def _fitted(model: SheafEmbedding, trust: Trust) -> Logistic:
    places = {name: place for place, name in enumerate(model.graph.schema.relation_names)}
    return Logistic(trust.weights, {places[n]: b for n, b in trust.bends.items() if n in places})


def in_pieces(features: FloatArray) -> FloatArray:
    """The features of triples, with log-shares, the first columns, in `pieces`."""
    sides = features.shape[1] // 2
    return np.column_stack([pieces(features[:, :sides]), features[:, sides:]])


def pieces(logs: FloatArray) -> FloatArray:
    """Logarithms cut at the knots, so that each piece has a weight."""
    return np.column_stack([np.clip(logs, low, high) for low, high in pairwise(KNOTS)])


def least_weights(sides: int) -> list[float]:
    """What the pieces, and then the place, weigh at the least.

    More and sooner is never worse, and what is absurd is unlikely.
    """
    return [FALL] * sides + [0.0] * sides * (len(KNOTS) - 2) + [0.0]


def measure_facts(judge: SheafEmbedding, seed: int = 0) -> Trust | None:
    """Fit probabilities on validation facts that a model never saw; None where they are too few."""
    valid = dataset_of(judge).valid
    if valid is None or valid.num_triples < FEW:
        return None
    most = max(2 * FEW, WORK // (11 * judge.graph.num_entities))
    # Other facts that were held out are true as well: they are no answers, as in every rank.
    rest = judge.graph.with_triples(others(judge))
    found = propose(judge, valid, rest, most=most, seed=seed)
    if not 0 < np.count_nonzero(found.right) < len(found):
        return None  # nothing is right, or everything: there is no border to draw
    features = in_pieces(both_sides(judge, found.triples, temperature(judge).value))
    relations = judge.graph.schema.edge_names[found.triples[:, 1]].astype(np.int64)
    counts = np.bincount(
        judge.graph.schema.edge_names[valid.triples[:, 1]],
        minlength=len(judge.graph.schema.relation_names),
    )
    enough = np.flatnonzero(counts >= FEW)
    fitted = _fit(features, found, relations, enough)
    shown = _crossed(features, found, relations, enough)
    names = judge.graph.schema.relation_names
    ranks = _ranks(judge, seed)
    return Trust(
        fitted.weights,
        {names[place]: bend for place, bend in fitted.groups.items()},
        Record(valid.num_triples, tuple(bins(shown, found.right)), ranks[-1]),
        {
            names[place]: Record(
                int(counts[place]),
                tuple(bins(shown[relations == place], found.right[relations == place], 5)),
                ranks.get(place, {}),
            )
            for place in np.flatnonzero(counts).tolist()
        },
    )


def others(judge: SheafEmbedding, split: str = "valid") -> IntArray:
    """All facts but those of a split."""
    splits = dataset_of(judge).splits
    return np.concatenate([graph.triples for name, graph in splits.items() if name != split])


def _fit(
    features: FloatArray,
    found: Proposals,
    relations: IntArray,
    enough: IntArray,
    chosen: BoolArray | slice = slice(None),
) -> Logistic:
    x, right, of = features[chosen], found.right[chosen], relations[chosen]
    groups = np.where(np.isin(of, enough), of, -1)
    rising = least_weights(x.shape[1] // len(KNOTS))
    fit = Logistic.fit(x, right, groups, rising=rising, times=first_counts(found.ranks[chosen]))
    own = {place: bend for place, bend in fit.groups.items() if place >= 0}
    return Logistic(fit.weights, own)


def first_counts(ranks: IntArray) -> FloatArray:
    """How often answers of these ranks, from 0, count in a fit."""
    return np.where(np.asarray(ranks) == 0, FIRST_COUNTS, 1.0)


def _crossed(
    features: FloatArray, found: Proposals, relations: IntArray, enough: IntArray
) -> FloatArray:
    """What each half of the questions is told by the other, so that none judges itself."""
    mine = halves(found.questions)
    shown = np.empty(len(found))
    for half in (mine, ~mine):
        if half.any() and (~half).any():
            other = _fit(features, found, relations, enough, ~half)
            shown[half] = other(features[half], relations[half])
        else:
            shown[half] = found.right.mean()
    return shown


def _ranks(judge: SheafEmbedding, seed: int) -> dict[int, dict[str, tuple[int, ...]]]:
    """Where validation facts stand, by relation and side; under -1 all of them."""
    data = dataset_of(judge)
    assert data.valid is not None, "asked for only where there are such facts"
    rows = data.valid.triples
    if len(rows) > MOST_FACTS:
        rows = rows[np.random.default_rng(seed).permutation(len(rows))[:MOST_FACTS]]
    found = rank_triples(judge, rows, list(data.splits.values()), ranked_side(judge))
    names = judge.graph.schema.edge_names[rows[:, 1]]
    out: dict[int, dict[str, tuple[int, ...]]] = {}
    for place in (-1, *np.unique(names).tolist()):
        mine = np.ones(len(rows), np.bool_) if place < 0 else names == place
        sides = {"head": found.head, "tail": found.tail}
        out[place] = {
            side: tuple(np.sort(ranks.pessimistic[mine]).tolist())
            for side, ranks in sides.items()
            if ranks is not None
        }
    return out

"""Ranks of known triples among all that could stand in their place.

A triple (h, r, t) is ranked on its tail side among all (h, r, t′), and on its head side among all
(h′, r, t). Ranks are *filtered*: other answers that are known to be true do not compete. Entities
of a type that the schema rules out stay candidates, behind all others, so that ranks on typed and
untyped versions of a data set compare; on a graph with one type this is the usual definition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import IntArray, KnowledgeGraph
from knowledge_sheaves.graph.arrays import as_triples, check_ids, offsets_of

Side: TypeAlias = Literal["head", "tail", "both"]
FloatArray: TypeAlias = npt.NDArray[np.float64]

MEMORY_LIMIT = 256 * 2**20
# A matrix product gains nothing from more rows than this at once.
MOST_ROWS = 1024
# Counting is bound by memory: rows are compared a few at a time, while they are in the cache. With
# smaller blocks threads would wait for each other too often on a busy machine.
CACHED_SCORES = 2**21


class Scorer(Protocol):
    """What can be ranked: energies of all entities as tails, and as heads; lower is better.

    Relations are edges of the schema; where a relation is split over several type pairs, the
    energies cover all parts with its name. Entities that the schema rules out have the energy
    +inf. The caller may write into the tensors that it gets.
    """

    def score_tails(self, heads: Tensor, edges: Tensor) -> Tensor:
        """Return the energies of all entities as tails, shape (queries, entities)."""
        ...

    def score_heads(self, edges: Tensor, tails: Tensor) -> Tensor:
        """Return the energies of all entities as heads, shape (queries, entities)."""
        ...


@dataclass(frozen=True)
class SideRanks:
    """Where each true answer stands among ``candidates``, itself counted; the best rank is 1.

    Answers of equal energy may come after it (``optimistic``) or before it (``pessimistic``).

    >>> SideRanks(np.array([2]), np.array([5]), candidates=np.array([9])).realistic.tolist()
    [3.5]
    """

    optimistic: IntArray
    pessimistic: IntArray
    candidates: IntArray

    @property
    def realistic(self) -> FloatArray:
        """The expected rank when ties are broken at random."""
        return (self.optimistic + self.pessimistic) / 2

    def __getitem__(self, chosen: npt.NDArray[np.bool_] | IntArray) -> SideRanks:
        """Return the ranks of some of the triples."""
        parts = (self.optimistic[chosen], self.pessimistic[chosen], self.candidates[chosen])
        return SideRanks(*parts)

    def __len__(self) -> int:
        return len(self.candidates)

    @staticmethod
    def concatenate(parts: Sequence[SideRanks]) -> SideRanks:
        """Return the ranks of several sides as one."""
        return SideRanks(
            np.concatenate([part.optimistic for part in parts]),
            np.concatenate([part.pessimistic for part in parts]),
            np.concatenate([part.candidates for part in parts]),
        )


@dataclass(frozen=True)
class Ranks:
    """The ranks of triples on one side or on both, in the order of the triples."""

    triples: IntArray
    head: SideRanks | None = None
    tail: SideRanks | None = None

    @property
    def sides(self) -> dict[Side, SideRanks]:
        """The sides that were ranked; ``both`` has the heads first, then the tails."""
        found: dict[Side, SideRanks] = {}
        if self.head is not None:
            found["head"] = self.head
        if self.tail is not None:
            found["tail"] = self.tail
        if len(found) == 2:
            found["both"] = SideRanks.concatenate(list(found.values()))
        return found

    def __getitem__(self, chosen: npt.NDArray[np.bool_] | IntArray) -> Ranks:
        """Return the ranks of some of the triples, on the same sides."""
        return Ranks(
            self.triples[chosen],
            None if self.head is None else self.head[chosen],
            None if self.tail is None else self.tail[chosen],
        )


def rank_triples(
    model: Scorer,
    triples: npt.ArrayLike,
    known: Sequence[KnowledgeGraph],
    side: Side = "both",
    memory_limit: int = MEMORY_LIMIT,
) -> Ranks:
    """Rank triples of ids against all entities, without the other answers known in any graph.

    Queries that share an entity and a relation share one row of energies; at most
    ``memory_limit`` bytes of energies are held at once. A relation is known by its name: known
    answers of any of its parts are left out. An energy that is not a number counts as a tie.

    >>> class Nearest:  # the energy of an entity is its id
    ...     def score_tails(self, heads, edges):
    ...         return torch.arange(4.0).repeat(len(heads), 1)
    ...     def score_heads(self, edges, tails):
    ...         return torch.arange(4.0).repeat(len(tails), 1)
    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("a", "r", "c"), ("c", "r", "d")])
    >>> rank_triples(Nearest(), graph.triples, [graph], side="tail").tail.realistic.tolist()
    [2.0, 2.0, 4.0]
    """
    if side not in ("head", "tail", "both"):
        raise InputError(f"The side to rank is 'head', 'tail' or 'both', not {side!r}.")
    facts, names = known_facts(known)
    rows = as_triples(triples)
    heads, edges, tails = (rows[:, place].astype(np.int64) for place in range(3))
    check_ids(edges, len(names), "Relations")
    contained = facts.contains(np.stack((heads, names[edges], tails), axis=1))

    def known_tails(asked: IntArray, by: IntArray) -> tuple[IntArray, IntArray]:
        return facts.tails_many(asked, names[by])

    def known_heads(asked: IntArray, by: IntArray) -> tuple[IntArray, IntArray]:
        return facts.heads_many(names[by], asked)

    def score_heads(asked: Tensor, by: Tensor) -> Tensor:
        return model.score_heads(by, asked)

    rank = partial(_rank_side, facts.num_entities, memory_limit)
    with torch.no_grad():
        return Ranks(
            rows,
            head=None
            if side == "tail"
            else rank(score_heads, known_heads, _Queries.group(tails, edges, heads), contained),
            tail=None
            if side == "head"
            else rank(
                model.score_tails, known_tails, _Queries.group(heads, edges, tails), contained
            ),
        )


def known_facts(known: Sequence[KnowledgeGraph]) -> tuple[KnowledgeGraph, IntArray]:
    """All facts of the graphs by relation name, types forgotten; and the name of each edge."""
    if not known:
        raise InputError("Ranking needs at least one graph of known facts, say the training graph.")
    first = known[0]
    for graph in known[1:]:
        if graph.schema != first.schema or graph.num_entities != first.num_entities:
            raise InputError(
                "The graphs of known facts must share their schema and their entities; make them "
                "with with_triples."
            )
    rows = np.concatenate([graph.triples for graph in known])
    return first.with_triples(rows).by_name, first.schema.edge_names


@dataclass(frozen=True)
class _Queries:
    """Distinct (entity, edge) with the answers to rank; those with the most answers come first.

    ``order`` lists the triples query by query, ``offsets`` where those of each query start.
    """

    asked: IntArray
    edges: IntArray
    answers: IntArray
    order: IntArray
    offsets: IntArray

    @classmethod
    def group(cls, asked: IntArray, edges: IntArray, answers: IntArray) -> _Queries:
        width = int(edges.max(initial=0)) + 1
        keys, places, counts = np.unique(
            asked * width + edges, return_inverse=True, return_counts=True
        )
        busiest = np.argsort(-counts, kind="stable")
        rank = np.empty_like(busiest)
        rank[busiest] = np.arange(len(busiest))
        order = np.argsort(rank[places], kind="stable")
        keys = keys[busiest]
        return cls(keys // width, keys % width, answers, order, offsets_of(counts[busiest]))

    def __len__(self) -> int:
        return len(self.asked)


def _rank_side(
    num_entities: int,
    memory_limit: int,
    score: Callable[[Tensor, Tensor], Tensor],
    lookup: Callable[[IntArray, IntArray], tuple[IntArray, IntArray]],
    queries: _Queries,
    contained: npt.NDArray[np.bool_],
) -> SideRanks:
    below = np.empty(len(queries.order), np.int64)
    above = np.empty_like(below)
    candidates = np.empty_like(below)
    for part in chunks(len(queries), num_entities, memory_limit):
        asked, edges = queries.asked[part], queries.edges[part]
        scores = score(torch.from_numpy(asked), torch.from_numpy(edges))
        starts = queries.offsets[part.start : part.stop + 1]
        mine = queries.order[starts[0] : starts[-1]]
        starts = starts - starts[0]
        rows = _each(np.diff(starts))
        true = scores[to_index(rows, scores), to_index(queries.answers[mine], scores)]
        ids, offsets = lookup(asked, edges)
        # Neither below nor above anything: a known answer drops out of every count.
        scores[to_index(_each(np.diff(offsets)), scores), to_index(ids, scores)] = torch.nan
        below[mine], above[mine] = _count(scores, true, starts)
        candidates[mine] = num_entities - np.diff(offsets)[rows]
    # What was left out as known answers included the true one itself, where it is known.
    candidates += contained
    return SideRanks(below + 1, candidates - above, candidates)


def chunks(rows: int, num_entities: int, memory_limit: int) -> Iterator[slice]:
    """Cut queries into slices whose energies, in single precision, fit into the memory limit.

    >>> [part.stop for part in chunks(5, num_entities=100, memory_limit=800)]
    [2, 4, 5]
    """
    size = max(1, min(MOST_ROWS, memory_limit // (4 * max(num_entities, 1))))
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def _each(counts: IntArray) -> IntArray:
    return np.repeat(np.arange(len(counts)), counts)


def to_index(ids: IntArray, like: Tensor) -> Tensor:
    """Return ids as an index on the device of a tensor."""
    return torch.from_numpy(ids.astype(np.int64, copy=False)).to(like.device)


def _count(scores: Tensor, true: Tensor, starts: IntArray) -> tuple[IntArray, IntArray]:
    """Count, for each true energy, the energies below and above it in its row.

    Rows with the most answers come first, so the j-th answers of a few rows belong to a prefix of
    them: a view, compared in one go.
    """
    counts = np.diff(starts)
    height = max(1, CACHED_SCORES // max(scores.shape[1], 1))
    # Comparing into floats and adding those is several times as fast as with booleans.
    buffer = torch.empty(scores[:height].shape, device=true.device)
    exact = torch.float32 if scores.shape[1] <= 2**24 else torch.float64
    below = torch.empty(len(true), dtype=exact, device=true.device)
    above = torch.empty_like(below)
    for low in range(0, len(scores), height):
        block = scores[low : low + height]
        shared = counts[low : low + height]
        for turn in range(int(shared[0])):
            busy = int(np.count_nonzero(shared > turn))
            places = to_index(starts[low : low + busy] + turn, true)
            values = true[places].unsqueeze(1)
            out = buffer[:busy]
            below[places] = torch.lt(block[:busy], values, out=out).sum(1, dtype=exact)
            above[places] = torch.gt(block[:busy], values, out=out).sum(1, dtype=exact)
    return below.long().cpu().numpy(), above.long().cpu().numpy()

"""Ranks of known triples among all that could stand in their place.

A triple (h, r, t) is ranked on its tail side among all (h, r, t′), and on its head side among all
(h′, r, t). Ranks are *filtered*: other answers that are known to be true do not compete. Entities
of a type that the schema rules out come behind all others, so that ranks on typed and untyped
versions of a data set compare; they are no candidates when chance is reckoned (AMRI). On a graph
with one type this is the usual definition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafConfig
from knowledge_sheaves.embedding.shards import ShardedEmbedding
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import IntArray, KnowledgeGraph
from knowledge_sheaves.graph.arrays import as_triples, check_ids, offsets_of
from knowledge_sheaves.ranking.ranker import MEMORY_LIMIT, Lists, SideRanks, chunks, rank_among
from knowledge_sheaves.ranking.shards import rank_among_shards

Side: TypeAlias = Literal["head", "tail", "both"]


class Scorer(Protocol):
    """What can be ranked: energies of all entities as tails, and as heads; lower is better.

    Relations are edges of the schema; where a relation is split over several type pairs, the
    energies cover all parts with its name. Entities that the schema rules out have the energy
    +inf. What is returned belongs to whoever ranks, and may be overwritten.
    """

    def score_tails(self, heads: Tensor, edges: Tensor) -> Tensor:
        """Return the energies of all entities as tails, shape (queries, entities).

        Who can be ranked ``among`` some entities takes their ids as a third argument.
        """
        ...

    def score_heads(self, edges: Tensor, tails: Tensor) -> Tensor:
        """Return the energies of all entities as heads, shape (queries, entities)."""
        ...


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
    among: IntArray | None = None,
) -> Ranks:
    """Rank triples of ids against all entities, without the other answers known in any graph.

    With ``among`` they are ranked against these entities alone, which must have all answers.

    Queries that share an entity and a relation share one row of energies; at most
    ``memory_limit`` bytes of energies are held at once. A relation is known by its name: known
    answers of any of its parts are left out.

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

    few = None if among is None else _Few(among)

    def known_tails(asked: IntArray, by: IntArray) -> tuple[IntArray, IntArray]:
        return facts.tails_many(asked, names[by])

    def known_heads(asked: IntArray, by: IntArray) -> tuple[IntArray, IntArray]:
        return facts.heads_many(names[by], asked)

    size = facts.num_entities if few is None else len(few.ids)
    rank = partial(_rank_side, size, memory_limit)
    by_tail, by_head = _Queries.group(heads, edges, tails), _Queries.group(tails, edges, heads)
    with torch.no_grad():
        return Ranks(
            rows,
            head=None
            if side == "tail"
            else rank(_ranking(model, "head", few), known_heads, by_head),
            tail=None
            if side == "head"
            else rank(_ranking(model, "tail", few), known_tails, by_tail),
        )


RankAnswers: TypeAlias = Callable[[Tensor, Tensor, Lists, Lists], SideRanks]


def _ranking(model: Scorer, target: Literal["head", "tail"], few: _Few | None) -> RankAnswers:
    """How answers at one end are ranked: by the energies of all or a few, wherever those are."""
    if isinstance(model, ShardedEmbedding) and few is None:
        return partial(rank_among_shards, model, target)
    some = () if few is None else (few.tensor,)

    def rank(asked: Tensor, edges: Tensor, ranked: Lists, known: Lists) -> SideRanks:
        if target == "tail":
            scores = model.score_tails(asked, edges, *some)
        else:
            scores = model.score_heads(edges, asked, *some)
        if few is not None:
            ranked, known = few.lists(ranked), few.lists(known)
        return rank_among(scores, ranked, known, overwrite=True)

    return rank


class _Few:
    """Some entities, by place among them."""

    def __init__(self, ids: IntArray) -> None:
        self.ids = np.unique(ids).astype(np.int64)
        self.tensor = torch.from_numpy(self.ids)

    def lists(self, given: Lists) -> Lists:
        """The same lists, of those that are among the few."""
        places = np.minimum(np.searchsorted(self.ids, given.ids), len(self.ids) - 1)
        there = self.ids[places] == given.ids
        counts = np.bincount(given.rows[there], minlength=len(given.offsets) - 1)
        return Lists(places[there], offsets_of(counts))


def ranked_side(model: Scorer) -> Side:
    """The sides that a model is judged by.

    A lifted model ranks heads through reciprocals; where it has none, because the data hold both
    directions of every fact, tails are all there is to rank.
    """
    config = getattr(model, "config", None)
    tails = isinstance(config, SheafConfig) and not (config.reciprocal or config.energy.ranks_heads)
    return "tail" if tails else "both"


def known_facts(known: Sequence[KnowledgeGraph]) -> tuple[KnowledgeGraph, IntArray]:
    """All facts of the graphs by relation name, types forgotten; and the name of each edge.

    What follows from the facts by what the schema says is among them.
    """
    if not known:
        raise InputError("Ranking needs at least one graph of known facts, say the training graph.")
    first = known[0]
    for graph in known[1:]:
        if graph.schema != first.schema or graph.num_entities != first.num_entities:
            raise InputError(
                "The graphs of known facts must share their schema and their entities; make them "
                "with with_triples."
            )
    if len(known) == 1:  # which keeps what it has indexed
        return first.closed.by_name, first.schema.edge_names
    rows = np.concatenate([graph.triples for graph in known])
    return first.with_triples(rows).closed.by_name, first.schema.edge_names


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
        return cls(keys // width, keys % width, answers[order], order, offsets_of(counts[busiest]))

    def ranked(self, part: slice) -> Lists:
        """The answers of some of the queries."""
        offsets = self.offsets[part.start : part.stop + 1]
        return Lists(self.answers[offsets[0] : offsets[-1]], offsets - offsets[0])


def _rank_side(
    num_entities: int,
    memory_limit: int,
    rank: RankAnswers,
    lookup: Callable[[IntArray, IntArray], tuple[IntArray, IntArray]],
    queries: _Queries,
) -> SideRanks:
    found = []
    for part in chunks(len(queries.asked), num_entities, memory_limit):
        asked, edges = queries.asked[part], queries.edges[part]
        ids, by = torch.from_numpy(asked), torch.from_numpy(edges)
        found.append(rank(ids, by, queries.ranked(part), Lists(*lookup(asked, edges))))
    return SideRanks.concatenate(found)[np.argsort(queries.order)]

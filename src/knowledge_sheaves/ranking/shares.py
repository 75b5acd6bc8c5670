"""What a model says of a triple by itself, from both of its ends.

Seen from its head a triple's *share* is that of its tail among all entities that are not known to
answer (h, r) already: a softmax of −V/τ; and likewise from its tail. With how many of those come
before it, from the end where it stands better, and how many answers are known on either side, this
is all that a triple's probability is made of, so that it is the same whichever way one asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.loops import is_barred
from knowledge_sheaves.embedding.maps import End
from knowledge_sheaves.embedding.numbers import check_scores
from knowledge_sheaves.embedding.search.ends import BestEnds, best_ends
from knowledge_sheaves.embedding.search.kept import FULL, QUICK, search_mode
from knowledge_sheaves.graph import IntArray
from knowledge_sheaves.graph.arrays import offsets_of
from knowledge_sheaves.ranking.ranker import MEMORY_LIMIT, FloatArray, Lists, chunks, to_index
from knowledge_sheaves.ranking.triples import known_facts, ranked_side

READ = 1 << 13
"""How many entities are looked at for a sum over all, where an index says which are the best."""
LEAST = -30.0
"""The logarithm of a share that counts as none."""
AHEAD = 10
"""How many that come before an answer are counted."""


def triple_energies(model: SheafEmbedding, triples: IntArray, backwards: bool) -> Tensor:
    """V of triples by its definition, seen from the tail by the reciprocal relation if there is."""
    rows = np.asarray(triples, np.int64)
    if backwards and model.config.reciprocal:
        rows = rows[:, ::-1] + np.array([0, model.num_relations, 0])
    with torch.no_grad():
        return model.scores(rows)


@torch.no_grad()
def both_sides(
    model: SheafEmbedding, triples: IntArray, tau: float, memory_limit: int = MEMORY_LIMIT
) -> FloatArray:
    """Features of triples: log-shares from each end, place, how many answers training knows there.

    The place is minus the logarithm of 1 and how many come before, the fewer of both ends.
    A model that ranks tails only has those of the head's end alone. Triples are rows of head, edge
    of the schema and tail.

    >>> from knowledge_sheaves.embedding import model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    >>> model = SheafEmbedding(model_config("transe", dim=2), graph)
    >>> both_sides(model, graph.triples, tau=1.0).shape
    (2, 5)
    """
    facts, names = known_facts([model.graph])
    heads, edges, tails = np.asarray(triples).reshape(-1, 3).T.astype(np.int64)
    by = names[edges]

    def score_tails(asked: Tensor, given: Tensor) -> Tensor:
        return _checked(model, model.score_tails(asked, given))

    def score_heads(asked: Tensor, given: Tensor) -> Tensor:
        return _checked(model, model.score_heads(given, asked))

    def known_tails(asked: IntArray, given: IntArray) -> Lists:
        return Lists(*facts.tails_many(asked, names[given]))

    def known_heads(asked: IntArray, given: IntArray) -> Lists:
        return Lists(*facts.heads_many(names[given], asked))

    quick = _by_index(model, triples, tau, (known_tails, known_heads))
    if quick is not None:
        return _columns(quick, [facts.out_degree(heads, by), facts.in_degree(by, tails)])
    rest = tau, facts.num_entities, memory_limit
    found = [_seen(score_tails, known_tails, heads, edges, tails, *rest)]
    counts = [facts.out_degree(heads, by)]
    if ranked_side(model) == "both":
        found.append(_seen(score_heads, known_heads, tails, edges, heads, *rest))
        counts.append(facts.in_degree(by, tails))
    return _columns(found, counts)


Seen = tuple[FloatArray, FloatArray]
"""Of triples from one end: log-shares, and how many come before."""


def _columns(seen: Sequence[Seen], known: Sequence[IntArray]) -> FloatArray:
    shares, ahead = zip(*seen, strict=True)
    place = -np.log1p(np.minimum.reduce(ahead))
    return np.column_stack([*shares, place, *map(np.log1p, known[: len(seen)])])


Lookup = Callable[[IntArray, IntArray], Lists]


def _by_index(
    model: SheafEmbedding, triples: IntArray, tau: float, known: tuple[Lookup, Lookup]
) -> list[Seen] | None:
    """Log-shares from each end in a large model that has an index, and how many come before.

    What all entities come to together is estimated from the best lists of the index and a sample
    of the rest (`embedding.search`). None where all entities must be compared.
    """
    if search_mode(model) == FULL:
        return None
    rows = np.asarray(triples).reshape(-1, 3).astype(np.int64)
    columns: list[Seen] = []
    ends: tuple[End, ...] = ("tail", "head") if ranked_side(model) == "both" else ("tail",)
    for end, lookup in zip(ends, known, strict=False):
        asked, answers = (rows[:, 0], rows[:, 2]) if end == "tail" else (rows[:, 2], rows[:, 0])
        own = -triple_energies(model, rows, end == "head").double().cpu().numpy() / tau
        if not model.config.loops:
            own[is_barred(model.graph, rows)] = -np.inf
        found, ahead = np.empty(len(rows)), np.empty(len(rows))
        for edge in np.unique(rows[:, 1]).tolist():
            entities = np.unique(asked[rows[:, 1] == edge])
            known_lists = lookup(entities, np.full_like(entities, edge))
            olds = np.split(known_lists.ids, known_lists.offsets[1:-1])
            asked_of = model, end, edge, entities.tolist(), AHEAD, QUICK
            bests = best_ends(*asked_of, tau=tau, impossible=olds, reach=READ)
            if bests is None:
                return None
            for entity, old, best in zip(entities, olds, bests, strict=True):
                mine = (asked == entity) & (rows[:, 1] == edge)
                # A known answer competes with those that are not known, and with itself.
                with_itself = np.logaddexp(best.log_total, own[mine])
                totals = np.where(np.isin(answers[mine], old), with_itself, best.log_total)
                found[mine] = own[mine] - totals
                ahead[mine] = _before(best, answers[mine], -tau * own[mine])
        columns.append((_bounded(found), ahead))
    return columns


def _before(best: BestEnds, answers: IntArray, energies: FloatArray) -> FloatArray:
    """How many of the best come before answers; one that is among them is at its place."""
    same = answers[:, None] == best.ids.cpu().numpy()
    better = best.scores.double().cpu().numpy() < energies[:, None]
    return np.where(same.any(1), same.argmax(1), better.sum(1)).astype(np.float64)


def _bounded(logs: FloatArray) -> FloatArray:
    return np.maximum(np.nan_to_num(logs, nan=LEAST, neginf=LEAST), LEAST)


def _checked(model: SheafEmbedding, scores: Tensor) -> Tensor:
    check_scores(model, scores.amin(-1))  # a minimum is NaN if one value is
    return scores


def _seen(
    score: Callable[[Tensor, Tensor], Tensor],
    lookup: Callable[[IntArray, IntArray], Lists],
    asked: IntArray,
    edges: IntArray,
    answers: IntArray,
    tau: float,
    num_entities: int,
    memory_limit: int,
) -> Seen:
    """The log-share of each answer, and how many come before; the same question is asked once."""
    pairs, places = np.unique(np.stack([asked, edges], 1), axis=0, return_inverse=True)
    order = np.argsort(places.ravel(), kind="stable")
    offsets = offsets_of(np.bincount(places.ravel(), minlength=len(pairs)))
    found, ahead = np.empty(len(answers)), np.empty(len(answers))
    for part in chunks(len(pairs), num_entities, memory_limit):
        entities, by = (pairs[part, i].copy() for i in (0, 1))
        logits = score(torch.from_numpy(entities), torch.from_numpy(by)).div_(-tau)
        first, last = offsets[part.start], offsets[part.stop]
        mine = Lists(order[first:last], offsets[part.start : part.stop + 1] - first)
        found[mine.ids], ahead[mine.ids] = _of_rows(
            logits, mine.rows, answers[mine.ids], lookup(entities, by)
        )
    return _bounded(found), ahead


def _of_rows(logits: Tensor, rows: IntArray, answers: IntArray, known: Lists) -> Seen:
    at = to_index(rows, logits), to_index(answers, logits)
    own = logits[at]
    old = to_index(known.rows, logits), to_index(known.ids, logits)
    marked = torch.zeros_like(logits, dtype=torch.bool)
    marked[old] = True
    itself = marked[at]
    others = logits.masked_fill_(marked, -torch.inf)
    best = others.topk(min(AHEAD, others.shape[1]), dim=1).values
    ahead = (best[at[0]] > own[:, None]).sum(1)
    total, mine = others.logsumexp(1).double()[at[0]], own.double()
    # A known answer competes with those that are not known, and with itself.
    total = torch.where(itself, torch.logaddexp(total, mine), total)
    return (mine - total).cpu().numpy(), ahead.double().cpu().numpy()

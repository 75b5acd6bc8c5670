"""Ranks and best answers where every process has some of the entities.

Each counts or searches among its own, and the counts are added up, the best are merged: no process
sees the energies of all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knowledge_sheaves.embedding.maps import End
from knowledge_sheaves.embedding.search.ends import BestEnds
from knowledge_sheaves.embedding.shards import ShardedEmbedding
from knowledge_sheaves.graph import IntArray
from knowledge_sheaves.ranking.ranker import IdLists, Lists, SideRanks, count_below, to_index


def rank_among_shards(
    model: ShardedEmbedding,
    target: End,
    known: Tensor,
    edges: Tensor,
    ranked: IdLists,
    filtered: IdLists,
) -> SideRanks:
    """`rank_among` for the entities of all processes; all of them rank the same answers."""
    asked, others, own = Lists.of(ranked), Lists.of(filtered), _Columns(model)
    energies = model.score_own(target, edges, known)
    there, places = own.of(asked.ids)
    # The energy of an answer is known where its entity is.
    true = energies.new_zeros(len(asked.ids))
    found = energies[to_index(asked.rows[there], true), to_index(places[there], true)]
    true[to_index(np.flatnonzero(there), true)] = found.nan_to_num_(
        torch.inf, torch.inf, -torch.inf
    )
    true = model.processes.total(true)
    mine, columns = own.of(others.ids)
    at = to_index(others.rows[mine], true), to_index(columns[mine], true)
    energies[at] = torch.nan  # neither below nor up to anything
    possible = (energies < torch.inf).sum(1)
    order = np.argsort(-asked.counts, kind="stable")  # as counting wants them
    sorted_ = Lists(np.arange(len(asked.ids)), asked.offsets).take(order)
    block = energies[to_index(order, energies)]
    scratch = torch.empty_like(block, dtype=torch.bool)
    lower, up_to = count_below(block, true[to_index(sorted_.ids, true)], sorted_.offsets, scratch)
    counts = torch.zeros(2, len(asked.ids), dtype=torch.long)
    counts[:, to_index(sorted_.ids, counts)] = torch.from_numpy(np.stack([lower, up_to]))
    below, up_to_it = model.processes.total(counts).numpy()
    candidates = model.processes.total(possible).numpy()[asked.rows]
    itself = _is_filtered(asked, others)
    rivals = model.graph.num_entities - others.counts[asked.rows]
    worst = true.isposinf().numpy()
    return SideRanks(
        below + 1,
        np.where(worst, rivals, up_to_it) + itself,
        np.where(worst, rivals, candidates) + itself,
    )


class _Columns:
    """Which entities this process has, and in which column of `score_own` each is."""

    def __init__(self, model: ShardedEmbedding) -> None:
        self.ids = model.own_entities().numpy()

    def of(self, entities: IntArray) -> tuple[npt.NDArray[np.bool_], IntArray]:
        """Whether each entity is here, and its column (of those that are not: any)."""
        if not len(self.ids):
            return np.zeros(len(entities), bool), np.zeros(len(entities), np.int64)
        place = np.searchsorted(self.ids, entities).clip(max=len(self.ids) - 1)
        return self.ids[place] == entities, place


def _is_filtered(asked: Lists, others: Lists) -> npt.NDArray[np.bool_]:
    """Whether each answer is one of those that are left out of its own query."""
    width = 1 + max(asked.ids.max(initial=0), others.ids.max(initial=0))
    return np.isin(
        asked.rows.astype(np.int64) * width + asked.ids,
        others.rows.astype(np.int64) * width + others.ids,
    )


def best_of_shards(
    model: ShardedEmbedding,
    target: End,
    edge: int,
    known: int,
    top: int,
    tau: float,
    impossible: Sequence[int],
    unwanted: Sequence[int],
) -> BestEnds:
    """`best_ends` for the entities of all processes: each searches its own.

    What is ``impossible`` takes no share of the probability; what is ``unwanted`` only of answers.
    """
    own = _Columns(model)
    energies = model.score_own(target, torch.tensor([edge]), torch.tensor([known]))[0]
    energies[_here(own, impossible)] = torch.inf
    log_total = _log_total(model, energies, tau)
    energies[_here(own, unwanted)] = torch.inf
    best = energies.topk(min(top, len(energies)), largest=False)
    found = model.processes.gather((best.values, model.own_entities()[best.indices]))
    values, entities = (torch.cat(each) for each in zip(*found, strict=True))
    # By energy and then by id: the same order however many processes there are.
    order = torch.from_numpy(np.lexsort((entities.numpy(), values.numpy()))[:top])
    order = order[values[order] < torch.inf]
    return BestEnds(entities[order], values[order], log_total, ())


def _here(own: _Columns, entities: Sequence[int]) -> Tensor:
    there, columns = own.of(np.array(entities, np.int64))
    return torch.from_numpy(columns[there])


def _log_total(model: ShardedEmbedding, energies: Tensor, tau: float) -> float:
    """log Σ e^(−V/τ) over the entities of all processes."""
    logits = -energies / tau
    top = torch.full((1,), -torch.inf)
    top = model.processes.largest(torch.cat([top, logits]).max().reshape(1))
    return float(top + model.processes.total((logits - top).exp().sum().reshape(1)).log())

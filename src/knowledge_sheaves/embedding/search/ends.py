"""The best entities at the open end of an edge, by an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from knowledge_sheaves.embedding.loops import bars_loops
from knowledge_sheaves.embedding.maps import End
from knowledge_sheaves.embedding.model import SheafEmbedding
from knowledge_sheaves.embedding.scoring import make_query
from knowledge_sheaves.embedding.search.building import asked_of
from knowledge_sheaves.embedding.search.codes import CodeScan
from knowledge_sheaves.embedding.search.finders import Filter
from knowledge_sheaves.embedding.search.kept import FULL, finder_of, search_note


class BestEnds(NamedTuple):
    """The best entities by score, ascending; log Σ exp(−score/τ) of all; what to know of it."""

    ids: Tensor
    scores: Tensor
    log_total: float
    notes: tuple[str, ...]


@torch.no_grad()
def best_ends(
    model: SheafEmbedding,
    target: End,
    edge: int,
    known: int,
    count: int,
    mode: str,
    *,
    tau: float,
    impossible: Sequence[int] = (),
    unwanted: Sequence[int] = (),
    reach: int | None = None,
) -> BestEnds | None:
    """The best entities at one end of an edge of the schema; None where all must be compared.

    ``reach`` is how many a quick search is to read, if not as many as its recall needs. A relation
    with several parts is searched over all of them, as `score_tails` scores it.
    """
    if mode == FULL:
        return None
    if target == "head" and model.config.reciprocal:
        target, edge = "tail", edge + model.num_relations
    _, parts = model.siblings(target).of(torch.tensor([edge]))
    ids, scores, totals, notes = list[Tensor](), list[Tensor](), list[Tensor](), list[str]()
    impossible = [*impossible, *([known] if bars_loops(model, edge) else [])]
    for part in parts.tolist():
        kind = int(model.edge_types[part][1 if target == "tail" else 0])
        finder = finder_of(model, kind, mode, reach)
        query = make_query(model, target, torch.tensor([part]), torch.tensor([known]))
        asked = asked_of(model, query, finder.candidates)
        if asked is None or (isinstance(finder, CodeScan) and not finder.codes.takes(asked.forms)):
            return None
        possible = model.possible(target)
        open_ = None if possible is None else possible.entities(torch.tensor([part]))[0]
        barred, hidden = (
            rows_of(model, kind, torch.tensor(list(each), dtype=torch.long))
            for each in (impossible, unwanted)
        )
        filter_ = Filter(open_, barred, None, hidden)
        (found,) = finder.best(asked, count, [filter_], tau)
        several = len(model.widths) > 1
        ids.append(model.entities_of_type(kind)[found.rows] if several else found.rows)
        scores.append(found.values)
        totals.append(torch.tensor(found.log_total, dtype=torch.float64))
        notes += search_note(finder, found)
    values, order = torch.cat(scores).sort(stable=True)
    total = float(torch.logsumexp(torch.stack(totals), 0))
    ends = torch.cat(ids)[order]
    return BestEnds(ends[:count], values[:count], total, tuple(dict.fromkeys(notes)))


def rows_of(model: SheafEmbedding, kind: int, ids: Tensor) -> Tensor:
    """The places of entities among those of their type; those of other types are left out."""
    if len(model.widths) == 1:
        return ids
    own = ids[torch.from_numpy(model.graph.entity_types[ids.numpy()] == kind)]
    return model.entities.row_of[own] - model.entities.span[kind][1]

"""The best entities at the open end of an edge, by an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from knowledge_sheaves.embedding.loops import bars_loops
from knowledge_sheaves.embedding.maps import End
from knowledge_sheaves.embedding.model import SheafEmbedding
from knowledge_sheaves.embedding.scoring import make_query
from knowledge_sheaves.embedding.search.building import asked_of
from knowledge_sheaves.embedding.search.finders import Filter, Found
from knowledge_sheaves.embedding.search.kept import FULL, finder_of, search_note
from knowledge_sheaves.graph import IntArray

Ids: TypeAlias = Sequence[int] | IntArray | Tensor


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
    known: Sequence[int],
    count: int,
    mode: str,
    *,
    tau: float,
    impossible: Sequence[Ids],
    unwanted: Sequence[Ids] | None = None,
    reach: int | None = None,
) -> list[BestEnds] | None:
    """The best entities at one end of an edge of the schema for every known other end.

    None where all must be compared. ``impossible`` and ``unwanted`` have ids for each of ``known``.
    ``reach`` is how many a quick search is to read, if not as many as its recall needs. A relation
    with several parts is searched over all of them, as `score_tails` scores it.
    """
    if mode == FULL:
        return None
    if target == "head" and model.config.reciprocal:
        target, edge = "tail", edge + model.num_relations
    _, parts = model.siblings(target).of(torch.tensor([edge]))
    if bars_loops(model, edge):
        impossible = [[*ids, each] for ids, each in zip(impossible, known, strict=True)]
    unwanted = unwanted or [()] * len(known)
    found: list[list[_Part]] = [[] for _ in known]
    for part in parts.tolist():
        kind = int(model.edge_types[part][1 if target == "tail" else 0])
        finder = finder_of(model, kind, mode, reach)
        edges = torch.full((len(known),), part)
        query = make_query(model, target, edges, torch.tensor(known))
        asked = asked_of(model, query, finder.candidates)
        if asked is None or not finder.takes(asked):
            return None
        possible = model.possible(target)
        open_ = None if possible is None else possible.entities(torch.tensor([part]))[0]
        filters = [
            Filter(open_, rows_of(model, kind, barred), None, rows_of(model, kind, hidden))
            for barred, hidden in zip(impossible, unwanted, strict=True)
        ]
        for mine, best in zip(found, finder.best(asked, count, filters, tau), strict=True):
            mine.append(_Part(kind, best, search_note(finder, best)))
    return [_joined(model, each, count) for each in found]


class _Part(NamedTuple):
    kind: int
    found: Found
    notes: list[str]


def _joined(model: SheafEmbedding, parts: Sequence[_Part], count: int) -> BestEnds:
    """The best of all parts of a relation."""
    several = len(model.widths) > 1
    ids = [
        model.entities_of_type(kind)[found.rows] if several else found.rows
        for kind, found, _ in parts
    ]
    values, order = torch.cat([part.found.values for part in parts]).sort(stable=True)
    totals = torch.tensor([part.found.log_total for part in parts], dtype=torch.float64)
    notes = dict.fromkeys(note for part in parts for note in part.notes)
    total = float(torch.logsumexp(totals, 0))
    return BestEnds(torch.cat(ids)[order][:count], values[:count], total, tuple(notes))


def rows_of(model: SheafEmbedding, kind: int, given: Ids) -> Tensor:
    """The places of entities among those of their type; those of other types are left out."""
    ids = torch.as_tensor(given, dtype=torch.long)
    if len(model.widths) == 1:
        return ids
    own = ids[torch.from_numpy(model.graph.entity_types[ids.numpy()] == kind)]
    return model.entities.row_of[own] - model.entities.span[kind][1]

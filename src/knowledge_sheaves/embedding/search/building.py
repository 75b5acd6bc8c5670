"""Building an index: clusters of vectors, codes in their order, and what some of it misses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from knowledge_sheaves.embedding.constraints import Gram
from knowledge_sheaves.embedding.energies.base import Query
from knowledge_sheaves.embedding.energies.square import KINDS
from knowledge_sheaves.embedding.maps import End
from knowledge_sheaves.embedding.model import SheafEmbedding
from knowledge_sheaves.embedding.search.codes import Bounds, Coded, Codes
from knowledge_sheaves.embedding.search.finders import AT_ONCE, Asked, Filter
from knowledge_sheaves.embedding.search.scans import CodeScan
from knowledge_sheaves.embedding.search.top import top
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.sheaf.monomials import Candidates, Monomials

LEAST = 1_000
"""Of fewer entities of a type all are compared."""
LISTS = 4
"""So many times the root of their number of lists entities have. The more, the less is read..."""
MOST_LISTS = 1 << 13
"""...and the longer it takes to find the list of every entity."""
A_LIST = 40
"""So many vectors for every list are looked at to find where lists are."""
ROUNDS = 8
SAMPLE = 1 << 14
QUERIES = 400
TOP = 10
RECALL = 0.98
WIDEST = 4
"""Monomials may be so many times as many as coordinates."""

Report = Callable[[str], None]
Questions = Callable[[SheafEmbedding, int, int, int], Sequence[Asked]]
"""Of a model, a type of answers, how many questions and a seed: questions of known facts."""


@dataclass(frozen=True)
class Measured:
    """What share of the best answers of facts' questions is found, and by how many of them."""

    recall_at_10: float
    queries: int
    reach: int


def build(
    model: SheafEmbedding,
    kind: int,
    recall: float,
    seed: int,
    questions: Mapping[str, Questions],
    report: Report,
) -> tuple[Codes, dict[str, Measured]]:
    """The index of all entities of a type, and what it misses of questions of every shape."""
    generator = torch.Generator().manual_seed(seed)
    pool = model.pool(kind, "tail")
    candidates, size = pool.candidates, len(pool.candidates)
    report("clustering")
    lists = min(MOST_LISTS, size, round(LISTS * math.sqrt(size)))
    mine = nearest(candidates.flat, cluster(candidates.flat, lists, generator))
    report("coding")
    codes = encode(candidates, bias_columns(model, kind), mine, monomials(model, candidates))
    sample = torch.randperm(size, generator=generator)[:SAMPLE].sort().values
    codes = replace(codes, sample=sample.int())
    measured = {}
    for shape, ask in questions.items():
        report(f"measuring {shape}")
        asked = [each for each in ask(model, kind, QUERIES, seed) if codes.takes(each.forms)]
        measured[shape] = measure(rows_needed(model, kind, codes, asked), recall, size)
    return codes, measured


def measure(needed: Tensor, recall: float, size: int) -> Measured:
    """One half of the questions says how much must be read for ``recall``, the other measures."""
    chosen, judged = needed[::2], needed[1::2]
    reach = int(chosen.flatten().double().quantile(recall)) + 1 if len(chosen) else size
    reach = min(size, max(reach, TOP))
    found = float((judged <= reach).double().mean()) if len(judged) else 1.0
    return Measured(found, len(judged), reach)


def monomials(model: SheafEmbedding, candidates: Candidates) -> Monomials:
    """Which monomials the forms of single edges need, at the ends at which they are asked."""
    if model.config.energy.on_sphere and model.config.reciprocal:
        return Monomials.NONE
    ends: tuple[End, ...] = ("tail",) if model.config.reciprocal else ("head", "tail")
    needed = max(KINDS[model.maps.gram[end]] for end in ends)
    width = candidates.blocks.shape[2]
    if needed is KINDS[Gram.GENERAL] and width + 1 > 2 * WIDEST:
        raise InputError(
            f"The maps of {model.config.name!r} have blocks of {width}, whose products of "
            "coordinates are too many for an index: questions compare all entities."
        )
    return needed


def bias_columns(model: SheafEmbedding, kind: int) -> Tensor | None:
    """The biases of all entities of a type, (entities, columns)."""
    if model.biases is None:
        return None
    table = model.biases.detach()
    return table if len(model.widths) == 1 else table[model.entities_of_type(kind)]


def cluster(points: Tensor, lists: int, generator: torch.Generator) -> Tensor:
    """Centres of clusters, by Lloyd's way, of a sample of the points."""
    some = torch.randperm(len(points), generator=generator)[: A_LIST * lists]
    sample = points[some].float()
    centres = sample[:lists].clone()
    for _ in range(ROUNDS):
        mine = nearest(sample, centres)
        counts = torch.bincount(mine, minlength=lists)
        sums = torch.zeros_like(centres).index_add_(0, mine, sample)
        again = torch.randint(len(sample), (lists,), generator=generator)
        # A centre that nobody is nearest to starts again somewhere else.
        means = sums / counts.clamp(min=1).unsqueeze(1)
        centres = torch.where(counts.unsqueeze(1) > 0, means, sample[again])
    return centres


def nearest(points: Tensor, centres: Tensor) -> Tensor:
    """The nearest centre of every point."""
    half = centres.square().sum(1, keepdim=True) / 2
    wide = torch.cat([-centres, half], 1).T
    rows = max(64, (1 << 21) // max(1, len(centres)))
    found = list[Tensor]()
    # Memory that is new for every product takes as long as the product itself.
    products = points.new_empty(rows, len(centres), dtype=torch.float)
    for part in points.split(rows):
        ones = nn.functional.pad(part.float(), (0, 1), value=1.0)
        found.append(top(torch.mm(ones, wide, out=products[: len(part)]), 1)[1].squeeze(1))
    return torch.cat(found)


def encode(candidates: Candidates, biases: Tensor | None, lists: Tensor, kind: Monomials) -> Codes:
    """Candidates in 8 bits in the order of their lists, with the mean row of every list."""
    order = lists.argsort(stable=True)
    counts = torch.bincount(lists)
    starts = torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)])
    points, more, columns = list[Coded](), list[Coded](), list[Tensor]()
    means: Tensor | None = None
    longest: Tensor | None = None
    for rows in order.split(AT_ONCE):
        some = candidates.take(rows)
        wide = [some.monomials(kind).float()] if kind > Monomials.NORM else []
        own = [some.monomials(Monomials.NORM).float()]
        own += [] if biases is None else [biases[rows].float()]
        points.append(Coded.of(some.flat))
        more += [Coded.of(each) for each in wide]
        columns.append(torch.cat(own, 1))
        expanded = torch.cat([some.flat.float(), *wide, columns[-1]], 1)
        if means is None:
            means = expanded.new_zeros(len(counts), expanded.shape[1])
        means.index_add_(0, lists[rows], expanded)
        lengths = [some.flat.float(), *(wide or [expanded.new_zeros(len(rows), 1)])]
        far = [each.norm(dim=1).max().reshape(1) for each in lengths]
        here = torch.cat([*far, columns[-1].abs().amax(0)])
        longest = here if longest is None else torch.maximum(longest, here)
    assert means is not None, "a type that is indexed has entities"
    assert longest is not None
    means /= counts.clamp(min=1).unsqueeze(1)
    codes = Codes(
        _joined(points),
        _joined(more) if more else None,
        *(torch.cat(columns), order.int(), starts, means),
        *(means.new_zeros(len(counts)), torch.zeros(0, dtype=torch.int32), longest),
        kind,
    )
    return replace(codes, spread=_spread(candidates, lists, codes))


def _joined(parts: list[Coded]) -> Coded:
    return Coded(*(torch.cat(each) for each in zip(*parts, strict=True)))


def _spread(candidates: Candidates, lists: Tensor, codes: Codes) -> Tensor:
    """The root of the mean square of how far vectors are from the mean of their list."""
    out = codes.means.new_zeros(len(codes.means))
    width = candidates.flat.shape[1]
    for start in range(0, len(lists), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        away = candidates.flat[part].float() - codes.means[lists[part], :width]
        out.index_add_(0, lists[part], away.square().sum(1))
    return (out / codes.sizes().clamp(min=1)).sqrt()


def asked_of(model: SheafEmbedding, query: Query, candidates: Candidates) -> Asked | None:
    """Single edges with one end known, as forms; None where their energy has none."""
    forms = model.config.energy.forms(model, query, candidates)
    score = model.config.energy.of_forms
    if forms is None or model.biases is None:
        return None if forms is None else Asked(forms, score=score)
    columns = model.biases.shape[1]
    # Of one column both ends are taken off; the known end's is the same for all candidates.
    own = 1.0 if columns == 1 else float(query.target == "head")
    favour = (own,) if columns == 1 else (own, 1 - own)
    assert forms.constant is not None
    assert query.bias is not None
    return Asked(forms._replace(constant=forms.constant - query.bias), favour, score)


@torch.no_grad()
def sample_queries(model: SheafEmbedding, kind: int, count: int, seed: int) -> Query | None:
    """Questions of known facts, by chance: what stands at the end of an edge of this type?"""
    triples = torch.from_numpy(model.graph.triples)
    ends = torch.from_numpy(model.edge_types[: model.num_relations, 1])
    mine = (ends[triples[:, 1].long()] == kind).nonzero().squeeze(1)
    some = torch.randperm(len(mine), generator=torch.Generator().manual_seed(seed))[:count]
    if not len(some):
        return None
    heads, edges, _ = triples[mine[some]].long().unbind(1)
    return model.config.energy.query(model, "tail", edges, heads)


@torch.no_grad()
def edges(model: SheafEmbedding, kind: int, count: int, seed: int) -> Sequence[Asked]:
    """Questions of one edge that known facts answer; those of an energy without forms are none."""
    query = sample_queries(model, kind, count, seed)
    asked = None if query is None else asked_of(model, query, model.pool(kind, "tail").candidates)
    return [] if asked is None else asked.each()


@torch.no_grad()
def rows_needed(model: SheafEmbedding, kind: int, codes: Codes, asked: Sequence[Asked]) -> Tensor:
    """How far one must reach to meet each of a question's best answers: (questions, best)."""
    scan = CodeScan(model.pool(kind, "tail").candidates, bias_columns(model, kind), codes)
    needed = [torch.zeros(0, TOP, dtype=torch.long)]
    for each in asked:
        (found,) = scan.best(each, TOP, [Filter()])
        ranked = Bounds(codes, each).lists()[0].argsort()
        sizes = codes.sizes()[ranked]
        before = torch.empty_like(sizes)
        before[ranked] = sizes.cumsum(0) - sizes
        needed.append(before[codes.lists_of(codes.place[found.rows].long())].unsqueeze(0) + 1)
    return torch.cat(needed)

"""How exactly each relation holds: its own noise, estimated from the residuals of facts.

V_e / σ_r² weighs relations against each other: a relation that is hardly ever met exactly says less
about an unknown than one that always is. Give `relation_weights` to `sheaf.energy_form`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.embedding.model import SheafEmbedding
from knowledge_sheaves.embedding.storage import dataset_of, measured
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph

SHRINK = 10.0
"""Relations with few facts are drawn towards all others, as if by so many facts more."""
MOST_TRIPLES = 2_000
"""How many facts the noise of a model is estimated from."""
MOST_FACTS = 100
"""Facts of a lifted relation that are compared with all entities."""
TEMPERATURES = np.logspace(-3, 3, 121)
BEST, SAMPLED = 512, 1024
"""Of how many entities the softmax of a lifted relation is made where there are more."""


@torch.no_grad()
def relation_noise(
    model: SheafEmbedding, facts: KnowledgeGraph | None = None, shrink: float = SHRINK
) -> Tensor:
    """σ_r² of every edge of the model, reciprocal ones included: (edges,).

    It is the mean energy per dimension of a relation's facts: those held out for validation, or
    ``facts``. Relations without any of those are judged by their training facts, and as much worse
    as others are on facts held out than on those of training. In a lifted model most of the energy
    is M², whatever the relation; its place takes the temperature τ_r at which the softmax over all
    tails makes the facts likeliest.

    >>> from knowledge_sheaves.embedding import model_config
    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "s", "c")])
    >>> model = SheafEmbedding(model_config("transe", dim=4), graph)
    >>> relation_noise(model).shape                     # r, s, and both read backwards
    torch.Size([4])
    """
    if facts is not None:
        return _estimate(model, facts, shrink)[0].float()
    model = measured(model)
    found, numbers = _estimate(model, held_out_facts(model), shrink)
    alone = (numbers == 0) & torch.from_numpy(np.isin(_relations(model), model.graph.triples[:, 1]))
    if not bool(alone.any()):
        return found.float()
    known, _ = _estimate(model, model.graph, shrink)
    worse = (found.log() - known.log())[numbers > 0].mean().exp()
    return torch.where(alone, worse * known, found).float()


def held_out_facts(model: SheafEmbedding) -> KnowledgeGraph:
    """The facts that tell how exact a model is: those of validation, or those of training."""
    valid = dataset_of(model).valid
    return model.graph if valid is None or not valid.num_triples else valid


def model_noise(model: SheafEmbedding) -> float:
    """σ²: the mean energy per dimension of facts held out, or of known ones where none are."""
    return model.keep("noise", lambda: _model_noise(measured(model)))


@torch.no_grad()
def _model_noise(model: SheafEmbedding) -> float:
    energies = model.energies(held_out_facts(model).triples[:MOST_TRIPLES])
    if not len(energies):
        return 0.0
    return float(energies.mean()) / (model.n_blocks * model.maps.rows * model.config.sections)


def _relations(model: SheafEmbedding) -> np.ndarray:
    """The relation of every edge, reciprocal ones included."""
    return np.arange(len(model.edge_types)) % max(1, model.num_relations)


def _estimate(model: SheafEmbedding, facts: KnowledgeGraph, shrink: float) -> tuple[Tensor, Tensor]:
    """σ_r² or τ_r of every edge, and from how many facts."""
    triples = _edges(model, facts)
    if not len(triples):
        raise InputError("Noise is estimated from facts, and there are none.")
    edges, count = triples[:, 1], len(model.edge_types)
    numbers = torch.bincount(edges, minlength=count)
    if model.config.energy.on_sphere:
        return _temperatures(model, triples, shrink), numbers
    dims = torch.tensor([model.maps.map("head", e).rows for e in range(count)])
    per_dimension = model.energies(triples).double() / (dims[edges] * model.config.sections)
    sums = torch.zeros(count, dtype=torch.float64).index_add(0, edges, per_dimension)
    # Logarithms are drawn together: a relation a hundred times as exact should stay so.
    logs = (sums / numbers.clamp(min=1)).clamp(min=1e-30).log()
    overall = (numbers * logs).sum() / numbers.sum()
    drawn = (numbers * logs + shrink * overall) / (numbers + shrink).clamp(min=1e-12)
    return torch.where(numbers > 0, drawn, overall).exp(), numbers


def relation_weights(
    model: SheafEmbedding, facts: KnowledgeGraph | None = None, shrink: float = SHRINK
) -> Tensor:
    """1 / σ_r² of every edge, scaled so that the weights' geometric mean is 1."""
    log = -relation_noise(model, facts, shrink).clamp(min=1e-30).log()
    return (log - log.mean()).exp()


def _edges(model: SheafEmbedding, facts: KnowledgeGraph) -> Tensor:
    """Facts as edges of the model, in both directions where it has them."""
    rows = torch.from_numpy(np.array(facts.triples, dtype=np.int64))
    if not model.config.reciprocal:
        return rows
    backwards = rows.flip(1)
    backwards[:, 1] += model.num_relations
    return torch.cat([rows, backwards])


def _temperatures(model: SheafEmbedding, triples: Tensor, shrink: float) -> Tensor:
    """τ_r on a grid, in units of the scores' spread: steps of 12 %."""
    count = len(model.edge_types)
    costs = np.zeros((count, len(TEMPERATURES)))
    numbers = np.zeros(count)
    unit = _spread(model, triples)
    for edge in triples[:, 1].unique().tolist():
        rows = triples[triples[:, 1] == edge][:MOST_FACTS]
        scores = model.score_tails(rows[:, 0], rows[:, 1])
        own = scores.gather(1, rows[:, 2:])
        scores, log_share = _few(scores)
        for place, temperature in enumerate(TEMPERATURES * unit):
            surprise = torch.logsumexp((own - scores) / temperature - log_share, 1)
            costs[edge, place] = float(surprise.sum())
        numbers[edge] = len(rows)
    pooled = costs.sum(0) / numbers.sum()
    best = (costs + shrink * pooled).argmin(1)
    return torch.from_numpy(unit * TEMPERATURES[best])


def _few(scores: Tensor) -> tuple[Tensor, Tensor]:
    """The best scores of every row and a sample of the others, and the log of each one's share.

    The sum of a softmax over all is hardly more than that over the best, and what is left is
    smooth: a sample stands for it.
    """
    if scores.shape[1] <= BEST + SAMPLED:
        return scores, scores.new_zeros(scores.shape[1])
    best, places = scores.topk(BEST, largest=False)
    rest = scores.scatter(1, places, torch.inf)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(scores.shape[1], (SAMPLED,), generator=generator)
    share = torch.cat([torch.ones(BEST), torch.full((SAMPLED,), SAMPLED / scores.shape[1])])
    return torch.cat([best, rest[:, drawn.to(rest.device)]], 1), share.log().to(scores)


def _spread(model: SheafEmbedding, triples: Tensor) -> float:
    rows = triples[:: max(1, len(triples) // MOST_FACTS)]
    scores = model.score_tails(rows[:, 0], rows[:, 1])
    return float(scores[scores.isfinite()].std().clamp(min=1e-12))

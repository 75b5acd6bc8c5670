"""From energies to probabilities: a temperature fitted on facts the model has not seen.

An entity t answers (h, r) with probability p(t | h) = min(1 − ε, n · softmax_t(−V/τ)): the softmax
shares one answer among all entities, and n, the number of answers in training, says how many
there are to share.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.evaluation.ranking import MEMORY_LIMIT, Scorer, known_facts
from knowledge_sheaves.graph import KnowledgeGraph

# Only a remembered fact is certain.
EPSILON = 1e-4
# How far from the spread of the energies, as a factor, a temperature is looked for.
WIDEST = 1e4


def probabilities(energies: Tensor, n: Tensor | int, tau: float) -> Tensor:
    """Return the probability of each answer, from the energies of all (last dimension).

    ``n`` is the number of answers known in training, one for each row; at least 1 is counted.

    >>> probabilities(torch.tensor([0.0, 0.0, torch.inf]), n=1, tau=1.0).tolist()
    [0.5, 0.5, 0.0]
    """
    if not tau > 0:
        raise InputError(f"A temperature is a positive number, not {tau!r}.")
    counts = torch.as_tensor(n, device=energies.device).clamp(min=1).unsqueeze(-1)
    return (counts * torch.softmax(-energies / tau, dim=-1)).clamp(max=1 - EPSILON)


def fit_temperature(
    model: Scorer,
    valid_graph: KnowledgeGraph,
    train_graph: KnowledgeGraph,
    *,
    sample: int = 500,
    seed: int = 0,
    memory_limit: int = MEMORY_LIMIT,
) -> float:
    """Return the temperature τ under which held-out tails and heads are the most likely.

    Up to ``sample`` validation triples count, fewer where the energies of all entities for them
    would not fit into the memory limit.

    >>> class Steps:  # two of three facts have the lowest energy, one the next
    ...     def score_tails(self, heads, edges):
    ...         return torch.tensor([[0.0, 1.0]]).repeat(len(heads), 1)
    ...     def score_heads(self, edges, tails):
    ...         return torch.tensor([[0.0, 1.0]]).repeat(len(tails), 1)
    >>> graph = KnowledgeGraph.from_triples([("a", name, "a") for name in "rs"] + [("b", "r", "b")])
    >>> tau = fit_temperature(Steps(), graph, graph.with_triples(graph.triples[:0]))
    >>> round(math.exp(1 / tau), 2)  # so the first should be twice as likely
    2.0
    """
    gaps, counts = _held_out(model, valid_graph, train_graph, sample, seed, memory_limit)
    far = gaps[torch.isfinite(gaps) & (gaps != 0)].abs()
    # Where all energies are equal, every temperature is as good as another.
    spread = float(far.median()) if len(far) else 1.0

    def cost(log_tau: float) -> float:
        log_shares = -torch.logsumexp(gaps / math.exp(log_tau), dim=1)
        # A cap on each answer: what is as good as certain pulls no further.
        return -float((counts.log() + log_shares).clamp(max=math.log1p(-EPSILON)).sum())

    middle, reach = math.log(spread), math.log(WIDEST)
    found = minimize_scalar(cost, bounds=(middle - reach, middle + reach), method="bounded")
    return math.exp(found.x)


def _held_out(
    model: Scorer,
    valid: KnowledgeGraph,
    train: KnowledgeGraph,
    sample: int,
    seed: int,
    memory_limit: int,
) -> tuple[Tensor, Tensor]:
    """For each held-out answer how far all energies lie below its own, and n of its query."""
    if not valid.num_triples:
        raise InputError("A temperature needs validation triples, and there are none.")
    # Two sides, each with its energies and a copy to work on.
    fitting = memory_limit // (4 * 4 * valid.num_entities)
    size = max(1, min(sample, fitting, valid.num_triples))
    chosen = np.random.default_rng(seed).choice(valid.num_triples, size, replace=False)
    heads, edges, tails = valid.triples[np.sort(chosen)].T.astype(np.int64)
    facts, names = known_facts([train])
    degrees = (facts.out_degree(heads, names[edges]), facts.in_degree(names[edges], tails))
    h, e, t = (torch.from_numpy(column.copy()) for column in (heads, edges, tails))
    with torch.no_grad():
        gaps = torch.cat([_gaps(model.score_tails(h, e), t), _gaps(model.score_heads(e, t), h)])
    if gaps.isnan().any():
        raise SheafError(
            "The energies of validation triples are not finite, so no temperature fits them; "
            "the training has probably diverged."
        )
    return gaps, torch.from_numpy(np.concatenate(degrees)).clamp(min=1).to(gaps)


def _gaps(energies: Tensor, answers: Tensor) -> Tensor:
    return energies.gather(1, answers.to(energies.device).unsqueeze(1)) - energies

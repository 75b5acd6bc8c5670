"""From energies to probabilities: a temperature fitted on facts the model has not seen.

An entity t answers (h, r) with probability p(t | h) = min(1 − ε, n · softmax_t(−V/τ)): the softmax
shares one answer among all entities, and n, the number of answers in training, says how many
there are to share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.loops import is_barred
from knowledge_sheaves.embedding.probability import probabilities
from knowledge_sheaves.embedding.storage import dataset_of
from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.graph import IntArray, KnowledgeGraph
from knowledge_sheaves.ranking.ranker import MEMORY_LIMIT, to_index
from knowledge_sheaves.ranking.triples import Scorer, Side, known_facts

# How far from the spread of the energies, as a factor, a temperature is looked for.
WIDEST = 1e4
TAU = "tau"
"""What a model calls its temperature of facts."""
UNTEMPERED = (
    "No temperature was fitted for this model, so probabilities are those of temperature 1: "
    "trust their order only."
)


def fit_temperature(
    model: Scorer,
    valid_graph: KnowledgeGraph,
    train_graph: KnowledgeGraph,
    *,
    side: Side = "both",
    sample: int = 300,
    seed: int = 0,
    memory_limit: int = MEMORY_LIMIT,
) -> float:
    """Return the temperature τ under which the validation data are the most likely.

    For a query of the validation data every entity either answers it there or does not, and
    `probabilities` says how likely that is; facts of the training graph are remembered and do not
    count. To look at the answers alone would reward spreading probability over everything else.
    Up to ``sample`` queries on each side count, fewer where their energies would not fit into the
    memory limit.

    >>> class Steps:  # two of three facts have the lowest energy, one the next
    ...     def score_tails(self, heads, edges):
    ...         return torch.tensor([[0.0, 1.0]]).repeat(len(heads), 1)
    ...     def score_heads(self, edges, tails):
    ...         return torch.tensor([[0.0, 1.0]]).repeat(len(tails), 1)
    >>> graph = KnowledgeGraph.from_triples([("a", name, "a") for name in "rs"] + [("b", "t", "b")])
    >>> tau = fit_temperature(Steps(), graph, graph.with_triples(graph.triples[:0]))
    >>> round(math.exp(1 / tau), 2)  # so the first should be twice as likely
    2.0
    """
    if not valid_graph.num_triples:
        raise InputError("A temperature needs validation triples, and there are none.")
    # Two sides, each with its energies and three copies to work on.
    fitting = memory_limit // (2 * 4 * 4 * valid_graph.num_entities)
    size = max(1, min(sample, fitting))
    with torch.no_grad():
        rng = np.random.default_rng(seed)
        sides = _held_out(model, valid_graph, train_graph, side, size, rng)
    spread = float(torch.stack([side.spread for side in sides]).mean())

    def cost(log_tau: float) -> float:
        return sum(side.cost(math.exp(log_tau)) for side in sides)

    # Where all energies are equal, every temperature is as good as another.
    middle, reach = math.log(spread or 1.0), math.log(WIDEST)
    found = minimize_scalar(cost, bounds=(middle - reach, middle + reach), method="bounded")
    return math.exp(found.x)


class Temperature(NamedTuple):
    """The temperature at which a model's energies are probabilities, and whether it was fitted."""

    value: float
    fitted: bool

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of the probabilities."""
        return () if self.fitted else (UNTEMPERED,)


def temperature(model: SheafEmbedding, *names: str) -> Temperature:
    """The temperature that probabilities of a model go by, wherever they are shown.

    That which the model keeps under the first of the ``names`` that it has ("tau", of facts, is
    always one); else one fitted on its validation facts; and where it has none, 1.

    >>> from knowledge_sheaves.embedding import model_config
    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b")])
    >>> temperature(SheafEmbedding(model_config("transe", dim=2), graph))
    Temperature(value=1.0, fitted=False)
    """
    kept = {} if model.info is None else model.info.calibration
    for name in (*names, TAU):
        if name in kept:
            return Temperature(kept[name], True)
    return model.keep("temperature", lambda: _held_out_temperature(model))


def _held_out_temperature(model: SheafEmbedding) -> Temperature:
    valid = dataset_of(model).valid
    if valid is None or is_barred(model.graph, valid.triples).all():  # there may be none at all
        return Temperature(1.0, False)
    return Temperature(fit_temperature(model, valid, model.graph), True)


def fact_temperature(model: SheafEmbedding) -> float:
    """A temperature to begin a choice with: where no facts were held out, known ones must do."""
    found = temperature(model)
    if found.fitted:
        return found.value
    return fit_temperature(model, model.graph, model.graph.with_triples(model.graph.triples[:0]))


@dataclass(frozen=True)
class _HeldOut:
    """Queries with the energies of all entities, as (row, entity) what is true, what remembered."""

    energies: Tensor
    n: Tensor
    true: tuple[Tensor, Tensor]
    remembered: tuple[Tensor, Tensor]

    @property
    def spread(self) -> Tensor:
        gaps = self.energies - self.energies.amin(1, keepdim=True)
        return gaps[torch.isfinite(gaps)].mean()

    def cost(self, tau: float) -> float:
        """Minus the log-likelihood of what is true and what is not."""
        p = probabilities(self.energies, self.n, tau)
        # An answer may be too unlikely for the precision at hand, but not impossible.
        yes = p[self.true].clamp(min=torch.finfo(p.dtype).tiny).log()
        no = torch.log1p(-p)
        no[self.true] = 0
        no[self.remembered] = 0
        return -float(yes.sum() + no.sum())


def _held_out(
    model: Scorer,
    valid: KnowledgeGraph,
    train: KnowledgeGraph,
    side: Side,
    size: int,
    generator: np.random.Generator,
) -> list[_HeldOut]:
    remembered, names = known_facts([train])
    possible = valid.triples[~is_barred(train, valid.triples)]
    held_out = valid.with_triples(possible[~train.closed.contains(possible)]).by_name
    found = []
    for known_column in {"tail": (0,), "head": (2,), "both": (0, 2)}[side]:
        pairs = np.unique(possible[:, [known_column, 1]], axis=0).astype(np.int64)
        asked, edges = generator.permutation(pairs)[:size].T.copy()
        ids, by = torch.from_numpy(asked), torch.from_numpy(edges)
        if known_column == 0:
            energies = model.score_tails(ids, by)
            answers = [graph.tails_many(asked, names[edges]) for graph in (held_out, remembered)]
        else:
            energies = model.score_heads(by, ids)
            answers = [graph.heads_many(names[edges], asked) for graph in (held_out, remembered)]
        true, old = (_places(*answer, energies) for answer in answers)
        n = torch.from_numpy(np.diff(answers[1][1])).to(energies.device)
        found.append(_HeldOut(_checked(energies, true), n, true, old))
    return found


def _places(ids: IntArray, offsets: IntArray, like: Tensor) -> tuple[Tensor, Tensor]:
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return to_index(rows, like), to_index(ids, like)


def _checked(energies: Tensor, true: tuple[Tensor, Tensor]) -> Tensor:
    if energies.isnan().any() or not energies[true].isfinite().all():
        raise SheafError(
            "The energies of validation triples are not finite, so no temperature fits them; "
            "the training has probably diverged."
        )
    return energies

"""Losses: one class each, and one line to register it.

A loss says what it compares a batch's triples with (`against`): candidates for their tails that
the whole batch shares, one corrupted triple for each, or nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from knowledge_sheaves.training.config import TrainingConfig

Against = Literal["candidates", "corrupted", "nothing"]


class Loss:
    """What a batch costs, from the scores of its triples (lower for what fits better)."""

    name: ClassVar[str]
    against: ClassVar[Against]

    def __init__(self, config: TrainingConfig) -> None:
        self.config = config

    def on_pairs(self, true: Tensor, false: Tensor, of: Tensor) -> Tensor:
        """What pairs of subgraphs cost, one number each, from logits (higher for what fits better).

        ``of`` says which true subgraph every false one is paired with.
        """
        raise NotImplementedError


class CandidateLoss(Loss):
    """A loss on ``logits`` (triples, candidates), higher for what fits better."""

    against: ClassVar[Against] = "candidates"
    relative: ClassVar[bool] = False
    """Whether only differences between the candidates of a triple matter."""

    def __call__(self, logits: Tensor, target: Tensor) -> Tensor:
        """``target`` is the place of every triple's own tail among the candidates."""
        raise NotImplementedError


class TripleLoss(Loss):
    """A loss on the scores of triples, and on those of corrupted ones where it asks for them."""

    against: ClassVar[Against] = "corrupted"

    def __call__(self, scores: Tensor, corrupted: Tensor) -> Tensor:
        """Pairs of a triple, or a subgraph, and what it was corrupted to; none for "nothing"."""
        raise NotImplementedError


class Softmax(CandidateLoss):
    """Cross-entropy: −log of the softmax at the true tail."""

    name = "softmax"
    relative = True

    def __call__(self, logits: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(logits, target)

    def on_pairs(self, true: Tensor, false: Tensor, of: Tensor) -> Tensor:
        """−log of the softmax at H, over it and all that it is paired with."""
        top = true.detach().scatter_reduce(0, of, false.detach(), "amax")
        others = torch.zeros_like(true).index_add(0, of, (false - top[of]).exp())
        return top - true + ((true - top).exp() + others).log()


class Logistic(CandidateLoss):
    """Self-adversarial: negatives count by how likely the model finds them now."""

    name = "logistic"

    def __call__(self, logits: Tensor, target: Tensor) -> Tensor:
        logits = logits + self.config.margin
        positive = logits.gather(1, target.unsqueeze(1)).squeeze(1)
        negative = logits.scatter(1, target.unsqueeze(1), -torch.inf)
        weight = torch.softmax(self.config.adversarial * negative.detach(), 1)
        finite = negative.masked_fill(negative == -torch.inf, 0.0)
        return -(F.logsigmoid(positive) + (weight * F.logsigmoid(-finite)).sum(1)).mean() / 2

    def on_pairs(self, true: Tensor, false: Tensor, of: Tensor) -> Tensor:
        margin = self.config.margin
        return -(F.logsigmoid(true + margin)[of] + F.logsigmoid(-false - margin)) / 2


class Margin(TripleLoss):
    """max(0, V(H) + γ − V(H̃)): the paper's margin ranking."""

    name = "margin"

    def __call__(self, scores: Tensor, corrupted: Tensor) -> Tensor:
        return F.relu(scores + self.config.margin - corrupted).mean()

    def on_pairs(self, true: Tensor, false: Tensor, of: Tensor) -> Tensor:
        return F.relu(self.config.margin + false - true[of])


class Laplacian(TripleLoss):
    """V alone: the Laplacian form, without negatives."""

    name = "laplacian"
    against = "nothing"

    def __call__(self, scores: Tensor, corrupted: Tensor) -> Tensor:
        return scores.mean()


LOSSES: dict[str, type[CandidateLoss] | type[TripleLoss]] = {
    loss.name: loss for loss in (Softmax, Logistic, Margin, Laplacian)
}

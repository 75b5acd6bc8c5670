"""That an unknown exists: how the probabilities of its candidates become one.

With softness s, p = (1 − Π(1 − p_y^(1/s)))^s over the candidates y. At s = 1 this is the noisy or,
by which a union is one of its patterns: an unknown is the union over all that it could be. As s
goes to 0 only the best candidate counts, p = max p_y, which s = 0 stands for. In between, many
likely candidates are better than one, and many unlikely ones do not add up to a likely one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.solvers.rows import CACHED_NUMBERS

# −log(1 − q) is q, to nine digits, where log q is below this.
SMALL = -20.0


@dataclass(frozen=True)
class Exists:
    """Candidates are added up by `sum` and `add`, in parts if need be; `close` makes them log p.

    >>> half = torch.tensor([[[0.5], [0.5]]]).log()
    >>> [Exists(s)(half).exp().item() for s in (0.0, 1.0)]
    [0.5, 0.75]
    >>> bool(Exists(0.5)(half[:, :1].expand(1, 1000, 1)) < 0)  # not even a thousand make it certain
    True
    """

    softness: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.softness <= 1:
            raise InputError(
                f"Softness is between 0 (the best candidate alone counts) and 1 (as a union), not "
                f"{self.softness}."
            )

    def __call__(self, values: Tensor) -> Tensor:
        """Log p (batch, entities) of candidates (batch, candidates, entities)."""
        return self.close(self.sum(values.clone()))

    def sum(self, values: Tensor) -> Tensor:
        """log Σ −log(1 − p^(1/s)) over the candidates (batch, candidates, entities), or log max.

        ``values`` are changed.
        """
        if not self.softness:
            return values.amax(1)
        values.div_(self.softness)
        best = values.amax(1)
        queries, near = (best > SMALL).nonzero(as_tuple=True)  # few, so the others go fast
        exact = torch.log(-torch.log1p(-values[queries, :, near].exp())).logsumexp(1)
        best.clamp_(min=torch.finfo(best.dtype).min)  # nothing less nothing would be no number
        total = values.sub_(best.unsqueeze(1)).exp_().sum(1).log_().add_(best)
        total[queries, near] = exact
        return total

    def add(self, one: Tensor, other: Tensor) -> Tensor:
        """The sums of two parts of the candidates, as one."""
        return torch.logaddexp(one, other) if self.softness else torch.maximum(one, other)

    def close(self, total: Tensor) -> Tensor:
        """Log p from the sum over all candidates."""
        if not self.softness:
            return total
        p = torch.where(total < SMALL, total, torch.log(-torch.expm1(-total.exp())))
        # Many that are likely come near to certainty; only what is certain reaches it.
        likely = p.clamp(max=-torch.finfo(p.dtype).eps)
        return self.softness * torch.where(total == torch.inf, p, likely)


BEST = Exists()


def gather(
    out: Tensor, logits: Tensor, queries: Tensor, index: Tensor, weights: Tensor, exists: Exists
) -> None:
    """Add candidates to the sums of their queries, ``out`` (queries, entities).

    A candidate has a query, the ``index`` of its row of ``logits``, and a weight to add to that.
    """
    order = queries.argsort(stable=True)
    distinct, counts = queries[order].unique_consecutive(return_counts=True)
    together = max(1, CACHED_NUMBERS // logits.shape[1])
    for query, mine in zip(distinct.tolist(), order.split(counts.tolist()), strict=True):
        for group in mine.split(together):
            rows = logits[index[group]].add_(weights[group].unsqueeze(-1))
            out[query] = exists.add(out[query], exists.sum(rows.unsqueeze(0))[0])


def either(a: Tensor, b: Tensor) -> Tensor:
    """log(1 − (1 − p)(1 − q)) from log p and log q, exact also where both are tiny.

    >>> either(torch.tensor(0.5).log(), torch.tensor(0.5).log()).exp()
    tensor(0.7500)
    """
    return torch.logaddexp(a, b + torch.log1p(-a.exp()))

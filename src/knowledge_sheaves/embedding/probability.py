"""From energies to probabilities, at a temperature that was fitted on facts held out."""

from __future__ import annotations

import torch
from torch import Tensor

from knowledge_sheaves.errors import InputError

# Only a remembered fact is certain.
EPSILON = 1e-4


def probabilities(energies: Tensor, n: Tensor | int, tau: float) -> Tensor:
    """Return the probability of each answer, from the energies of all (last dimension).

    p = min(1 − ε, n · softmax(−V/τ)): the softmax shares one answer among all entities, and ``n``,
    the number of answers known in training (one for each row, at least 1), says how many there are
    to share.

    >>> probabilities(torch.tensor([0.0, 0.0, torch.inf]), n=1, tau=1.0).tolist()
    [0.5, 0.5, 0.0]
    """
    if not tau > 0:
        raise InputError(f"A temperature is a positive number, not {tau!r}.")
    counts = torch.as_tensor(n, device=energies.device).clamp(min=1).unsqueeze(-1)
    return (counts * torch.softmax(-energies / tau, dim=-1)).clamp(max=1 - EPSILON)

"""Hostile inputs of every kind: each is read, or refused in one sentence, within its limits.

A kind is a module in `kinds/` with a function ``attack(seed, folder)``: it writes an input into
the folder and returns what is to be tried with it. Nothing else needs to know of a new one.

`make fuzz N=10000 SEED=1` tries so many of each kind; `make test` a few hundred. One of them again,
in this process and with its files kept: ``python tests/fuzz/once.py KIND SEED``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

if sys.platform != "linux":
    pytest.skip("the limits of a child are those of Linux", allow_module_level=True)

from fuzz.arena import Arena
from fuzz.every import KINDS

COUNT = int(os.environ.get("FUZZ", "200"))
FIRST = int(os.environ.get("FUZZ_SEED", "0"))
MOST_SHOWN = 5


@pytest.fixture(scope="module")
def arena() -> Iterator[Arena]:
    with Arena() as made:
        yield made


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_escapes(arena: Arena, kind: str) -> None:
    faults, ends = [], dict.fromkeys(("read", "refused"), 0)
    for seed in range(FIRST, FIRST + COUNT):
        outcome = arena.run(f"fuzz.kinds.{kind}:attack", seed)
        if outcome.how == "slow":  # a machine with other work is slow now and then, not twice
            outcome = arena.run(f"fuzz.kinds.{kind}:attack", seed)
        if outcome.is_fault:
            faults.append(f"python tests/fuzz/once.py {kind} {seed}: {outcome}")
            if len(faults) >= MOST_SHOWN:
                break
        else:
            ends[outcome.how] += 1
    print(f"{kind}: {ends['read']} read, {ends['refused']} refused, {len(faults)} faults")
    assert not faults, "\n\n".join(faults)
    # A generator whose inputs are all refused at the door, or none of which is, tests little.
    assert min(ends.values()) >= COUNT // 50, ends

"""A kill −9 at any moment costs nothing but the time since the last checkpoint."""

from __future__ import annotations

import pytest

from crash.kills import CASES, crash


@pytest.mark.parametrize(("kills", "seed"), [(2, 0), pytest.param(50, 1, marks=pytest.mark.slow)])
def test_what_was_killed_loads_goes_on_and_ends_as_if_undisturbed(kills: int, seed: int) -> None:
    counts = crash(kills, seed)
    assert counts["killed"] >= kills
    assert kills < 50 or all(counts[name] for name in CASES), counts

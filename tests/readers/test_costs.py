"""A small file cannot cost much: each bomb is one sentence, within a second and 200 MB."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fuzz.arena import Arena
from fuzz.bombs import BOMBS


@pytest.fixture(scope="module")
def arena() -> Iterator[Arena]:
    with Arena() as made:
        yield made


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused(arena: Arena, bomb: str) -> None:
    outcome = arena.run("fuzz.bombs:attack", bomb)
    print(f"{bomb}: {outcome.seconds:.2f} s, {outcome.megabytes:.0f} MB")
    assert outcome.how == "refused", str(outcome)

"""The arena itself: it must tell every way in which an input can go wrong."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("the limits of a child are those of Linux", allow_module_level=True)

from fuzz import arena as place
from fuzz.arena import Arena
from knowledge_sheaves.errors import InputError
from pace import slower


def attack(how: str, folder: Path) -> Callable[[], object]:
    (folder / "x").write_text("fine")
    return {
        "read": lambda: (folder / "x").read_text(),
        "refused": lambda: _raise(InputError("This is not a file.")),
        "unclear": lambda: _raise(InputError("This is not")),
        "escaped": lambda: _raise(KeyError("x")),
        "slow": lambda: _busy(2 * slower()),
        "large": lambda: b"x" * (400 << 20),
        "strayed": lambda: Path("/etc/passwd").read_text(),
        "died": lambda: ctypes.string_at(0),
        "hung": lambda: _busy(60),
        "exit": lambda: os._exit(3),
        "stop": lambda: sys.exit(3),
        "memory": lambda: bytearray(1 << 40),
    }[how]


def _raise(error: Exception) -> None:
    raise error


def _busy(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@pytest.fixture(scope="module")
def arena() -> Iterator[Arena]:
    with Arena() as made:
        yield made


@pytest.mark.parametrize(
    "how", ["read", "refused", "unclear", "escaped", "slow", "large", "strayed", "died", "hung"]
)
def test_every_end_is_told(arena: Arena, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "BUSY", 6 * slower() if how == "slow" else 0.5)
    outcome = arena.run("fuzz.test_arena:attack", how)
    assert outcome.how == how, outcome
    assert outcome.is_fault == (how not in ("read", "refused"))
    assert arena.run("fuzz.test_arena:attack", "read").how == "read"  # the next is not to blame


@pytest.mark.parametrize(
    ("how", "end"), [("exit", "died"), ("stop", "escaped"), ("memory", "escaped")]
)
def test_other_ends(arena: Arena, how: str, end: str) -> None:
    assert arena.run("fuzz.test_arena:attack", how).how == end

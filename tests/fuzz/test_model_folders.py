"""Whatever is done to a model's folder or a checkpoint: one sentence, or the model as it was."""

from __future__ import annotations

import os
import resource
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from fuzz.model_folders import damaged_checkpoint, damaged_model
from knowledge_sheaves.errors import SheafError

N = int(os.environ.get("N", "150"))
SECONDS = 60
KINDS = {"models": damaged_model, "checkpoints": damaged_checkpoint}


def hung(_: int, __: FrameType | None) -> None:
    raise TimeoutError(f"no answer within {SECONDS} s")


@pytest.fixture
def little_memory() -> Iterator[None]:
    """A wall before the machine's own: no damage may ask for 4 GiB more than is used."""
    usual = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 4 * 2**30, usual[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, usual)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_refused_or_harmless(kind: str, tmp_path: Path) -> None:
    signal.signal(signal.SIGALRM, hung)
    ends: Counter[str] = Counter()
    faults = []
    for seed in range(N):
        place = tmp_path / str(seed)
        place.mkdir()
        signal.alarm(SECONDS)
        try:
            KINDS[kind](seed, place)()
            ends["loaded"] += 1
        except SheafError:
            ends["refused"] += 1
        except BaseException as error:
            faults.append(f"seed {seed}: {type(error).__name__}: {error}")
        finally:
            signal.alarm(0)
    print(kind, dict(ends))
    assert not faults, "\n".join(faults)
    assert min(ends["loaded"], ends["refused"]) > 0, "the damage must be of both kinds"

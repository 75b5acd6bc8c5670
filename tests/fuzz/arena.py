"""Where hostile inputs run: a child process with limits, in which every input answers for itself.

`Arena.run` calls a function of a module in the child with one argument and an empty folder. The
function prepares an input there and returns what is to be tried with it. What comes back says how
that ended: read, refused by an error of ours, or one of the ways that count as a fault. A child
that dies or hangs is replaced, and the input that it had at the time is to blame.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src"

PATIENCE = 120.0
"""Seconds by the clock after which a child is taken to hang, on a machine with other work too."""
BUSY = 10.0
"""Seconds of processor time after which it is taken to hang at once."""


@dataclass(frozen=True)
class Limits:
    """What one input may cost: seconds of processor time, and memory beyond what was used before.

    ``address_space`` is a wall that the operating system holds, so that no bomb takes the machine.
    """

    seconds: float = 1.0
    megabytes: float = 200.0
    address_space: float = 3000.0


@dataclass(frozen=True)
class Outcome:
    """How an input ended, and what it cost."""

    how: str
    detail: str = ""
    seconds: float = 0.0
    megabytes: float = 0.0

    @property
    def is_fault(self) -> bool:
        return self.how not in ("read", "refused")

    def __str__(self) -> str:
        cost = f"{self.seconds:.2f} s, {self.megabytes:.0f} MB"
        return f"{self.how} ({cost})\n{self.detail}".rstrip()


class Arena:
    """One child at a time, started when it is needed and reused as long as it lives."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._imported: set[str] = set()
        self._child: subprocess.Popen[bytes] | None = None
        self._place = tempfile.TemporaryDirectory(prefix="arena-")
        self._errors = Path(self._place.name) / "errors"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()
        self._place.cleanup()

    def run(self, function: str, argument: object) -> Outcome:
        """Call ``module:name`` in the child, and what it returns."""
        child = self._ready()
        if (module := function.partition(":")[0]) not in self._imported:
            self._imported.add(module)  # no input pays for imports
            self._ask(["import", module], busy=PATIENCE)
        answer = self._ask([function, argument])
        if answer is None:
            self._end()
            return Outcome("hung", f"no answer within {BUSY:.0f} s of processor time", BUSY)
        if not answer:
            code = child.wait()
            self._end()
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            said = self._errors.read_text(errors="replace")[-2000:]
            return Outcome("died", f"{how}\n{said}")
        return Outcome(**json.loads(answer))

    def _ask(self, question: list[object], busy: float | None = None) -> bytes | None:
        """Return the child's answer, nothing where it has ended, None where it hangs."""
        child = self._ready()
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(question).encode() + b"\n")
        child.stdin.flush()
        before, deadline = _processor_time(child.pid), time.monotonic() + PATIENCE
        while not select.select([child.stdout], [], [], 1.0)[0]:
            if _processor_time(child.pid) - before > (busy or BUSY) or time.monotonic() > deadline:
                return None
        return child.stdout.readline()

    def _ready(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            with self._errors.open("wb") as errors:
                self._child = subprocess.Popen(
                    [sys.executable, str(HERE / "child.py"), self._place.name, self._told()],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env={**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{HERE.parent}"},
                )
            self._imported = set()
            assert self._child.stdout is not None
            if not self._child.stdout.readline():  # the first word: everything is imported
                raise RuntimeError(f"No child: {self._errors.read_text(errors='replace')}")
        return self._child

    def _told(self) -> str:
        return json.dumps(asdict(self.limits))

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.communicate()


def _processor_time(process: int) -> float:
    """Return the seconds of processor time that a process has used, as Linux tells it."""
    try:
        said = Path(f"/proc/{process}/stat").read_text()
    except OSError:  # it has ended
        return 0.0
    user, system = said.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

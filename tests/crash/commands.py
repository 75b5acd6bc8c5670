"""Commands in processes of their own that start at once: forks of one that has torch loaded.

`python commands.py` is that process. It is told what to run line by line, answers with the number
of the process that runs it and, when it is asked to wait, with how it ended.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1


@dataclass(frozen=True)
class Done:
    """How a command ended: an exit code, or minus the number of the signal that ended it."""

    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The one sentence of a command that failed as it should."""
        assert self.code in (1, 2), self
        (said,) = [line for line in self.err.splitlines() if line.startswith("sheaves: ")]
        assert "this is a bug" not in said, self
        return said


class Running:
    """A command that was started."""

    def __init__(self, commands: Commands, pid: int, files: tuple[Path, Path]) -> None:
        self.commands, self.pid, self.files = commands, pid, files

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> Done:
        self.commands.say("wait")
        code = int(self.commands.answer())
        return Done(code, *(file.read_text(errors="replace") for file in self.files))


class Commands:
    """Runs one command at a time in a folder; what it prints goes to files in another folder."""

    def __init__(self, prints: Path) -> None:
        self.files = (prints / "out", prints / "err")
        self.server = subprocess.Popen(
            [sys.executable, "-B", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )

    def __enter__(self) -> Commands:
        assert self.answer() == "ready"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        assert self.server.stdin is not None
        self.server.stdin.close()
        self.server.wait()

    def say(self, line: str) -> None:
        assert self.server.stdin is not None
        print(line, file=self.server.stdin, flush=True)

    def answer(self) -> str:
        assert self.server.stdout is not None
        return self.server.stdout.readline().strip()

    def start(
        self,
        folder: Path,
        arguments: Sequence[object],
        most: int | None = None,
        powerless: bool = False,
    ) -> Running:
        """Start `sheaves ARGUMENTS`, with files of ``most`` bytes, or without root's powers."""
        task = {
            "folder": str(folder),
            "arguments": list(map(str, arguments)),
            "files": list(map(str, self.files)),
            "most": most,
            "powerless": powerless,
        }
        self.say(json.dumps(task))
        return Running(self, int(self.answer()), self.files)

    def run(self, folder: Path, *arguments: object, **limits: Any) -> Done:
        """Run a command to its end."""
        return self.start(folder, arguments, **limits).wait()


def serve() -> None:
    import optuna  # noqa: F401
    import polars  # noqa: F401

    import knowledge_sheaves.evaluation.benchmark
    import knowledge_sheaves.training  # noqa: F401
    from knowledge_sheaves.cli.app import app  # noqa: F401

    print("ready", flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            obey(json.loads(line))
        print(pid, flush=True)
        sys.stdin.readline()  # until then the number belongs to this process, even if it has ended
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def obey(task: dict[str, Any]) -> None:
    from knowledge_sheaves.cli.app import main

    for stream, name in zip((1, 2), task["files"], strict=True):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), stream)
    os.chdir(task["folder"])
    if task["most"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (task["most"],) * 2)
    if task["powerless"] and os.geteuid() == 0:
        drop_power()
    code = 1
    try:
        main(task["arguments"])
    except SystemExit as exit:
        code = exit.code if isinstance(exit.code, int) else int(exit.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def drop_power() -> None:
    """Let root meet closed doors too: without the capability to override permissions."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    for place in range(3):
        sets[place] &= ~(1 << CAP_DAC_OVERRIDE)
    assert libc.capset(header, sets) == 0


if __name__ == "__main__":
    serve()

"""The child of `arena`: takes a function and an argument from a line, and tells how it ended."""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import resource
import shutil
import sys
import sysconfig
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzz.arena import Limits, Outcome
from knowledge_sheaves.plain import printable
from pace import slower

# What nobody's data may cause, by the names of Python's audit events.
FORBIDDEN = (
    *("socket.connect", "socket.getaddrinfo", "socket.bind", "urllib.Request", "webbrowser.open"),
    *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty"),
    *("ctypes.dlopen", "os.putenv"),
)
MEGABYTE = 1 << 20


class Watch:
    """Notes what an input makes the program do besides reading it."""

    def __init__(self, place: Path) -> None:
        code = [*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix]
        code += [str(Path(__file__).resolve().parents[2])]
        known = [*code, str(place), "/proc", "/sys", "/dev", "/usr/share/zoneinfo"]
        self.allowed = tuple(os.path.realpath(path) for path in known)
        self.active, self.seen = False, list[str]()
        sys.addaudithook(self)

    def __call__(self, event: str, details: tuple[Any, ...]) -> None:
        if not self.active:
            return
        if event in FORBIDDEN:
            self.seen.append(f"{event} {details!r}"[:300])
        elif event == "open" and isinstance(details[0], str | bytes):
            path = os.path.realpath(os.fsdecode(details[0]))
            if not path.startswith(self.allowed):
                self.seen.append(f"open {path}")


def main() -> None:
    place, limits = Path(sys.argv[1]), Limits(**json.loads(sys.argv[2]))
    # What the program prints is no answer: only this process writes to the pipe.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    faulthandler.enable()
    tempfile.tempdir = str(place)
    _preload()
    watch = Watch(place)
    size = int(limits.address_space * MEGABYTE) + _size("VmSize")
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        name, argument = json.loads(line)
        if name == "import":
            importlib.import_module(argument)
            print("imported", file=answers, flush=True)
            continue
        module, _, function = name.partition(":")
        call = getattr(importlib.import_module(module), function)
        outcome = _run(call, argument, place / "case", limits, watch)
        fields = {name: getattr(outcome, name) for name in ("how", "detail", "seconds")}
        print(json.dumps({**fields, "megabytes": outcome.megabytes}), file=answers, flush=True)


def _preload() -> None:
    """Import what readers import when they run, so that no input pays for it."""
    for name in (
        *("polars", "yaml", "rdflib.plugins.parsers.jsonld", "rdflib.plugins.parsers.notation3"),
        *("knowledge_sheaves.graph.readers", "knowledge_sheaves.graph.readers.rdfxml"),
    ):
        importlib.import_module(name)


def _run(
    call: Callable[[Any, Path], Callable[[], object]],
    argument: object,
    folder: Path,
    limits: Limits,
    watch: Watch,
) -> Outcome:
    from knowledge_sheaves.errors import SheafError

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    watch.seen.clear()
    attack = call(argument, folder)
    before, started = _forget_peak(), time.process_time()
    watch.active = True
    try:
        attack()
        how, detail = "read", ""
    except SheafError as error:
        how, detail = "refused", str(error)
    except BaseException:  # whatever it is, it was not ours
        how, detail = "escaped", traceback.format_exc()[-4000:]
    watch.active = False
    seconds, growth = time.process_time() - started, (_size("VmHWM") - before) / MEGABYTE
    if how == "refused" and not is_sentence(detail):
        how = "unclear"
    if watch.seen:
        how, detail = "strayed", "\n".join(watch.seen)
    elif how in ("read", "refused") and _is_slow(seconds, limits):
        how = "slow"
    elif how in ("read", "refused") and growth > limits.megabytes:
        how = "large"
    return Outcome(how, detail, seconds, max(growth, 0.0))


def _is_slow(seconds: float, limits: Limits) -> bool:
    """Whether it is the input that takes long, and not the machine just now."""
    return seconds > limits.seconds and seconds > limits.seconds * slower()


def is_sentence(text: str) -> bool:
    """Tell whether a person can read it: one line, nothing that a terminal obeys, not endless."""
    return printable(text) == text and text.endswith((".", "?", ".)")) and len(text) < 4000


def _size(name: str) -> int:
    """Return a size of this process in bytes, as Linux tells it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _forget_peak() -> int:
    """Let the peak of memory start from what is used now; return that."""
    Path("/proc/self/clear_refs").write_text("5")
    return _size("VmRSS")


if __name__ == "__main__":
    main()

"""How much memory this process takes, on every system."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import psutil


def peak_memory() -> int:
    """The most bytes that this process has held so far.

    Windows and Linux keep count. Elsewhere it is what the process holds now, which may be less.

    >>> peak_memory() > 2**20
    True
    """
    now = psutil.Process().memory_info()
    with suppress(OSError, AttributeError):
        if psutil.WINDOWS:
            return int(now.peak_wset)
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        found = re.search(r"^VmHWM:\s*(\d+) kB$", status, re.MULTILINE)
        if found:
            return int(found[1]) * 1024
    return int(now.rss)

"""How much memory this process takes, on every system, and how it keeps what it will want again."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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


M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
"""What glibc calls the most that may stay unused, and how often the system is asked for blocks."""
USUAL_TRIM, USUAL_BLOCKS = 128 * 1024, 65_536


@contextmanager
def keeping_freed() -> Iterator[None]:
    """Let this process keep what it frees, until the end of the block, where glibc runs.

    Otherwise every tensor above 32 MB is asked of the system, page by page, and given back: steps
    whose tensors are that large spend more than half of their time so.

    >>> with keeping_freed():
    ...     "steps whose tensors come and go"
    'steps whose tensors come and go'
    """
    tell = _mallopt()
    if tell is None:
        yield
        return
    tell(M_MMAP_MAX, 0)
    tell(M_TRIM_THRESHOLD, 2**31 - 1)
    try:
        yield
    finally:
        tell(M_MMAP_MAX, USUAL_BLOCKS)
        tell(M_TRIM_THRESHOLD, USUAL_TRIM)
        ctypes.CDLL(None).malloc_trim(0)


def _mallopt() -> Callable[[int, int], int] | None:
    if not psutil.LINUX:
        return None
    library = ctypes.CDLL(None)
    has_both = hasattr(library, "mallopt") and hasattr(library, "malloc_trim")
    return library.mallopt if has_both else None

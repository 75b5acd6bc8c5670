"""How tests run the program `device_cases`, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent


def problems(cases: str, at_least: int) -> str:
    """What went wrong on the other device, in any of the cases."""
    paths = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(TESTS / "device_cases.py"), cases],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) > at_least
    return "\n".join(f"{name}: {problem}" for name, problem in found.items() if problem)

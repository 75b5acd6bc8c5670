"""The kinds of hostile input: the modules of the folder `kinds`."""

from __future__ import annotations

from pathlib import Path

KINDS = sorted(path.stem for path in (Path(__file__).parent / "kinds").glob("[a-z]*.py"))

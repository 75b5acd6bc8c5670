"""The command line: one module per command, and one place where errors become sentences."""

from __future__ import annotations

import os

from knowledge_sheaves.cli.app import main

# Threads of torch that wait for each other keep their cores busy, thousands of times as long as
# this. Where something else wants a core too, they wait for one that is not running, and training
# is many times slower. It is read when torch is first imported, which no command has done yet.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

__all__ = ["main"]

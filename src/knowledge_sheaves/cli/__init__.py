"""The command line: one module per command, and one place where errors become sentences."""

from __future__ import annotations

from knowledge_sheaves.cli.app import main

__all__ = ["main"]

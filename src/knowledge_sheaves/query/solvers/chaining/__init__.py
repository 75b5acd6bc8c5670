"""Chaining: every unknown is a real entity."""

from __future__ import annotations

from knowledge_sheaves.query.solvers.chaining.solver import Chaining

__all__ = ["Chaining"]

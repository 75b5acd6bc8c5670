"""Harmonic extension: unknowns may be anywhere, and are where the energy is least."""

from __future__ import annotations

from knowledge_sheaves.query.solvers.harmonic.solver import Harmonic

__all__ = ["Harmonic"]

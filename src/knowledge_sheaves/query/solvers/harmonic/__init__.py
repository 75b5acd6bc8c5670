"""Harmonic extension: unknowns may be anywhere, and are where the energy is least."""

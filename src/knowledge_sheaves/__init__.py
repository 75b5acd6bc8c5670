"""Knowledge graphs as knowledge sheaves: embed them, then ask for what they leave out."""

from __future__ import annotations

__version__ = "0.1.0"

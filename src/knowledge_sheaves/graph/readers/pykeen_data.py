"""The data sets that PyKEEN knows by name."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

# The files of these come with PyKEEN and need neither the network nor torch.
BUNDLED = ("kinships", "nations", "umls")


def bundled_folder(name: str) -> Path | None:
    """Return the folder of a data set whose files come with PyKEEN."""
    spec = find_spec("pykeen")
    if spec is None or not spec.submodule_search_locations or name.lower() not in BUNDLED:
        return None
    return Path(spec.submodule_search_locations[0]) / "datasets" / name.lower()

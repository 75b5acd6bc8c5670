"""A folder with a schema file, as the examples of the help texts expect it."""

from __future__ import annotations

from pathlib import Path

import pytest

FILMS = """\
types:
  - {name: Person, dim: 3}
  - {name: Film, dim: 2}
relations:
  - {name: friends, head: Person, tail: Person, dim: 1, symmetric: true}
  - {name: favorite movie, head: Person, tail: Film, functional: true}
"""


@pytest.fixture
def schema_file(tmp_path: Path) -> Path:
    file = tmp_path / "films.yaml"
    file.write_text(FILMS, encoding="utf-8")
    return file

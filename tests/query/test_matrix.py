"""Every solver with every feature of a query, on every kind of model: right, or refused."""

from __future__ import annotations

import pytest

from knowledge_sheaves.query.solvers import SOLVERS
from matrix_cases import FEATURES, MODELS, answers_of, check_cell

WAYS: dict[str, tuple[str, dict[str, object]]] = {name: (name, {}) for name in SOLVERS}
WAYS |= {
    "chaining, facts ignored": ("chaining", {"facts": "ignored"}),
    "chaining, focused": ("chaining", {"focus": 2.0}),
    "chaining, least energy": ("chaining", {"objective": "energy"}),
    "harmonic, free": ("harmonic", {"lift": "free"}),
}

CELLS = pytest.mark.parametrize("feature", FEATURES)
ROWS = pytest.mark.parametrize("way", WAYS)
KINDS = pytest.mark.parametrize("kind", MODELS)


@KINDS
@ROWS
@CELLS
def test_right_or_refused(way: str, kind: str, feature: str) -> None:
    check_cell(*WAYS[way], kind, feature)


REFUSED = {
    # Solvers that take few things say so of these, and of no more than these.
    "chaining": set(),
    "harmonic": {
        "an unknown different from an entity",
        "different from an unknown",
        "negation at an unknown",
        "negation between both",
        "negation of something else",
        "two targets that differ",
        "two targets with negation",
        "two targets with VALUES",
        "two targets of a union",
    },
}


@pytest.mark.parametrize("way", REFUSED)
def test_no_more_is_refused_than_must_be(way: str) -> None:
    refused = {
        feature for feature in FEATURES if answers_of(way, {}, "translation", feature)[0] is None
    }
    assert refused == REFUSED[way]

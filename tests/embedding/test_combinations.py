"""A configuration works everywhere, or is refused when it is made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from config_cases import (
    ENTITIES,
    accepted,
    all_energies,
    all_maps,
    all_triples,
    check_scores,
    made,
    small_graph,
)
from knowledge_sheaves.embedding import SheafConfig, SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError

GRAPH = small_graph()


@pytest.mark.parametrize(
    ("options", "every"),
    [
        pytest.param(all_maps, 1, marks=pytest.mark.slow),
        pytest.param(all_energies, 1, marks=pytest.mark.slow),
        (all_energies, 5),  # with this step every value of every option occurs
    ],
)
def test_every_accepted_configuration_scores_alike_everywhere(options: Any, every: int) -> None:
    configs = accepted(options())
    assert len(configs) > 500
    for config in configs[::every]:
        model = made(config, GRAPH)
        try:
            check_scores(model)
        except Exception as error:
            raise AssertionError(f"{config}: {error}") from error


@pytest.mark.slow
def test_every_accepted_configuration_is_saved_and_loaded(tmp_path: Path) -> None:
    """The choices as JSON for all; equal choices make equal parameters, so folders for some."""
    some: dict[tuple[object, ...], SheafConfig] = {}
    for config in [*accepted(all_maps()), *accepted(all_energies())]:
        assert SheafConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
        kind = (config.energy.name, config.biases, config.translation, config.sections)
        some.setdefault((*kind, config.reciprocal, config.clamp), config)
    triples = all_triples()
    for config in some.values():
        model = made(config, GRAPH)
        model.save(tmp_path / "model")
        loaded = SheafEmbedding.load(tmp_path / "model")
        with torch.no_grad():
            assert torch.equal(loaded.scores(triples), model.scores(triples)), config


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"model": "complex", "power": 1}, "square of the Euclidean norm"),
        ({"model": "complex", "norm": 1}, "square of the Euclidean norm"),
        ({"model": "complex", "clamp": 1.0}, "square of the Euclidean norm"),
        ({"model": "complex", "space": "torus"}, "square of the Euclidean norm"),
        ({"model": "complex", "biases": "by-end"}, "use biases: true"),
        ({"model": "complex", "translation": True}, "no translation"),
        ({"model": "toruse", "head": "free"}, "no maps respect but the identity"),
        ({"model": "toruse", "clamp": 1.0}, "no length to be cut"),
        ({"model": "toruse", "space": "tours"}, "did you mean 'torus'"),
        ({"model": "rotate", "block": 3}, "size 2 × 2"),
        ({"model": "rotate", "relation_dim": 60}, "leave out relation_dim"),
        ({"model": "se", "dim": 8, "block": 2, "relation_dim": 6}, "multiple of 4"),
        ({"model": "transh", "relation_dim": 16}, "square"),
        ({"model": "transr", "relation_dim": 16, "translation": "projected"}, "must be square"),
    ],
)
def test_what_some_path_cannot_do_is_refused_when_it_is_made(
    options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        SheafConfig.from_dict(options)


def test_a_lifted_cochain_has_one_height_for_all_sections() -> None:
    model = made(model_config("complex", dim=4, sections=3), GRAPH)
    cochain = model.cochain()
    assert cochain.shape == (ENTITIES * 5, 3)
    lengths = cochain.unflatten(0, (ENTITIES, 5)).square().sum((1, 2))
    torch.testing.assert_close(lengths, model.radius.square().expand(ENTITIES))

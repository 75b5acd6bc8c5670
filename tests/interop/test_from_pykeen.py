"""Every PyKEEN model that is a sheaf against the scores that PyKEEN itself gives."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pykeen import models
from pykeen.datasets import Nations
from pykeen.models import Model
from pykeen.triples import CoreTriplesFactory

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.interop import from_pykeen

# Names, options, and whether the norm or a clamp is one that our queries do not use.
CASES: list[tuple[str, dict[str, Any], bool]] = [
    ("TransE", {}, True),
    ("TransE", {"scoring_fct_norm": 2}, False),
    ("TransE", {"scoring_fct_norm": 2, "power_norm": True}, False),
    ("TransE", {"scoring_fct_norm": 3, "power_norm": True}, True),
    ("TransH", {}, False),
    ("SE", {}, True),
    ("SE", {"scoring_fct_norm": 2}, False),
    ("TransR", {"relation_dim": 5}, True),
    ("TransR", {"relation_dim": 5, "scoring_fct_norm": 2, "power_norm": True}, True),
    ("RotatE", {}, False),
    ("MuRE", {}, False),
    ("MuRE", {"p": 1}, True),
    ("PairRE", {}, True),
    ("UM", {}, True),
    ("TorusE", {}, True),
    ("TorusE", {"p": 1}, True),
    ("DistMult", {}, False),
    ("ComplEx", {}, False),
    ("HolE", {}, False),
    ("HolE", {"embedding_dim": 7}, False),
    ("HolE", {"embedding_dim": 1}, False),
    ("QuatE", {}, False),
    ("RESCAL", {}, False),
]
ALL = sorted({name for name, _, _ in CASES})


def triples(inverse: bool = False) -> CoreTriplesFactory:
    return Nations(create_inverse_triples=inverse).training


def some_model(name: str, inverse: bool = False, **options: Any) -> Model:
    """A model as after an update: noise on every parameter, then PyKEEN's own constraints."""
    chosen = {"embedding_dim": 8, "random_seed": 0} | options
    model = getattr(models, name)(triples_factory=triples(inverse), **chosen)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))
    model.post_parameter_update()
    return model.eval()


def converted(model: Model, factory: CoreTriplesFactory | None = None) -> SheafEmbedding:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return from_pykeen(model, factory)


def their_score(ours: SheafEmbedding, rows: torch.Tensor) -> torch.Tensor:
    """PyKEEN's score, from ours."""
    with torch.no_grad():
        if not ours.config.lifted:
            return -ours.scores(rows)
        image = ours.ends(rows)[0].square().sum((1, 2, 3))
        return (image + ours.radius.square() - ours.scores(rows)) / 2


def all_rows(model: Model) -> torch.Tensor:
    n, r = model.num_entities, model.num_real_relations
    return torch.cartesian_prod(torch.arange(n), torch.arange(r), torch.arange(n))


def assert_same_order(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """The order of ours sorts theirs, but for what rounding exchanges."""
    sorted_theirs = theirs.gather(1, ours.argsort(1))
    assert (sorted_theirs.diff(dim=1) <= 1e-5 * (1 + theirs.abs().max())).all()


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize(("name", "options", "noted"), CASES)
def test_scores_and_orders_are_those_of_pykeen(
    name: str, options: dict[str, Any], noted: bool, inverse: bool
) -> None:
    model = some_model(name, inverse, **options)
    ours = converted(model)
    assert bool(ours.config.notes) == noted
    rows = all_rows(model)
    with torch.no_grad():
        theirs = model.predict_hrt(rows).squeeze(1)
    assert theirs.std() > 1e-3
    size = max(1.0, float(theirs.abs().max()))
    assert (their_score(ours, rows) - theirs).abs().max() <= 1e-5 * size
    entities, relations = (torch.arange(n) for n in (model.num_entities, ours.num_relations))
    known, edges = torch.cartesian_prod(entities, relations).T
    with torch.no_grad():
        tails = model.predict_t(torch.stack([known, edges], 1))
        heads = model.predict_h(torch.stack([edges, known], 1))
    assert_same_order(ours.score_tails(known, edges), tails)
    assert_same_order(ours.score_heads(edges, known), heads)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("NTN", "ends in a tanh"),
        ("ConvE", "convolutional network"),
        ("TuckER", "batch normalisation"),
        ("TransD", "depends on the entity"),
        ("CP", "CP is not among the models known to be sheaves"),
    ],
)
def test_models_that_are_no_sheaves_are_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        converted(some_model(name))
    assert str(caught.value).count(".") == 1


def test_scores_of_the_models_own_are_refused() -> None:
    class Rounded(models.TransE):
        def score_hrt(self, *args: Any, **kwargs: Any) -> torch.Tensor:
            return super().score_hrt(*args, **kwargs).round()

    with pytest.raises(InputError, match="Rounded is no sheaf: it has a way of scoring of its own"):
        converted(Rounded(triples_factory=triples(), embedding_dim=4))


def test_a_result_of_the_pipeline_is_not_taken_for_a_folder() -> None:
    with pytest.raises(InputError, match=r"give result\.model and result\.training"):
        from_pykeen(object())  # type: ignore[arg-type]


def test_rotate_without_rotations_is_refused() -> None:
    with pytest.raises(InputError, match="no rotations"):
        converted(some_model("RotatE", relation_constrainer=None))


def test_names_and_facts_come_from_the_triples() -> None:
    factory = triples()
    ours = converted(some_model("RotatE"), factory)
    assert ours.graph.num_triples == factory.num_triples
    rows = factory.label_triples(factory.mapped_triples)
    assert set(ours.graph.decode(ours.graph.triples)) == set(map(tuple, rows.tolist()))
    nameless = converted(some_model("RotatE"))
    assert (nameless.graph.entities[3], nameless.graph.num_triples) == ("3", 0)


def test_triples_of_another_graph_are_refused() -> None:
    other = CoreTriplesFactory(torch.tensor([[0, 0, 1]]), num_entities=3, num_relations=1)
    with pytest.raises(InputError, match="have 3 entities and 1 relations, but the model has 14"):
        converted(some_model("RotatE"), other)


def test_another_energy_in_queries_is_said() -> None:
    with pytest.warns(UserWarning, match="harmonic extension minimises the squared Euclidean"):
        from_pykeen(some_model("TransE"))
    with pytest.warns(UserWarning, match="clamp projected entities to length 1"):
        from_pykeen(some_model("TransR", scoring_fct_norm=2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_pykeen(some_model("RotatE"))


def test_a_model_stays_in_the_mode_that_it_was_in() -> None:
    model = some_model("TransE").train()
    converted(model)
    assert model.training


@pytest.mark.parametrize("name", ALL)
def test_what_came_over_can_be_saved_as_ours(name: str, tmp_path: Path) -> None:
    ours = converted(some_model(name), triples())
    ours.save(tmp_path / "model")
    again = SheafEmbedding.load(tmp_path / "model")
    assert again.config == ours.config
    rows = torch.from_numpy(ours.graph.triples.astype(np.int64))
    with torch.no_grad():
        assert torch.equal(again.scores(rows), ours.scores(rows))

"""Every configuration of a model answers alike, or refuses in a sentence; none crashes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from config_cases import ENTITIES, accepted, all_energies, all_maps, made, small_graph
from knowledge_sheaves.embedding import SheafConfig, SheafEmbedding
from knowledge_sheaves.errors import SheafError
from knowledge_sheaves.query import Edge, Options, Pattern, Query, Wanted, answer

GRAPH = small_graph()
KNOWN, RELATION = 1, 0
TAILS = Query(("?x",), (Pattern((Edge(KNOWN, RELATION, "?x"),)),))
HEADS = Query(("?x",), (Pattern((Edge("?x", RELATION, KNOWN),)),))
PATH = Query(("?x",), (Pattern((Edge(0, 0, "?u"), Edge("?u", 1, "?x"))),))
BOTH = Query(("?x", "?y"), (Pattern((Edge(0, 0, "?x"), Edge("?y", 1, "?x"))),))
WANTED = Wanted(top=ENTITIES)


def as_queries_see_them() -> list[SheafConfig]:
    """Harmonic extension minimises squares, whatever norm scores are in."""
    return list({replace(c, norm=2, power=2, clamp=None): None for c in accepted(all_energies())})


def maps_of_all_sizes() -> list[SheafConfig]:
    """Queries take maps as blocks of numbers, so one tail of each size will do."""
    tails = ("identity", "tied", "free")
    return [c for c in accepted(all_maps()) if c.sections == 2 and c.tail in tails]


@pytest.mark.slow
def test_chaining_ranks_by_the_scores_whatever_they_are() -> None:
    options = Options(solver="chaining", facts="ignored")
    for config in accepted(all_energies()):
        model = made(config, GRAPH)
        known, edges = torch.tensor([KNOWN]), torch.tensor([RELATION])
        with told(config):
            by_tail, by_head = answer(model, [TAILS, HEADS], options, WANTED)
            check_order(model.score_tails(known, edges)[0], by_tail.ids[:, 0])
            check_order(model.score_heads(edges, known)[0], by_head.ids[:, 0])


@pytest.mark.slow
def test_harmonic_minimises_the_energies_whatever_the_maps() -> None:
    options = Options(solver="harmonic", lift="free")
    for config in as_queries_see_them() + maps_of_all_sizes():
        model = made(config, GRAPH)
        with told(config):
            (found,) = answer(model, TAILS, options, WANTED)
            check_energies(model, found.ids[:, 0], found.energies)
            for query in (HEADS, PATH):
                (more,) = answer(model, query, options, WANTED)
                assert len(more.ids) == ENTITIES
                assert more.energies.isfinite().all()


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_several_targets_are_answered_or_refused_in_a_sentence(every: int) -> None:
    for config in as_queries_see_them()[::every]:
        model = made(config, GRAPH)
        with told(config):
            try:
                (found,) = answer(model, BOTH, Options(solver="harmonic"), WANTED)
            except SheafError as error:
                assert not config.energy.linear, error  # noqa: PT017
                continue
            assert found.energies.isfinite().all()


class told:
    """Say which configuration it was that failed."""

    def __init__(self, config: SheafConfig) -> None:
        self.config = config

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            raise AssertionError(f"{self.config}: {error!r}") from error


def check_order(scores: torch.Tensor, ids: torch.Tensor) -> None:
    assert len(ids) == len(scores)
    ordered = scores[ids]
    assert (ordered.diff() >= -1e-4 * (1 + scores.abs().max())).all(), (ordered, ids)


@torch.no_grad()
def check_energies(model: SheafEmbedding, ids: torch.Tensor, energies: torch.Tensor) -> None:
    rows = torch.tensor([[KNOWN, RELATION, 0]]).repeat(len(ids), 1)
    rows[:, 2] = ids
    wanted = model.energies(rows)
    if model.biases is not None:
        wanted = wanted - model.bias(ids, "tail")
    torch.testing.assert_close(energies, wanted, rtol=1e-4, atol=1e-4 * float(wanted.abs().max()))

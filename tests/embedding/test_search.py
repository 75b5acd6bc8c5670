"""The best candidates by codes are those that comparing all finds, whatever is filtered out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from config_cases import accepted, all_energies, made
from knowledge_sheaves.embedding import ModelInfo, SheafConfig, SheafEmbedding, model_config
from knowledge_sheaves.embedding.check import check_model
from knowledge_sheaves.embedding.maps import End
from knowledge_sheaves.embedding.scoring import compare, make_query
from knowledge_sheaves.embedding.search.about import about_index
from knowledge_sheaves.embedding.search.building import (
    asked_of,
    bias_columns,
    encode,
    monomials,
    sample_queries,
)
from knowledge_sheaves.embedding.search.codes import Codes
from knowledge_sheaves.embedding.search.finders import Filter, FullScan
from knowledge_sheaves.embedding.search.kept import finder_of, index, search_mode
from knowledge_sheaves.embedding.search.scans import CodeScan, ListScan
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph, Schema
from knowledge_sheaves.graph.dataset import Dataset

SIZE = 300


def random_graph(size: int = SIZE, facts: int = 900) -> KnowledgeGraph:
    rows = np.random.default_rng(0).integers(0, [size, 3, size], size=(facts, 3))
    return KnowledgeGraph.from_arrays(
        *rows.T, schema=Schema.single(["r", "s", "t"]), num_entities=size
    )


GRAPH = random_graph()
CONFIGS = [c for c in accepted(all_energies()) if c.energy.name in ("square", "power", "lifted")]


def coded(model: SheafEmbedding) -> Codes:
    candidates = model.pool(0, "tail").candidates
    lists = torch.arange(len(candidates)) % 7
    return encode(candidates, bias_columns(model, 0), lists, monomials(model, candidates))


def random_filter(chance: torch.Generator, size: int = SIZE) -> Filter:
    def mask() -> Tensor | None:
        share = float(torch.rand((), generator=chance))
        return None if share < 0.3 else torch.rand(size, generator=chance) < share

    def ids() -> Tensor | None:
        count = int(torch.randint(6, (), generator=chance))
        return torch.randint(size, (count,), generator=chance) if count else None

    return Filter(mask(), ids(), mask(), ids())


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(CONFIGS), st.integers(0, 2**31), st.sampled_from([0.01, 1.0, 30.0]))
def test_reading_all_codes_finds_what_comparing_all_finds(
    config: SheafConfig, seed: int, size: float
) -> None:
    chance = torch.Generator().manual_seed(seed)
    model = made(config, GRAPH)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(size * torch.randn(parameter.shape, generator=chance))
    model.refresh()
    backwards = seed % 2 == 1 and not config.reciprocal
    target: End = "head" if backwards else "tail"
    edges, known = torch.randint(3, (4,)), torch.randint(SIZE, (4,))
    with torch.no_grad():
        query, pool = make_query(model, target, edges, known), model.pool(0, target)
        asked = asked_of(model, query, pool.candidates)
        if asked is None:  # a power less biases
            assert config.energy.name == "power"
            assert config.biases
            return
        codes = coded(model)
        assert codes.takes(asked.forms)
        filters = [random_filter(chance) for _ in edges]
        scores = compare(model, query, pool)
        tau = float(scores.std()) + 1e-3
        scan = CodeScan(pool.candidates, bias_columns(model, 0), codes)
        full = FullScan(pool.candidates, bias_columns(model, 0))
        found = scan.best(asked, 10, filters, tau)
        wanted = full.best(asked, 10, filters, tau)
    close = 1e-5 * (1 + float(scores.abs().max()))
    if config.energy.name == "power":  # the root of what should be 0 shows the root of the rounding
        close = close**0.5 * (1 + float(scores.abs().max())) ** 0.5
    for row, filter_, one, other in zip(scores, filters, found, wanted, strict=True):
        possible = torch.ones(SIZE, dtype=torch.bool)
        for mask in (filter_.possible, filter_.wanted):
            possible &= True if mask is None else mask
        for ids in (filter_.impossible, filter_.unwanted):
            possible[torch.zeros(0, dtype=torch.long) if ids is None else ids] = False
        best = row[possible].sort().values[:10]
        assert torch.allclose(one.values, best, atol=close, rtol=1e-4)
        assert torch.allclose(row[one.rows], best, atol=close, rtol=1e-4)
        assert possible[one.rows].all()
        assert len(one.rows.unique()) == len(one.rows)
        if np.isfinite(other.log_total):
            assert abs(one.log_total - other.log_total) < 0.1
        else:
            assert one.log_total == other.log_total


def test_few_rows_are_compared_exactly() -> None:
    model = made(model_config("complex", dim=16), GRAPH)
    with torch.no_grad():
        query = make_query(model, "tail", torch.tensor([0]), torch.tensor([1]))
        scan = CodeScan(model.pool(0, "tail").candidates, None, coded(model))
        asked = asked_of(model, query, scan.candidates)
        assert asked is not None
        compared: list[int] = []
        values = scan.values
        scan.values = lambda a, rows: compared.append(len(rows)) or values(a, rows)  # type: ignore
        scan.best(asked, 10, [Filter()])
    assert 10 <= sum(compared) < 40


# In a model's folder.


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("indexed") / "model"
    graph = random_graph(3000, 6000)
    model = made(model_config("complex", dim=16), graph)
    with torch.no_grad():  # some order, as training makes it
        centres = torch.randn(30, 16, generator=torch.Generator().manual_seed(1))
        model.entities.tables[0].mul_(0.3).add_(centres[torch.arange(3000) % 30])
    model.refresh()
    model.info = ModelInfo.of(Dataset(graph), calibration={"tau": 1.0})
    model.save(folder)
    index(SheafEmbedding.load(folder), seed=3)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


def test_the_recall_kept_is_what_is_found(saved: Path) -> None:
    model = SheafEmbedding.load(saved)
    assert model.info is not None
    about = about_index(saved, model.info.generation)
    assert about is not None
    said = about["types"]["0"]
    said = {**said, **said["shapes"]["1p"]}
    query = sample_queries(model, 0, 2 * said["queries"], said["seed"])
    assert query is not None
    finder = finder_of(model, 0, "quick")
    assert isinstance(finder, ListScan)
    with torch.no_grad():
        asked = asked_of(model, query, finder.candidates)
        scores = compare(model, query, model.pool(0, "tail"))
        assert asked is not None
        found = [finder.best(each, 10, [Filter()])[0] for each in asked.each()]
    hits = [
        np.isin(each.rows.numpy(), row.topk(10, largest=False).indices.numpy()).mean()
        for each, row in zip(found[1::2], scores[1::2], strict=True)
    ]
    assert np.mean(hits) == pytest.approx(said["recall_at_10"], abs=0.002)
    assert said["recall_at_10"] > 0.9
    assert all(each.looked_at < 3000 for each in found)


def test_what_is_not_read_is_estimated(saved: Path) -> None:
    model = SheafEmbedding.load(saved)
    query = sample_queries(model, 0, 20, 9)
    assert query is not None
    chance = torch.Generator().manual_seed(0)
    for filters in ([Filter()] * 20, [random_filter(chance, 3000) for _ in range(20)]):
        totals = []
        for mode in ("full", "quick"):
            finder = finder_of(model, 0, mode)
            with torch.no_grad():
                asked = asked_of(model, query, finder.candidates)
                assert asked is not None
                found = finder.best(asked, 10, filters, 2.0)
            totals.append([each.log_total for each in found])
        assert np.allclose(*totals, atol=0.05)  # here the sample is everybody


def test_asked_together_they_find_what_each_finds_alone_or_better(saved: Path) -> None:
    model, chance = SheafEmbedding.load(saved), torch.Generator().manual_seed(1)
    query, finder = sample_queries(model, 0, 40, 9), finder_of(model, 0, "quick", 200)
    assert query is not None
    filters = [random_filter(chance, 3000) for _ in range(40)]
    with torch.no_grad():
        asked = asked_of(model, query, finder.candidates)
        assert asked is not None
        together = finder.best(asked, 10, filters, 2.0)
        for n, both in enumerate(together):
            (alone,) = finder.best(asked.take(slice(n, n + 1)), 10, [filters[n]], 2.0)
            assert both.looked_at >= alone.looked_at
            assert (both.values[: len(alone.values)] <= alone.values + 1e-4).all()
            assert both.log_total == pytest.approx(alone.log_total, abs=0.1)


def test_small_models_compare_all_unless_told_otherwise(saved: Path) -> None:
    model = SheafEmbedding.load(saved)
    assert search_mode(model) == "full"
    assert search_mode(model, "quick") == "quick"
    with pytest.raises(InputError, match="search is one of auto, full, exact, quick, not 'slow'"):
        search_mode(model, "slow")


def test_a_model_without_an_index_says_how_to_get_one(folder: Path) -> None:
    shutil.rmtree(folder / "nearest")
    with pytest.raises(InputError, match="no index to search by: sheaves index MODEL makes one"):
        search_mode(SheafEmbedding.load(folder), "exact")


def test_the_index_of_another_save_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "nearest", tmp_path / "nearest")
    SheafEmbedding.load(folder).save(folder)
    assert not (folder / "nearest").exists(), "it goes with the model it was built for"
    shutil.copytree(tmp_path / "nearest", folder / "nearest")
    model = SheafEmbedding.load(folder)
    with pytest.raises(InputError, match=r"the index of another model .* build it again"):
        search_mode(model, "exact")
    assert search_mode(model) == "full", "who needs no index is not stopped by it"
    assert any("index of another model" in str(found.problem) for found in check_model(folder))


def test_a_changed_index_is_refused(folder: Path) -> None:
    about = folder / "nearest" / "about.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"recall": 1.0}))
    with pytest.raises(InputError, match=r"about\.json was changed or cut short"):
        search_mode(SheafEmbedding.load(folder), "exact")
    (folder / "nearest" / "0.safetensors").write_bytes(b"short")
    assert any(found.problem for found in check_model(folder))


def test_a_model_that_changed_is_not_searched_by_its_old_index(folder: Path) -> None:
    model = SheafEmbedding.load(folder)
    assert search_mode(model, "exact") == "exact"
    with torch.no_grad():
        model.entities.tables[0].mul_(2)
    with pytest.raises(InputError, match="no index"):
        search_mode(model, "exact")
    with pytest.raises(InputError, match="changed after it was loaded"):
        index(model)


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("transe", {"norm": 1}, "is no linear form"),
        ("toruse", {}, "is no linear form"),
        ("se", {}, "too many for an index"),
    ],
)
def test_models_that_cannot_be_searched_are_refused(
    name: str, options: dict[str, int], why: str, tmp_path: Path
) -> None:
    model = made(model_config(name, dim=8, **options), GRAPH)
    model.info = ModelInfo.of(Dataset(GRAPH))
    model.save(tmp_path / "model")
    with pytest.raises(InputError, match=why):
        index(SheafEmbedding.load(tmp_path / "model"), least=10)


def test_small_types_need_no_index(folder: Path) -> None:
    with pytest.raises(InputError, match="No type of the model has 10,000 entities"):
        index(SheafEmbedding.load(folder), least=10_000)

"""Questions that an index answers have the answers that comparing all entities gives."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import knowledge_sheaves as ks
from config_cases import made
from knowledge_sheaves.embedding import ModelInfo, SheafEmbedding, model_config
from knowledge_sheaves.embedding.search import kept
from knowledge_sheaves.embedding.search.finders import Filter
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.query.answers import Answers, Wanted
from knowledge_sheaves.query.asking import answer
from knowledge_sheaves.query.indexing import index, paths
from knowledge_sheaves.query.options import Options
from knowledge_sheaves.query.pattern import Query
from knowledge_sheaves.query.solvers.chaining.paths import Belief, Step
from knowledge_sheaves.ranking import Predictor, shares

SIZE = 240
MODELS: dict[str, dict[str, Any]] = {
    "complex": {},
    "transe": {},
    "rotate": {},
    "mure": {},
    "pairre": {"reciprocal": True},
}
QUERIES = {
    "1p": [("e1", "r", "?x")],
    "1p backwards": [("?x", "s", "e2")],
    "2p": [("e1", "r", "?y"), ("?y", "s", "?x")],
    "2i": [("e1", "r", "?x"), ("e5", "s", "?x")],
    "ip": [("e1", "r", "?y"), ("e5", "s", "?y"), ("?y", "r", "?x")],
}


def facts() -> list[tuple[str, str, str]]:
    chance = np.random.default_rng(0)
    rows = chance.integers(0, [SIZE, 2, SIZE], size=(700, 3))
    return [(f"e{h}", "rs"[r], f"e{t}") for h, r, t in rows]


def kinds() -> dict[str, str]:
    return {f"e{i}": f"kind{i % 2}" for i in range(SIZE)}


GRAPHS = {
    "plain": KnowledgeGraph.from_triples(facts()),
    "types": KnowledgeGraph.from_triples(facts(), types=kinds()),
    "types that only rule out": KnowledgeGraph.from_triples(facts(), types=kinds()).shared(),
}


def indexed(name: str, graph: KnowledgeGraph, folder: Path, **options: Any) -> SheafEmbedding:
    model = made(model_config(name, dim=8, **options), graph)
    data = Dataset(graph)
    model.info = ModelInfo.of(data, calibration={"tau": 2.0})
    model.info.false = graph.triples[5:8]
    model.save(folder)
    found = SheafEmbedding.load(folder)
    kept.index(found, least=1)
    return found


def ask(model: SheafEmbedding, query: Query, search: str, wanted: Wanted | None = None) -> Answers:
    return answer(model, query, Options("harmonic", search=search), wanted)[0]


def check_same(one: Answers, other: Answers) -> None:
    close = 1e-4 * (1 + float(other.energies.abs().max())) if len(other) else 0.0
    assert len(one) == len(other)
    assert torch.allclose(one.energies, other.energies, atol=close)
    differ = (one.ids != other.ids).any(1)
    # Only what is equally good may change places.
    gaps = (other.energies[1:] - other.energies[:-1]).abs()
    assert int(differ.sum()) <= 2 * int((gaps < close).sum())
    assert one.probabilities is not None
    assert other.probabilities is not None
    assert torch.allclose(one.probabilities, other.probabilities, rtol=0.05, atol=1e-4)
    assert one.known is not None
    assert other.known is not None
    assert one.has_known == other.has_known


@pytest.mark.parametrize(
    ("name", "graph"),
    [
        *((name, "plain") for name in MODELS),
        ("complex", "types"),
        ("mure", "types that only rule out"),
    ],
)
def test_exact_search_answers_as_comparing_all_does(
    name: str, graph: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = indexed(name, GRAPHS[graph], tmp_path / "model", **MODELS[name])
    used = []
    monkeypatch.setattr(kept.CodeScan, "best", _counted(kept.CodeScan.best, used))
    wanted = [
        Wanted(),
        Wanted(top=300),
        Wanted(only_new=True),
        Wanted(allow=frozenset(range(0, SIZE, 3)), deny=frozenset(range(0, SIZE, 5))),
        Wanted(deny=frozenset(range(40))),
    ]
    if graph != "plain":
        wanted.append(Wanted(kind="kind1"))
    for place, rows in enumerate(QUERIES.values()):
        query = Query.from_triples(rows, "?x", model.graph)
        for each in wanted[place % 2 :: 2]:
            check_same(ask(model, query, "exact", each), ask(model, query, "full", each))
    if graph == "plain":
        found = ask(model, Query.from_triples(QUERIES["2i"], "?x", model.graph), "exact")
        assert any(note.startswith("Exact: ") for note in found.notes)
        assert len(used) >= 6
    for side in ({"head": "e1", "relation": "r"}, {"relation": "s", "tail": "e7"}):
        for new in (False, True):
            one, other = (
                Predictor(model, search=search).predict(**side, new=new)  # type: ignore[arg-type]
                for search in ("exact", "full")
            )
            assert [p.energy for p in one] == pytest.approx([p.energy for p in other], abs=1e-3)
            shares = [p.probability for p in other]
            assert [p.probability for p in one] == pytest.approx(shares, rel=0.05, abs=1e-4)


PATHS = {name: QUERIES[name] for name in ("1p", "1p backwards", "2p")} | {
    "3p": [("e1", "r", "?y"), ("?z", "s", "?y"), ("?z", "r", "?x")]
}


@pytest.mark.parametrize(
    ("name", "graph"),
    [("complex", "plain"), ("rotate", "plain"), ("mure", "types that only rule out")],
)
def test_chaining_follows_paths_by_the_index_as_by_all_entities(
    name: str, graph: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, used = indexed(name, GRAPHS[graph], tmp_path / "model"), list[int]()
    monkeypatch.setattr(kept.CodeScan, "best", _counted(kept.CodeScan.best, used))
    some = frozenset(range(0, SIZE, 3))
    wanted = [Wanted(), Wanted(top=300), Wanted(only_new=True), Wanted(allow=some)]
    told: list[dict[str, Any]] = [
        {},
        {"softness": 0.5, "focus": 2.0},
        {"facts": "ignored", "k": 20},
        {"tau": 0.3},  # a bound of 1 matters
    ]
    for rows, options in itertools.product(PATHS.values(), told):
        query = Query.from_triples(rows, "?x", model.graph)
        for each in wanted:
            one, other = (
                answer(model, query, Options("chaining", search=search, **options), each)[0]
                for search in ("exact", "full")
            )
            assert one.probabilities is not None
            assert other.probabilities is not None
            # Codes give the softmax's sum but for rounding.
            assert torch.allclose(one.probabilities, other.probabilities, rtol=0.05, atol=1e-4)
            assert one.has_known == other.has_known
    assert len(used) >= len(PATHS) * len(told) * len(wanted)


def test_a_path_over_nobody_has_no_new_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = indexed("complex", GRAPHS["plain"], tmp_path / "model")
    nothing = Belief(torch.zeros(0, dtype=torch.long), torch.zeros(0))
    monkeypatch.setattr(Step, "message", lambda *_: nothing)
    query = Query.from_triples(QUERIES["2p"], "?x", model.graph)
    options = Options("chaining", search="exact", facts="ignored")
    assert not len(answer(model, query, options)[0])


@pytest.mark.parametrize("rows", [QUERIES["2i"], QUERIES["ip"], [("?y", "r", "?x")]])
def test_what_is_no_path_is_chained_by_all_entities(
    rows: list[tuple[str, str, str]], tmp_path: Path
) -> None:
    model = indexed("complex", GRAPHS["plain"], tmp_path / "model")
    query = Query.from_triples(rows, "?x", model.graph)
    one, other = (
        answer(model, query, Options("chaining", search=search))[0] for search in ("quick", "full")
    )
    assert torch.equal(one.ids, other.ids)
    assert torch.equal(one.energies, other.energies)


def _counted(best: Any, used: list[int]) -> Any:
    def counted(self: Any, *given: Any) -> Any:
        used.append(1)
        return best(self, *given)

    return counted


def test_conditions_on_the_target_are_kept(tmp_path: Path) -> None:
    model = indexed("complex", GRAPHS["plain"], tmp_path / "model")
    asker = {s: ks.Model(model, Options("harmonic", search=s)) for s in ("exact", "full")}
    best = asker["full"].answer("e1 r ?x", 3)
    for text in (
        f"SELECT ?x {{ :e1 :r ?x FILTER(?x != :{best[0].names[0]}) }}",
        f"SELECT ?x {{ VALUES ?x {{ :{best[2].names[0]} }} :e1 :r ?x }}",
        "SELECT ?x { :e1 :r ?x MINUS { :e2 :s ?x } }",
        "SELECT ?x { { :e1 :r ?x } UNION { :e2 :s ?x } }",
    ):
        check_same(asker["exact"].answer(text), asker["full"].answer(text))


def test_a_quick_search_says_what_it_looked_at(tmp_path: Path) -> None:
    model = indexed("complex", GRAPHS["plain"], tmp_path / "model")
    query = Query.from_triples(QUERIES["1p"], "?x", model.graph)
    found, best = ask(model, query, "quick"), ask(model, query, "full")
    assert len(found) == 10
    assert "of 240 entities" in found.notes[-1]
    assert found.energies[0] >= best.energies[0] - 1e-4


def test_what_is_read_for_paths_is_measured_by_paths(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, [3000, 3, 3000], (6000, 3))
    graph = KnowledgeGraph.from_triples([(f"e{h}", f"r{r}", f"e{t}") for h, r, t in rows])
    model = made(model_config("complex", dim=16), graph)
    with torch.no_grad():  # some order, as training makes it
        centres = torch.randn(30, 16, generator=torch.Generator().manual_seed(1))
        table = model.entities.tables[0]
        table.add_(centres[torch.arange(len(table)) % 30])
    model.refresh()
    model.info = ModelInfo.of(Dataset(graph), calibration={"tau": 2.0})
    model.save(tmp_path / "model")
    model = SheafEmbedding.load(tmp_path / "model")
    shapes = index(model, seed=4)["types"]["0"]["shapes"]
    assert shapes["1p"]["reach"] != shapes["2p"]["reach"]
    said, hits = shapes["2p"], []
    asked = paths(model, 0, 2 * said["queries"], 4)
    assert len(asked) == 2 * said["queries"] == 400
    for each in asked[1::2]:
        (best,), (found,) = (
            kept.finder_of(model, 0, mode, shape="2p").best(each, 10, [Filter()])
            for mode in ("full", "quick")
        )
        hits.append(np.isin(found.rows, best.rows).mean())
    assert np.mean(hits) == pytest.approx(said["recall_at_10"], abs=0.002)
    assert 0.9 < said["recall_at_10"] < 1
    hops = [(graph.entities[graph.triples[0, 0]], "r0", "?y"), ("?y", "r1", "?x")]
    (note,) = ask(model, Query.from_triples(hops, "?x", model.graph), "quick").notes
    looked_at = int(note.split(" looked at ")[1].split(" of ")[0].replace(",", ""))
    assert said["reach"] <= looked_at < said["reach"] + 300
    assert f"it met {said['recall_at_10']:.1%} when it was built" in note


def test_wide_forms_are_compared_in_full(tmp_path: Path) -> None:
    model = indexed("rotate", GRAPHS["plain"], tmp_path / "model")
    query = Query.from_triples(QUERIES["2p"], "?x", model.graph)
    one, other = (
        answer(model, query, Options("harmonic", search=search, strength=1.0))[0]
        for search in ("exact", "full")
    )
    assert one.ids.tolist() == other.ids.tolist()


def test_a_large_model_needs_no_comparison_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = indexed("complex", GRAPHS["plain"], tmp_path / "model")
    asker = ks.Model(model, Options("harmonic"))
    shown = asker.answer("e1 r ?x"), asker.answer("?x s e2"), asker.answer("e1 r ?y . ?y s ?x")
    predicted = asker.predict(head="e1", relation="r")

    def compare(*given: Any) -> Any:
        raise AssertionError("all entities are compared")

    monkeypatch.setattr(kept, "LARGE", 1)
    for name in ("score_tails", "score_heads"):
        monkeypatch.setattr(SheafEmbedding, name, compare)
    monkeypatch.setattr(kept.FullScan, "best", compare)
    monkeypatch.setattr(shares, "READ", 300)
    found = asker.answer("e1 r ?x"), asker.answer("?x s e2"), asker.answer("e1 r ?y . ?y s ?x")
    for one, other in zip(found, shown, strict=True):
        assert one.energies[0] >= other.energies[0] - 1e-3
        assert one.probabilities is not None
        assert other.probabilities is not None
        both = np.intersect1d(one.ids[:, 0], other.ids[:, 0])
        assert len(both) > 0
        for entity in both.tolist():
            p, q = (
                float(each.probabilities[each.ids[:, 0] == entity][0])  # type: ignore[index]
                for each in (one, other)
            )
            assert p == pytest.approx(q, rel=0.1, abs=1e-3)
    again = asker.predict(head="e1", relation="r")
    assert {p.name for p in again} & {p.name for p in predicted}


def test_shares_by_an_index_are_those_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = indexed("transe", GRAPHS["plain"], tmp_path / "model")
    drawn = np.random.default_rng(1).integers(0, [SIZE, 2, SIZE], (30, 3))
    triples = np.concatenate([model.graph.triples[:9], drawn, [[3, 0, 3]]])  # known, new, a loop
    by_all = shares.both_sides(model, triples, tau=2.0)
    monkeypatch.setattr(kept, "LARGE", 1)
    assert np.allclose(shares.both_sides(model, triples, tau=2.0), by_all, atol=0.1)

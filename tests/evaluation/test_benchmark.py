"""The benchmark in miniature: a BetaE folder of UMLS, a small model, and every rank by hand."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from betae_cases import write_betae
from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.evaluation.benchmark import BenchmarkProgress, Protocol, Report, benchmark
from knowledge_sheaves.evaluation.benchmark_report import TypeResult, comparison, plot
from knowledge_sheaves.evaluation.betae import GROUPS, TYPES, BetaEFolder, Translation
from knowledge_sheaves.evaluation.published import all_rows, mean_of, published_rows, query_set
from knowledge_sheaves.evaluation.queries import rank_answers, take
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.graph.readers.pickles import read_plain_pickle
from knowledge_sheaves.query import Options, scores

CHAINING = Options(solver="chaining", tau=1.0, k=8)
HARMONIC = Options(solver="harmonic", tau=1.0)


def plain_dict(path: Path) -> dict[Any, Any]:
    found = read_plain_pickle(path)
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def data() -> Dataset:
    return load("umls")


@pytest.fixture(scope="module")
def model(data: Dataset) -> SheafEmbedding:
    torch.manual_seed(0)
    return SheafEmbedding(model_config("complex", dim=8, init=0.5), data.train)


@pytest.fixture(scope="module")
def written(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("betae") / "umls"
    write_betae(folder, data, TYPES, 4)
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A copy that may be changed."""
    target = tmp_path / "umls"
    target.mkdir()
    for file in written.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    return target


def test_every_query_is_ranked_as_if_it_were_the_only_one(
    model: SheafEmbedding, written: Path
) -> None:
    report = benchmark(model, written, options=CHAINING)
    assert list(report.types) == list(TYPES)
    source = BetaEFolder(written, "test")
    translate = Translation(source.data, model)
    assert not translate.identical
    for name in ("1p", "up", "pni"):
        given = translate(source.queries(name))
        for place, query in enumerate(given.queries):
            energies, _ = scores(model, [query], CHAINING)
            only = np.array([place])
            alone = rank_answers(energies, take(given.easy, only), take(given.hard, only))
            assert report.types[name].ranks.reciprocal[place] == pytest.approx(alone.reciprocal[0])
    assert report.mean("positive") == pytest.approx(
        sum(report.mrr[name] for name in GROUPS["positive"]) / 9
    )


def test_small_batches_change_nothing(model: SheafEmbedding, written: Path) -> None:
    whole = benchmark(model, written, types=["2p", "2u"], options=CHAINING)
    tight = Options(solver="chaining", tau=1.0, k=8, memory_limit=1 << 13)
    assert benchmark(model, written, types=["2p", "2u"], options=tight).mrr == pytest.approx(
        whole.mrr
    )


def test_what_the_solver_refuses_is_told_once(model: SheafEmbedding, written: Path) -> None:
    report = benchmark(model, written, options=HARMONIC)
    assert set(report.refused) == {"inp"}
    assert "use the solver chaining" in report.refused["inp"]
    assert report.mean("positive") is not None
    assert report.mean("negative") is None
    assert sum("use the solver chaining" in note for note in report.notes()) == 1
    assert report.to_dict()["means"]["negative"] is None


def test_other_sets_of_answers(model: SheafEmbedding, written: Path) -> None:
    def run(protocol: Protocol) -> float:
        return benchmark(model, written, types=["2p"], options=HARMONIC, protocol=protocol).mrr[
            "2p"
        ]

    hard, alone = run(Protocol()), run(Protocol("hard-alone"))
    assert hard >= alone  # fewer entities compete where easy answers are left out
    assert run(Protocol("easy")) not in (hard, alone)
    one = run(Protocol(one_answer=True))
    assert run(Protocol(one_answer=True)) == one
    report = benchmark(
        model, written, types=["2p"], options=HARMONIC, protocol=Protocol(sample=2, one_answer=True)
    )
    assert (report.types["2p"].queries, len(report.types["2p"].ranks.ranks)) == (2, 2)


def test_finished_types_are_kept_until_something_changes(
    model: SheafEmbedding, folder: Path, tmp_path: Path
) -> None:
    state = tmp_path / "results.state.json"

    def run(types: list[str], options: Options = HARMONIC, sample: int | None = None) -> list[str]:
        report = benchmark(
            model,
            folder,
            types=types,
            options=options,
            state=state,
            protocol=Protocol(sample=sample),
        )
        return [name for name, of in report.types.items() if of.resumed]

    def stop(now: BenchmarkProgress) -> None:
        if now.type == "2i":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        benchmark(model, folder, types=["1p", "2i"], options=HARMONIC, state=state, progress=stop)
    assert run(["1p", "2i"]) == ["1p"]
    # A run that was killed after its last write may leave its lock, and nothing else.
    (tmp_path / ".results.state.json.lock").touch()
    assert run(["1p", "2i"]) == ["1p", "2i"]
    assert [path.name for path in tmp_path.glob(".*")] == []
    assert run(["1p"], Options(solver="harmonic", tau=1.0, memory_limit=1 << 20)) == ["1p"]
    assert run(["1p"], Options(solver="harmonic", tau=2.0)) == []
    assert run(["1p"]) == []
    assert run(["1p"], sample=2) == []
    assert run(["1p"]) == []
    with torch.no_grad():
        weight = next(model.parameters())
        weight[0] += 1
    assert run(["1p"]) == []
    with torch.no_grad():
        weight[0] -= 1
    hard = plain_dict(folder / "test-hard-answers.pkl")
    (folder / "test-hard-answers.pkl").write_bytes(pickle.dumps({q: {0} for q in hard}))
    assert run(["1p"]) == []
    text = state.read_text()
    for damaged in ("{}", "[]", text.replace(".0", ".1", 1), text[:-5], text.replace("2", "3", 1)):
        state.write_text(damaged)
        with pytest.raises(InputError, match="not the state of a benchmark"):
            run(["1p"])


def test_two_runs_with_one_state_keep_what_both_found(
    model: SheafEmbedding, folder: Path, tmp_path: Path
) -> None:
    state = tmp_path / "results.state.json"

    def run(name: str, progress: Report | None = None) -> dict[str, TypeResult]:
        return benchmark(
            model, folder, types=[name], options=HARMONIC, state=state, progress=progress
        ).types

    run("1p", lambda now: None if now.result else run("2i"))  # while the first is under way
    assert [run(name)[name].resumed for name in ("1p", "2i")] == [True, True]


def test_missing_answers_are_computed_and_wrong_ones_found(
    model: SheafEmbedding, folder: Path
) -> None:
    before = benchmark(model, folder, options=HARMONIC, types=["2i", "3in"], check=True).mrr
    file = folder / "test-easy-answers.pkl"
    easy = plain_dict(file)
    file.unlink()
    assert benchmark(model, folder, options=HARMONIC, types=["2i", "3in"]).mrr == before
    file.write_bytes(pickle.dumps({query: found - {min(found)} for query, found in easy.items()}))
    with pytest.raises(SheafError, match="type 2i, 0 agree in their easy and 4 in their hard"):
        benchmark(model, folder, options=HARMONIC, types=["2i"], check=True)


def test_inverse_relations_are_found_the_other_way_round(tmp_path: Path) -> None:
    graph = KnowledgeGraph.from_triples([("a", "likes", "b"), ("c", "likes", "b")])
    signed = KnowledgeGraph.from_triples(
        [("a", "+likes", "b"), ("b", "-likes", "a"), ("c", "+likes", "b"), ("a", "-likes", "c")]
    )
    later = signed.with_triples([("b", "-likes", "c")])
    write_betae(tmp_path / "signed", Dataset(signed, test=later), ["1p"], 1)
    source = BetaEFolder(tmp_path / "signed", "test")
    model = SheafEmbedding(model_config("transe", dim=4), graph)
    given = Translation(source.data, model)(source.queries("1p"))
    (edge,) = given.queries[0].patterns[0].edges
    assert (edge.head, edge.relation, edge.tail) == ("?x", 0, graph.entities.id("b"))
    assert given.hard.ids.tolist() == [graph.entities.id("c")]
    other = SheafEmbedding(
        model_config("transe", dim=4),
        KnowledgeGraph.from_triples([("a", "r", "b"), ("c", "r", "b")]),
    )
    with pytest.raises(InputError, match="no relation '-likes'"):
        Translation(source.data, other)(source.queries("1p"))


def test_bad_input_is_one_clear_sentence(
    model: SheafEmbedding, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="no query type '4i'"):
        benchmark(model, folder, types=["4i"])
    with pytest.raises(InputError, match="is not a folder of the BetaE benchmark"):
        benchmark(model, tmp_path)
    with pytest.raises(InputError, match=r"valid-queries\.pkl"):
        benchmark(model, folder, "valid")
    stranger = SheafEmbedding(
        model_config("transe", dim=4), KnowledgeGraph.from_triples([("a", "r", "b")])
    )
    with pytest.raises(InputError, match="lacks 135 of the 135 entities"):
        benchmark(stranger, folder)
    (folder / "test-queries.pkl").write_bytes(pickle.dumps({("e", ("r",)): {(500, (0,))}}))
    with pytest.raises(InputError, match=r"test-queries\.pkl: entities of the type 1p"):
        benchmark(model, folder)
    with pytest.raises(InputError, match="has no test queries of the type 2p"):
        benchmark(model, folder, types=["2p"])
    with pytest.raises(InputError, match="at least one query"):
        Protocol(sample=0)


def test_published_rows_are_complete_and_their_means_right() -> None:
    for row in all_rows():
        assert row.source
        assert set(row.mrr) <= set(TYPES)
        for group, printed in row.means.items():
            assert mean_of(row.mrr, group) == pytest.approx(printed, abs=0.11)
    nell = {row.name: row for row in published_rows("NELL-995")}
    assert nell["BetaE"].mrr["pni"] == 3.5
    assert nell["QTO"].mean("negative") == 12.9
    assert nell["GQE"].mean("negative") is None
    assert len(published_rows("FB15k-237")) == 7
    assert len(published_rows("FB15k-237", "easy")) == 2


def test_tables_and_pictures(
    model: SheafEmbedding, written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rich.console import Console

    from knowledge_sheaves.evaluation import benchmark_report

    rows = published_rows("NELL-995")
    monkeypatch.setattr(benchmark_report, "published_rows", lambda *_: rows)
    runs = [benchmark(model, written, options=each) for each in (HARMONIC, CHAINING)]
    console = Console(width=136, record=True, file=(tmp_path / "table.txt").open("w"))
    console.print(comparison(runs))
    console.print(runs[0].details())
    lines = [line.split() for line in console.export_text().splitlines()]
    betae = next(line for line in lines if line[:1] == ["BetaE"])
    assert betae[1:11] == [
        "53.0",
        "13.0",
        "11.4",
        "37.6",
        "47.5",
        "24.1",
        "14.3",
        "12.2",
        "8.5",
        "24.6",
    ]
    assert betae[-2:] == ["53.4", "M"]
    harmonic = next(line for line in lines if line[:1] == ["harmonic"])
    assert harmonic[13] == "–"
    assert harmonic[1] == f"{100 * runs[0].mrr['1p']:.1f}"
    plot(runs, tmp_path / "dots.svg")
    drawn = (tmp_path / "dots.svg").read_text(encoding="utf-8")
    assert all(f"<!-- {name} -->" in drawn for name in ("QTO", "chaining, facts remembered", "pni"))
    with pytest.raises(InputError, match="pictures are written as"):
        plot(runs, tmp_path / "dots.txt")
    json.dumps([run.to_dict() for run in runs])


@pytest.mark.parametrize("name", ["NELL-betae", "FB15k-237-betae"])
def test_the_real_folders_agree_with_their_triples(shared_data: Path, name: str) -> None:
    if not (shared_data / name).is_dir():
        pytest.skip(f"{name} is not among the shared data")
    source = BetaEFolder(shared_data / name, "valid")
    assert source.named(None) == list(TYPES)
    assert source.check(source.queries("2in").sample(100)).complete
    known = query_set(source.hash, (0, 0), {})
    assert name.startswith(known.removesuffix("-995"))
    assert published_rows(known)


def test_rows_belong_to_a_set_of_queries_and_not_to_a_graph() -> None:
    size, counts = (14_505, 474), dict.fromkeys(TYPES, 5_000)
    assert query_set("", size, counts | {"1p": 22_812}) == "FB15k-237"
    query2box = {name: n for name, n in counts.items() if name in GROUPS["positive"]}
    assert query_set("", size, query2box) == "", "the same graph, and other queries"
    assert query_set("", (63_361, 400), dict.fromkeys(TYPES, 4_000)) == ""
    assert not published_rows("")


def test_a_set_of_queries_has_one_hash_whatever_its_order(written: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(written, tmp_path / "copy"))
    given = plain_dict(copy / "test-queries.pkl")
    turned = {form: list(asked)[::-1] for form, asked in reversed(given.items())}
    (copy / "test-queries.pkl").write_bytes(pickle.dumps(turned))
    assert BetaEFolder(copy, "test").hash == BetaEFolder(written, "test").hash
    fewer = {form: asked[1:] for form, asked in turned.items()}
    (copy / "test-queries.pkl").write_bytes(pickle.dumps(fewer))
    assert BetaEFolder(copy, "test").hash != BetaEFolder(written, "test").hash

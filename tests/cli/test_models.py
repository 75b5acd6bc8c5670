"""The commands that read a model: predict, neighbours, evaluate, info, export."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.storage import dataset_of
from knowledge_sheaves.evaluation import evaluate
from knowledge_sheaves.ranking import Predictor

Sheaves = Callable[..., tuple[int, str, str]]
CAUSES = ("--head", "virus", "--relation", "causes")


def answers(sheaves: Sheaves, *words: object) -> list[dict[str, Any]]:
    code, out, err = sheaves("predict", *words, "--json")
    assert (code, err) == (0, "")
    found: list[dict[str, Any]] = json.loads(out)["answers"]
    return found


def test_predictions_are_the_best_scores_with_known_facts_marked(
    sheaves: Sheaves, model: Path
) -> None:
    loaded = SheafEmbedding.load(model)
    graph = loaded.graph
    virus = graph.entities.id("virus")
    (causes,) = graph.schema.edges("causes").tolist()
    scores = loaded.score_tails(torch.tensor([virus]), torch.tensor([causes]))[0]
    found = answers(sheaves, model, *CAUSES, "--top", "20")
    assert [row["name"] for row in found] == graph.entities.names(scores.argsort()[:20].numpy())
    assert [row["energy"] for row in found] == pytest.approx(sorted(scores.tolist())[:20], rel=1e-4)
    assert {row["name"]: row["known"] for row in found}["disease_or_syndrome"] == "train"
    test = {
        a.name for a in Predictor(loaded).predict("virus", "causes", top=135) if a.known == "test"
    }
    assert test == {"pathologic_function"}
    assert all((row["probability"] == 1) == (row["known"] is not None) for row in found)


def test_new_hides_what_is_known(sheaves: Sheaves, model: Path) -> None:
    everything = answers(sheaves, model, *CAUSES, "--top", "135")
    new = answers(sheaves, model, *CAUSES, "--top", "135", "--new")
    assert new == [row for row in everything if row["known"] is None]
    assert 0 < len(new) < len(everything) == 134  # nothing causes itself


def test_heads_are_ranked_as_the_model_ranks_them(sheaves: Sheaves, model: Path) -> None:
    loaded = SheafEmbedding.load(model)
    tail = loaded.graph.entities.id("disease_or_syndrome")
    (causes,) = loaded.graph.schema.edges("causes").tolist()
    scores = loaded.score_heads(torch.tensor([causes]), torch.tensor([tail]))[0]
    words = ("--relation", "causes", "--tail", "disease_or_syndrome")
    found = answers(sheaves, model, *words)
    assert [row["energy"] for row in found] == pytest.approx(sorted(scores.tolist())[:10], rel=1e-4)


def test_relations_between_two_entities(sheaves: Sheaves, model: Path) -> None:
    words = ("--head", "virus", "--tail", "disease_or_syndrome", "--top", "99")
    found = answers(sheaves, model, *words)
    assert len(found) == 46
    assert {row["name"]: row["known"] for row in found}["causes"] == "train"
    (by_tail,) = (
        row
        for row in answers(sheaves, model, *CAUSES, "--top", "135")
        if row["name"] == "disease_or_syndrome"
    )
    (by_relation,) = (row for row in found if row["name"] == "causes")
    assert by_relation["probability"] == pytest.approx(by_tail["probability"], rel=1e-3)
    assert len(answers(sheaves, model, *words, "--new")) < 46


def test_the_table_has_names_and_marks(sheaves: Sheaves, model: Path) -> None:
    code, out, _ = sheaves("predict", model, *CAUSES)
    assert code == 0
    words = [line.split() for line in out.splitlines()]
    assert ["virus", "causes", "?"] in words
    assert any(row[:1] == ["disease_or_syndrome"] and row[-1:] == ["train"] for row in words)


def test_a_label_stands_for_its_entity(sheaves: Sheaves, typed_model: Path) -> None:
    found = answers(sheaves, typed_model, "--tail", "Fargo", "--relation", "likes")
    assert {row["name"]: row["known"] for row in found} == {"Ann": "train", "Bob": None}
    _, out, _ = sheaves("predict", typed_model, "--tail", "Fargo", "--relation", "likes")
    assert "No temperature was fitted" in out  # there is nothing to calibrate by
    films = answers(sheaves, typed_model, "--head", "Ann", "--relation", "likes")
    assert {row["label"] for row in films} == {"Fargo", "Solaris"}
    assert {row["type"] for row in films} == {"Film"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("--tail", "Solaris", "--relation", "likes"),
            "2 entities have the label 'Solaris': ask by name for one of 'Q3' (Film), 'Q2' (Film).",
        ),
        (
            ("--head", "Anne", "--relation", "likes"),
            "No entity has the name or label 'Anne'; did you mean 'Ann'?",
        ),
        (
            ("--head", "Ann", "--relation", "like"),
            "There is no relation 'like'; did you mean 'likes'?",
        ),
        (
            ("--head", "Ann", "--relation", "zzz"),
            "There is no relation 'zzz': the graph has 'likes', 'knows'.",
        ),
        (
            ("--head", "Q1", "--relation", "likes"),
            "'Fargo' (Q1) is of type 'Film' and cannot be the head of 'likes': that takes Person.",
        ),
        (("--head", "Q1", "--tail", "Ann"), "The schema has no relation from 'Film' to 'Person'."),
        (("--head", "Ann"), "Give two of head, relation and tail; the third is what is asked for."),
        (
            ("--head", "Ann", "--relation", "likes", "--tail", "Q1"),
            "Give two of head, relation and tail; the third is what is asked for.",
        ),
    ],
)
def test_a_question_without_answer_is_one_sentence(
    words: tuple[str, ...], sentence: str, sheaves: Sheaves, typed_model: Path
) -> None:
    assert sheaves("predict", typed_model, *words) == (2, "", f"sheaves: {sentence}\n")


def test_neighbours_are_the_nearest_of_the_same_type(sheaves: Sheaves, typed_model: Path) -> None:
    loaded = SheafEmbedding.load(typed_model)
    code, out, _ = sheaves("neighbours", typed_model, "Fargo", "--json")
    assert code == 0
    shown = json.loads(out)
    assert (shown["entity"], shown["by"]) == ("Q1", "distance")
    far = {n: float((loaded.vector(n) - loaded.vector("Q1")).norm()) for n in ("Q2", "Q3")}
    assert [row["name"] for row in shown["neighbours"]] == sorted(far, key=far.__getitem__)
    assert [row["distance"] for row in shown["neighbours"]] == pytest.approx(sorted(far.values()))


def test_bilinear_models_compare_directions(sheaves: Sheaves, model: Path) -> None:
    shown = json.loads(sheaves("neighbours", model, "virus", "--json", "--top", "5")[1])
    cosines = [row["cosine"] for row in shown["neighbours"]]
    assert shown["by"] == "cosine"
    assert len(cosines) == 5
    assert cosines == sorted(cosines, reverse=True)


def test_evaluate_says_what_the_library_measures_and_remembers_it(
    sheaves: Sheaves, model: Path
) -> None:
    loaded = SheafEmbedding.load(model)
    expected = evaluate(loaded, dataset_of(loaded)).to_dict()
    code, out, err = sheaves("evaluate", model, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == expected
    kept = json.loads(sheaves("info", model, "--json")[1])["quality"]["test"]
    assert kept == expected["overall"]["both"]


def test_a_model_that_cannot_rank_heads_is_not_asked_to(sheaves: Sheaves, tmp_path: Path) -> None:
    options = ("--set", "reciprocal=false", "--dim", 8, "--epochs", 1, "--out", tmp_path / "m")
    assert sheaves("train", "nations", "--model", "complex", *options)[0] == 0
    code, out, err = sheaves("evaluate", tmp_path / "m", "--json")
    assert (code, err.split(":")[0]) == (0, "Tails only")
    overall = json.loads(out)["overall"]
    assert list(overall) == ["tail"]
    assert json.loads((tmp_path / "m" / "metrics.json").read_text())["test"] == overall["tail"]
    both = json.loads(sheaves("evaluate", tmp_path / "m", "--side", "both", "--json")[1])
    assert set(both["overall"]) == {"head", "tail", "both"}


def test_evaluate_takes_the_split_from_other_data(
    sheaves: Sheaves, model: Path, tmp_path: Path
) -> None:
    rows = ["virus\tcauses\tpathologic_function", "virus\tcauses\tennui", "virus\tenjoys\tfungus"]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.tsv").write_text("\n".join(rows) + "\n")
    (tmp_path / "data" / "test.tsv").write_text("\n".join(rows) + "\n")
    code, out, err = sheaves("evaluate", model, "--data", tmp_path / "data", "--json")
    assert (code, err) == (0, "2 of 3 facts have names that the model lacks.\n")
    assert json.loads(out)["triples"] == 1


@pytest.mark.parametrize(("by", "row"), [("relation", "causes"), ("pattern", "n-n")])
def test_evaluate_by_part(by: str, row: str, sheaves: Sheaves, model: Path) -> None:
    code, out, _ = sheaves("evaluate", model, "--by", by, "--side", "tail")
    assert code == 0
    assert row in [line.split()[0] for line in out.splitlines() if line.split()]


def test_info_says_what_where_how_and_how_good(sheaves: Sheaves, model: Path) -> None:
    shown = json.loads(sheaves("info", model, "--json")[1])
    assert shown["model"]["name"] == "complex"
    assert shown["data"]["train"] == 5216
    assert len(shown["data"]["hash"]) == 64
    assert shown["training"]["epochs_run"] == 4
    assert 0 < shown["quality"]["validation_mrr"] < 1
    out = sheaves("info", model)[1]
    assert all(word in out for word in ("5,216", shown["data"]["hash"], "validation mrr"))


def test_export_to_numpy_and_parquet(sheaves: Sheaves, typed_model: Path, tmp_path: Path) -> None:
    loaded = SheafEmbedding.load(typed_model)
    for format in ("npy", "parquet"):
        code, _, _ = sheaves("export", typed_model, "--format", format, "--out", tmp_path / "out")
        assert code == 0
    vectors = np.load(tmp_path / "out" / "vectors.npy")
    names = pl.read_csv(tmp_path / "out" / "entities.tsv", separator="\t")["name"].to_list()
    assert np.array_equal(vectors[names.index("Q1")], loaded.vector("Q1").numpy())
    assert np.array_equal(vectors[names.index("Ann"), :4], loaded.vector("Ann").numpy())
    assert not vectors[names.index("Ann"), 4:].any()
    frame = pl.read_parquet(tmp_path / "out" / "entities.parquet")
    assert frame["label"].to_list() == ["Solaris", "", "Fargo", "", "Solaris"]
    assert np.array_equal(frame["vector"].to_numpy(), vectors)


def test_export_for_the_projector(sheaves: Sheaves, model: Path, tmp_path: Path) -> None:
    sheaves("export", model, "--format", "tsv", "--out", tmp_path / "out")
    vectors = np.loadtxt(tmp_path / "out" / "vectors.tsv", delimiter="\t")
    lines = (tmp_path / "out" / "metadata.tsv").read_text().splitlines()
    assert lines[0] == "name\ttype\tlabel"
    row = lines.index("virus\tentity\t") - 1
    assert vectors.shape == (135, 32)
    assert vectors[row] == pytest.approx(
        SheafEmbedding.load(model).vector("virus").numpy(), abs=1e-5
    )


def test_json_is_all_that_a_program_reads(model: Path) -> None:
    command = [sys.executable, "-m", "knowledge_sheaves", "predict", model, *CAUSES, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["query"] == {"head": "virus", "relation": "causes", "tail": None}
    assert done.stderr == ""

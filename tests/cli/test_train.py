"""Training and tuning from the command line, with real processes and real signals."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml

from knowledge_sheaves.embedding import SheafEmbedding

Sheaves = Callable[..., tuple[int, str, str]]
SHEAVES = [sys.executable, "-m", "knowledge_sheaves"]
SMALL = ("--dim", "8", "--epochs", "3", "--batch-size", "512", "--threads", "1")


def start(*words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*SHEAVES, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Where the tests run in the background, the shell has told its children to ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_training_ends_with_a_model_and_the_next_command(sheaves: Sheaves, tmp_path: Path) -> None:
    code, out, err = sheaves("train", "nations", *SMALL, "--out", tmp_path / "model")
    assert code == 0
    assert "validation mrr" in out
    assert "epoch 3/3" in err
    assert "facts/s" in err
    assert "Measuring how far to trust its answers" in err
    (asked,) = (line for line in out.splitlines() if line.startswith("Ask it:"))
    command = asked.removeprefix("Ask it:").split()
    assert command[:2] == ["sheaves", "predict"]
    assert sheaves(*command[1:])[0] == 0


def test_the_next_command_has_labels_where_some_are_names(sheaves: Sheaves, tmp_path: Path) -> None:
    facts, labels, relations = (tmp_path / f"{name}.tsv" for name in ("facts", "labels", "words"))
    rows = [f"p{i}\t{'rs'[i % 5 == 4]}\tq{(7 * i) % 20}\n" for i in range(40)]
    rows += [f"q{i % 20}\tt\tp{(3 * i) % 40}\n" for i in range(40)]
    facts.write_text("".join(rows))
    labels.write_text("".join(f"p{i}\tPerson {i}\nq{i}\tthe same\n" for i in range(40)))
    relations.write_text("r\thas\nt\thas\ns\tlikes\n")  # "has" is no name to ask by
    told = ("--labels", labels, "--relation-labels", relations, "--out", tmp_path / "model")
    code, out, err = sheaves("train", facts, *SMALL, *told)
    assert code == 0, err
    (asked,) = (line for line in out.splitlines() if line.startswith("Ask it:"))
    words = shlex.split(asked.removeprefix("Ask it:"))
    assert words[words.index("--relation") + 1] == "likes"
    assert words[words.index("--head") + 1].startswith("Person ")
    assert sheaves(*words[1:])[0] == 0


@pytest.mark.parametrize(("given", "kept"), [(None, "1000"), ("77", "77")])
def test_threads_do_not_wait_for_each_other_at_work_that_others_need(
    given: str | None, kept: str
) -> None:
    """Beside another busy process training was many times slower."""
    environment = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
    code = (
        "import os, sys, knowledge_sheaves.cli as cli; "
        "print(os.environ['GOMP_SPINCOUNT'], 'torch' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environment | ({} if given is None else {"GOMP_SPINCOUNT": given}),
    )
    assert ran.stdout.split() == [kept, "False"], "it counts only before torch is there"


def test_what_is_known_to_be_false_is_read_and_never_answered(
    sheaves: Sheaves, tmp_path: Path
) -> None:
    facts, false, model = tmp_path / "facts.tsv", tmp_path / "false.tsv", tmp_path / "model"
    facts.write_text("".join(f"p{i}\tlikes\tf{j}\n" for i in range(8) for j in range(i, 8)))
    false.write_text("p7\tlikes\tf0\np5\tlikes\tf1\n")
    assert sheaves("train", facts, *SMALL, "--false", false, "--out", model)[0] == 0
    asked = ("--head", "p7", "--relation", "likes", "--top", 20, "--json")
    _, out, _ = sheaves("predict", model, *asked)
    assert "f1" in out
    assert "f0" not in out
    false.write_text("p0\tlikes\tf3\n")
    code, _, err = sheaves("train", facts, *SMALL, "--false", false, "--out", tmp_path / "other")
    assert code
    assert "p0 likes f3 is a fact" in " ".join(err.split())


def test_models_of_several_seeds_are_summed(sheaves: Sheaves, tmp_path: Path) -> None:
    runs = [tmp_path / "one", tmp_path / "two"]
    for seed, out in enumerate(runs):
        words = ("--model", "complex", "--seed", seed, "--out", out)
        assert sheaves("train", "nations", *SMALL, *words)[0] == 0
    code, out, _ = sheaves("sum", *runs, "--out", tmp_path / "both")
    assert code == 0
    assert "Direct sum" in out
    loaded = SheafEmbedding.load(tmp_path / "both")
    assert loaded.config.dim == 16
    assert loaded.info is not None
    assert loaded.info.calibration["tau"] > 0
    assert [each["seed"] for each in loaded.info.training["direct_sum"]] == [0, 1]
    assert sheaves("info", tmp_path / "both")[0] == 0
    code, _, err = sheaves("sum", runs[0], "--out", tmp_path / "alone")
    assert (code, err.count("\n")) == (2, 1)
    assert "at least two models" in err
    assert not (tmp_path / "alone").exists()


def test_one_json_document_on_stdout(tmp_path: Path) -> None:
    done = start("train", "nations", *SMALL, "--out", tmp_path / "model", "--json")
    out, _ = done.communicate(timeout=120)
    assert json.loads(out)["epochs"] == 3
    info = SheafEmbedding.load(tmp_path / "model").info
    assert info is not None
    assert json.loads(out)["validation_mrr"] == info.metrics["validation_mrr"]


def test_the_last_word_wins_among_file_options_and_set(sheaves: Sheaves, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("model: rotate\ndim: 16\nepochs: 1\nbatch_size: 300\ndropout: 0.1\n")
    words = ("--config", file, "--dim", "8", "--set", "batch-size=400", "--set", "negatives=null")
    assert sheaves("train", "nations", *words, "--out", tmp_path / "model")[0] == 0
    loaded = SheafEmbedding.load(tmp_path / "model")
    assert loaded.info is not None
    assert (loaded.config.name, loaded.config.dim) == ("rotate", 8)
    settings = loaded.info.training
    assert (settings["batch_size"], settings["dropout"], settings["negatives"]) == (400, 0.1, None)


def test_a_model_of_ones_own_comes_from_a_file(sheaves: Sheaves, tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text("{name: mine, block: 2, head: rotation, translation: true}")
    words = ("--model", own, *SMALL)
    assert sheaves("train", "nations", *words, "--out", tmp_path / "model")[0] == 0
    assert SheafEmbedding.load(tmp_path / "model").config.name == "mine"


def test_own_data_with_types_labels_and_another_order_of_columns(
    sheaves: Sheaves, tmp_path: Path
) -> None:
    people, films = [f"p{i}" for i in range(12)], [f"f{i}" for i in range(12)]
    rows = [f"likes;{f};{p}" for i, p in enumerate(people) for f in films[: i + 1]]
    (tmp_path / "triples.csv").write_text("\n".join(rows) + "\n")
    types = [f"{n}\t{'Person' if n[0] == 'p' else 'Film'}" for n in people + films]
    (tmp_path / "types.tsv").write_text("\n".join(types) + "\n")
    (tmp_path / "labels.tsv").write_text("f0\tFargo\n")
    about = ("--types", tmp_path / "types.tsv", "--labels", tmp_path / "labels.tsv")
    text = ("--delimiter", ";", "--columns", "3,1,2")
    out = tmp_path / "model"
    code, _, err = sheaves("train", tmp_path / "triples.csv", *SMALL, *about, *text, "--out", out)
    assert code == 0, err
    graph = SheafEmbedding.load(out).graph
    assert set(graph.type_names) == {"Person", "Film"}
    assert graph.labels == {graph.entities.id("f0"): "Fargo"}


@pytest.mark.slow
def test_ctrl_c_keeps_the_best_model_and_resume_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "model"
    words = ("nations", "--dim", "8", "--patience", "999", "--threads", "1", "--out", out)
    command = start("train", *words, "--epochs", "9999")
    assert command.stderr is not None
    for line in command.stderr:
        if line.startswith("epoch 3"):
            command.send_signal(signal.SIGINT)
            break
    shown, err = command.communicate(timeout=120)
    assert command.returncode == 130
    assert f"Interrupted: the best model so far is in {out}" in shown
    assert "Traceback" not in err
    info = SheafEmbedding.load(out).info
    assert info is not None
    ran = info.training["epochs_run"]
    assert ran >= 3
    again = start("train", *words, "--epochs", ran + 2, "--resume", "--json")
    shown, _ = again.communicate(timeout=120)
    assert json.loads(shown)["epochs"] == ran + 2


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_model(tmp_path: Path) -> None:
    words = ("nations", "--dim", "8", "--patience", "999", "--epochs", "150", "--threads", "1")
    whole = start("train", *words, "--out", tmp_path / "whole")
    killed = start("train", *words, "--out", tmp_path / "killed")
    assert killed.stderr is not None
    for line in killed.stderr:
        if line.startswith("epoch 5"):
            killed.kill()
            break
    killed.communicate(timeout=120)
    assert not (tmp_path / "killed").exists(), "it was killed before its end"
    again = start("train", *words, "--out", tmp_path / "killed", "--resume")
    for process in (whole, again):
        process.communicate(timeout=120)
        assert process.returncode == 0
    one, two = (SheafEmbedding.load(tmp_path / name).state_dict() for name in ("whole", "killed"))
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("model", ["complex", "se"])
def test_tuning_goes_on_with_its_study_and_writes_settings(
    model: str, sheaves: Sheaves, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("nations", "--model", model, "--epochs", "2", "--threads", "1", "--dim", "8")
    other_dim = (*words[:-1], "16")  # a study may be asked again with other things held fixed
    assert sheaves("tune", *other_dim, "--trials", "2")[0] == 0
    code, out, err = sheaves("tune", *words, "--trials", "1", "--json")
    assert code == 0
    assert "Trial 3: " in err, "the study goes on"
    assert "as the recipe says" in err, "another start is tried too"
    best = json.loads(out)
    assert yaml.safe_load(Path("best.yaml").read_text()) == best["settings"]
    assert best["settings"]["model"] == model
    assert best["settings"]["dim"] in (8, 16), "what is given is not searched"
    assert ("n3" in best["settings"]) == (model == "complex"), "ranges suit the model"
    code, out, _ = sheaves("train", "nations", "--config", "best.yaml", "--out", "m", "--json")
    assert json.loads(out)["validation_mrr"] == best["validation_mrr"], "the same run, the same MRR"


def test_nothing_but_data_is_enough(sheaves: Sheaves, tmp_path: Path) -> None:
    given = ("train", "nations", "--out", tmp_path / "model", "--minutes", "0.001")
    code, out, err = sheaves(*given)
    assert code == 0, err
    assert "dimensions, all entities as candidates" in err
    assert "less than a minute" in err, "it says beforehand how long it takes"
    assert "sheaves evaluate leaves them out" in " ".join(out.split()), "what the MRR is"
    told = SheafEmbedding.load(tmp_path / "model").info
    assert told is not None
    assert told.training["n3"] > 0


def test_a_trained_model_is_not_replaced_unasked(sheaves: Sheaves, tmp_path: Path) -> None:
    given = ("train", "nations", *SMALL[:2], "--epochs", 1, "--out", tmp_path / "model")
    assert sheaves(*given)[0] == 0
    before = (tmp_path / "model" / "config.json").read_bytes()
    code, _, err = sheaves(*given)
    assert code == 2
    assert err.count("\n") == 1
    assert "--force" in err
    assert (tmp_path / "model" / "config.json").read_bytes() == before
    assert sheaves(*given, "--resume")[0] == 2, "it is at its end"
    assert sheaves(*given, "--force")[0] == 0


@pytest.mark.parametrize("command", ["train", "tune"])
def test_a_table_of_nodes_is_questioned_before_the_training(
    sheaves: Sheaves, tmp_path: Path, command: str
) -> None:
    rows = [f"Gene::{n}\tname of {n}\tGene" for n in range(79)]
    rows += [f"Gene::{n}\tnear\tGene::{m}" for n in range(7) for m in range(7, 17)]
    (tmp_path / "nodes.tsv").write_text("\n".join(rows) + "\n")
    given = (command, tmp_path / "nodes.tsv", *SMALL[:2], "--epochs", 1, "--out", tmp_path / "m")
    if command == "tune":
        given = (*given, "--trials", 1, "--study", tmp_path / "study.db")
    code, _, err = sheaves(*given)
    assert code == 2
    assert "80 relations among 149 facts" in err
    assert "--columns" in err
    assert "--force" in err
    assert sheaves(*given, "--force")[0] == 0


def test_a_file_is_learned_whole_and_measured_by_what_was_not(
    sheaves: Sheaves, tmp_path: Path
) -> None:
    rows = [f"e{a}\tr{k}\te{(a + k) % 30}" for a in range(30) for k in range(1, 5)]
    (tmp_path / "graph.tsv").write_text("\n".join(rows) + "\n")
    given = ("train", tmp_path / "graph.tsv", "--dim", 8, "--epochs", 2, "--threads", 1)
    code, _, err = sheaves(*given, "--out", tmp_path / "model")
    assert code == 0, err
    assert "all facts, epoch 1/" in err
    for row in rows[:3]:
        head, relation, tail = row.split("\t")
        shown = sheaves("query", tmp_path / "model", f"ASK {{ :{head} :{relation} :{tail} }}")[1]
        assert shown == "yes: the facts hold it\n"
    code, shown, err = sheaves("evaluate", tmp_path / "model", "--json")
    assert "never saw these facts" in err
    assert json.loads(shown)["triples"] == 6
    code, shown, err = sheaves("calibrate", tmp_path / "model", "--sample", 2, "--only", "tau")
    assert code == 0, err
    words = " ".join(sheaves("info", tmp_path / "model")[1].split())
    assert "by a model that never saw the 12 held-out facts (measured/)" in words
    assert "test mrr" in words
    assert "measured/weights.safetensors" in sheaves("check", tmp_path / "model")[1]
    sheaves(*given, "--no-refit", "--out", tmp_path / "once")
    assert not (tmp_path / "once" / "measured").exists()


def test_a_model_may_have_the_name_of_the_data_set_that_it_learned(
    sheaves: Sheaves, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("train", "nations", "--model", "complex", "--dim", "4", "--epochs", "1")
    assert sheaves(*words, "--out", "nations")[0] == 0
    code, _, err = sheaves(*words, "--out", "other")
    assert code == 0, err
    assert "1592 train" in err, "the data set, not the log of the model of that name"
    code, _, err = sheaves("train", "nations/", *words[2:], "--out", "third")
    assert (code, "holds a model, and no data" in err) == (2, True)
    code, _, err = sheaves("train", "other", *words[2:], "--out", "third")
    assert (code, "holds a model, and no data" in err) == (2, True)


def test_tuning_takes_what_training_takes_about_the_data(sheaves: Sheaves, tmp_path: Path) -> None:
    rows = [f"a{n % 7};r;b{n % 11}" for n in range(70)]
    (tmp_path / "facts.csv").write_text("\n".join(rows))
    (tmp_path / "false.csv").write_text("a0\tr\ta1\n")
    (tmp_path / "types.tsv").write_text("".join(f"a{n}\tA|B\n" for n in range(7)))
    about = ("--delimiter", ";", "--types", tmp_path / "types.tsv", "--type-separator", "|")
    about = (*about, "--false", tmp_path / "false.csv")
    settings = ("--model", "complex", "--dim", "4", "--epochs", "1")
    files = ("--study", tmp_path / "study.db", "--out", tmp_path / "best.yaml")
    given = (tmp_path / "facts.csv", *about, *settings)
    code, _, err = sheaves("tune", *given, *files, "--trials", "1")
    assert code == 0, err
    seen = err.splitlines()[0]
    code, _, err = sheaves("train", *given, "--out", tmp_path / "model", "--no-refit")
    assert code == 0, err
    assert err.splitlines()[0] == seen
    (tmp_path / "false.csv").write_text("a0\tr\n")
    code, _, err = sheaves("tune", *given, *files, "--trials", "1")
    assert (code, "false.csv" in err) == (2, True), "what is false is read"

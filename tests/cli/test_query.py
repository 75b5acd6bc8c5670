"""`sheaves query` and `sheaves ask`, as a user meets them."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knowledge_sheaves.cli.ask import Completer
from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.evaluation.trust import keep_trust
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.query import Options
from knowledge_sheaves.query.asking import Asker
from knowledge_sheaves.ranking.words import Cover
from pace import slower

Sheaves = Callable[..., tuple[int, str, str]]
PATH = "SELECT ?x { :virus :causes/:affects ?x }"
SHORT = "virus causes ?y . ?y affects ?x"


def bindings(sheaves: Sheaves, *words: object) -> list[dict[str, Any]]:
    code, out, err = sheaves("query", *words, "--json")
    assert (code, err) == (0, "")
    found: list[dict[str, Any]] = json.loads(out)["results"]["bindings"]
    return found


def names(rows: list[dict[str, Any]], variable: str = "x") -> list[str]:
    return [row[variable]["value"] for row in rows]


@pytest.mark.parametrize("solver", ["auto", "harmonic", "chaining"])
def test_json_has_what_the_library_answers(sheaves: Sheaves, trained: Path, solver: str) -> None:
    asker = Asker(SheafEmbedding.load(trained), Options(solver=solver))
    expected = asker.answer(PATH, top=7)
    found = bindings(sheaves, trained, PATH, "--solver", solver, "--top", "7")
    assert names(found) == [answer.names[0] for answer in expected]
    assert [float(row["energy"]["value"]) for row in found] == expected.energies.tolist()
    assert [row["rank"]["value"] for row in found] == list("1234567")


def test_the_short_form_and_sparql_ask_the_same(sheaves: Sheaves, trained: Path) -> None:
    assert bindings(sheaves, trained, PATH) == bindings(sheaves, trained, SHORT)


def test_limit_and_top(sheaves: Sheaves, trained: Path) -> None:
    assert len(bindings(sheaves, trained, PATH)) == 10
    assert len(bindings(sheaves, trained, f"{PATH} LIMIT 12")) == 12
    assert len(bindings(sheaves, trained, f"{PATH} LIMIT 12", "--top", "3")) == 3


def test_new_leaves_out_what_is_known(sheaves: Sheaves, trained: Path) -> None:
    everything = bindings(sheaves, trained, PATH, "--top", "135")
    new = bindings(sheaves, trained, PATH, "--top", "135", "--new")
    unknown = {row["x"]["value"] for row in everything if row["known"]["value"] == "false"}
    assert set(names(new)) == unknown
    assert 0 < len(new) < len(everything)


def test_facts_may_be_ignored(sheaves: Sheaves, trained: Path) -> None:
    remembered = bindings(sheaves, trained, PATH, "--top", "1")
    ignored = bindings(sheaves, trained, PATH, "--top", "1", "--set", "facts=ignored")
    assert float(remembered[0]["probability"]["value"]) == pytest.approx(1)
    assert float(ignored[0]["probability"]["value"]) < 0.9999


def test_query_from_a_file_and_from_stdin(
    sheaves: Sheaves, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "query.rq").write_text(PATH, encoding="utf-8")
    expected = bindings(sheaves, trained, PATH)
    assert bindings(sheaves, trained, "--file", tmp_path / "query.rq") == expected
    monkeypatch.setattr(sys, "stdin", io.StringIO(PATH))
    assert bindings(sheaves, trained, "-") == expected


def test_many_queries_one_line_each(sheaves: Sheaves, trained: Path, tmp_path: Path) -> None:
    rows = [
        {"id": "a", "query": PATH},
        {"id": "b", "query": "SELECT ?x { :virus :cures ?x }"},
        {"id": "c", "query": "ASK { :virus :causes :disease_or_syndrome }"},
        {"query": f"{PATH} LIMIT 2"},
        {"id": None, "query": "SELECT ?x { VALUES ?x { } :virus :causes ?x }"},
    ]
    file = tmp_path / "in.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)) + "\n\n", encoding="utf-8")
    code, out, err = sheaves("query", trained, "--jsonl", file, "--explain")
    found = [json.loads(line) for line in out.splitlines()]
    assert code == 2, "one of them could not be answered"
    assert err == "5 queries, 1 of them not understood or not answered.\n"
    assert [row["id"] for row in found] == ["a", "b", "c", 4, None]
    assert found[0]["results"]["bindings"] == bindings(sheaves, trained, PATH)
    assert len(found[0]["explanations"]) == 10
    assert "'cures'" in found[1]["error"]
    assert (found[2]["boolean"], found[2]["known"]) == (True, True)
    assert len(found[3]["results"]["bindings"]) == 2
    assert found[4]["results"]["bindings"] == []


def test_a_line_that_is_no_query_is_named_and_does_not_end_the_run(
    sheaves: Sheaves, trained: Path, tmp_path: Path
) -> None:
    (tmp_path / "in.jsonl").write_text('{"id": 1, "query": "SELECT"}\n{"id": 2}\n')
    code, out, _ = sheaves("query", trained, "--jsonl", tmp_path / "in.jsonl")
    first, second = map(json.loads, out.splitlines())
    assert (code, first["id"], second["id"]) == (2, 1, 2)
    assert "in.jsonl, line 2: a line is a JSON object such as" in second["error"]


def test_a_file_of_questions_as_others_write_them(
    sheaves: Sheaves, trained: Path, tmp_path: Path
) -> None:
    rows = (
        b'\xef\xbb\xbf{"id": "a\xe2\x80\xa8b", "query": "virus causes ?x"}\r',  # no end of a line
        b'{"id": "\xff", "query": "virus causes ?x"}',  # not UTF-8
        b'{"id": [NaN], "query": "virus causes ?x"}',  # Python reads these, JSON has none
        b'{"id": 1e999, "query": "virus causes ?x"}',
    )
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(rows))
    code, out, _ = sheaves("query", trained, "--jsonl", tmp_path / "in.jsonl")
    found = [json.loads(line) for line in out.splitlines()]
    assert code == 2
    assert [row["id"] for row in found] == ["a\u2028b", 2, 3, 4]
    assert "error" not in found[0]
    assert all("a line is a JSON object such as" in row["error"] for row in found[1:])


def test_one_that_a_solver_cannot_take_leaves_the_others(
    sheaves: Sheaves, trained: Path, tmp_path: Path
) -> None:
    negated = "virus causes ?y . ?y affects ?x . not fungus causes ?y"
    rows = [{"query": negated}, {"query": SHORT}]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, rows)))
    code, out, _ = sheaves(
        "query", trained, "--jsonl", tmp_path / "in.jsonl", "--solver", "harmonic"
    )
    first, second = map(json.loads, out.splitlines())
    assert code == 2
    assert "use the solver chaining" in first["error"]
    assert len(second["results"]["bindings"]) == 10


def test_the_table_and_the_reasons(sheaves: Sheaves, trained: Path, tmp_path: Path) -> None:
    picture = tmp_path / "why.svg"
    code, out, err = sheaves("query", trained, SHORT, "--explain", "--plot", picture, "--top", "4")
    assert (code, err) == (0, f"Wrote {picture}\n")
    best = names(bindings(sheaves, trained, SHORT, "--top", "4"))
    lines = out.splitlines()
    assert [line.split()[1] for line in lines if line.split()[:1] == ["4"]] == [best[3]]
    assert "Solved by chaining." in out
    for rank, name in enumerate(best[:3], 1):
        assert f"{rank}. {name.replace('_', ' ')}, because" in lines
        assert f"?x = {name}" in lines
    assert "4. " not in out, "the table has it, the drawings would be too many"
    assert out.count("◂─ causes ── virus") == 3
    assert out.count("   - virus causes ") == 3
    assert picture.read_text(encoding="utf-8").startswith("<?xml")


def test_a_query_keeps_to_its_limits(sheaves: Sheaves, trained: Path) -> None:
    code, out, err = sheaves("query", trained, SHORT, "--time-limit", "0")
    assert (code, out) == (1, "")
    assert "took longer than its time limit" in err
    limited = bindings(sheaves, trained, SHORT, "--time-limit", "60", "--memory-limit", "1")
    assert limited == bindings(sheaves, trained, SHORT)


def test_several_variables_have_a_column_each(sheaves: Sheaves, trained: Path) -> None:
    text = "SELECT ?y ?x { :virus :causes ?y . ?y :affects ?x }"
    found = bindings(sheaves, trained, text, "--top", "2")
    assert all({"y", "x", "rank", "probability"} <= row.keys() for row in found)
    without = f"{text[:-1]} FILTER NOT EXISTS {{ ?x :causes ?y }} }}"
    assert len(bindings(sheaves, trained, without, "--top", "3")) == 3
    code, out, _ = sheaves("query", trained, text, "--top", "2")
    assert code == 0
    assert {"?y", "?x", "energy"} <= {word for line in out.splitlines() for word in line.split()}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ASK { :virus :causes :disease_or_syndrome }", "yes: the facts hold it\n"),
        ("virus treats entity", "no: predicted with probability "),
    ],
)
def test_ask_says_why(sheaves: Sheaves, trained: Path, text: str, sentence: str) -> None:
    code, out, err = sheaves("query", trained, text)
    assert (code, err) == (0, "")
    assert out.startswith(sentence)
    document = json.loads(sheaves("query", trained, text, "--json")[1])
    assert document["boolean"] is out.startswith("yes")


def test_labels_and_types_are_shown_and_chosen(sheaves: Sheaves, typed_model: Path) -> None:
    words = ("query", typed_model, "Ann likes ?x", "--solver", "harmonic")
    code, out, _ = sheaves(*words)
    assert code == 0
    assert {"label", "Fargo", "Q1"} <= {word for line in out.splitlines() for word in line.split()}
    assert sheaves(*words, "--type", "Person")[1] == "No answers.\n"
    code, _, err = sheaves(*words, "--type", "Persn")
    assert code == 2
    assert "Person" in err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "Give one of a QUERY (- for stdin), --file FILE and --jsonl FILE."),
        (("a b ?x", "--file", "f"), "Give one of a QUERY (- for stdin), --file FILE and"),
        (("--file", "nowhere.rq"), "nowhere.rq cannot be read: No such file or directory."),
        (("SELECT ?x { :viris :causes ?x }",), "did you mean 'virus'"),
        (("SELECT ?x { :virus :causes ?x",), "The query ends too early"),
        (("virus causes ?x", "--solver", "naive"), "The solver naive adds up translations"),
        (("virus causes ?x", "--plot", "why.txt"), "why.txt: pictures are written as"),
    ],
)
def test_a_bad_question_is_one_sentence(
    words: tuple[str, ...], sentence: str, sheaves: Sheaves, trained: Path
) -> None:
    code, _, err = sheaves("query", trained, *words)
    assert code == 2
    assert sentence in err
    assert err.count("\n") == 1


def test_the_prompt_answers_until_the_input_ends(trained: Path) -> None:
    typed = f"""\
:explain on
:top 2
{SHORT}
SELECT ?x {{
  :virus :causes ?x .

  :nobody :knows ?x
}}
SELECT ?x
{{ :virus :causes ?x }} LIMIT 1
:solver magic
:solver harmonic
:new on
virus causes ?x
virus causes disease_or_syndrome
:sing
help
quit
virus causes ?never
"""
    command = [sys.executable, "-m", "knowledge_sheaves", "ask", str(trained)]
    done = subprocess.run(command, input=typed, capture_output=True, text=True, check=True)
    assert done.stdout.count("Solved by chaining.") == 2
    assert done.stdout.count("Solved by harmonic.") == 1
    assert done.stdout.count("?x = ") == 3, "reasons for the best answer of each"
    assert "yes: the facts hold it" in done.stdout
    assert "Ask in SPARQL" in done.stdout
    assert "?never" not in done.stdout
    errors = done.stderr.splitlines()
    assert len(errors) == 5
    assert "ends too early" in errors[0], "an empty line ends a question"
    assert errors[1] == "':nobody :knows ?x' is no command here: :help lists them."
    assert "not SPARQL" in errors[2], "a brace too many is no reason to wait for more"
    assert "There is no solver 'magic'" in errors[3]
    assert errors[4] == "':sing' is no command here: :help lists them."


def test_names_are_completed(trained: Path) -> None:
    completer = Completer(SheafEmbedding.load(trained).graph)

    def matches(text: str) -> list[str | None]:
        return [completer.complete(text, place) for place in range(3)]

    assert matches(":vir") == [":virus", None, None]
    assert matches("caus") == ["causes", None, None]
    assert matches("zzz") == [None, None, None]


def test_a_fact_of_any_split_is_known_unless_training_alone_counts(
    sheaves: Sheaves, model: Path
) -> None:
    data = load("umls")
    assert data.test is not None
    head, relation, tail = data.test.decode(data.test.triples[:1])[0]
    question = f"ASK {{ :{head} :{relation} :{tail} }}"
    assert sheaves("query", model, question)[1] == "yes: the facts hold it\n"
    assert "predicted" in sheaves("query", model, question, "--known", "train")[1]
    asked = ("predict", model, "--head", head, "--relation", relation, "--top", 200, "--json")
    for given, known in ((), "test"), (("--known", "train"), None):
        answers = json.loads(sheaves(*asked, *given)[1])["answers"]
        assert {each["name"]: each["known"] for each in answers}[tail] == known


@pytest.fixture(scope="module")
def measured(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of which it was measured how far to trust its facts."""
    folder = tmp_path_factory.mktemp("measured") / "model"
    shutil.copytree(trained, folder)
    keep_trust(SheafEmbedding.load(folder), folder, questions=False)
    return folder


def test_a_set_that_is_not_shown_whole_says_so(sheaves: Sheaves, measured: Path) -> None:
    asked = ("query", measured, "virus causes ?x", "--coverage", "0.99")
    _, out, _ = sheaves(*asked, "--json")
    document = json.loads(out)
    size = document["coverage"]["size"]
    assert size > 3, document
    whole, few = (" ".join(sheaves(*asked, *more)[1].split()) for more in ((), ("--top", "3")))
    assert f"The first {size} new answers hold the missing one" in whole
    assert "of them are shown" not in whole
    assert f"3 of them are shown: --top {size} shows all." in few


def test_a_set_is_no_larger_than_what_is_possible(sheaves: Sheaves, measured: Path) -> None:
    asked = ("query", measured, "virus causes ?x", "--coverage", "0.99", "--type", "entity")
    size = json.loads(sheaves(*asked, "--json")[1])["coverage"]["size"]
    assert size < 135
    cover = Cover(0.99, 900, "so many facts")
    assert str(cover.among(120)).startswith("It takes all 120 possible new answers")
    assert cover.among(None) == cover.among(1_000) == cover.among(0) == cover


def test_misspelt_words_are_looked_up_in_time(sheaves: Sheaves, trained: Path) -> None:
    start = time.process_time()
    code, _, err = sheaves("query", trained, "a " * 8_000 + "?x")
    assert code
    assert "three places" in err
    assert time.process_time() - start < 1.5 * slower()
    for text, meant in (
        ("?x results of virus", "result_of"),
        ("acquired abnormality coauses ?x", "coauses"),
    ):
        code, _, err = sheaves("query", trained, text)
        assert code
        assert meant in err

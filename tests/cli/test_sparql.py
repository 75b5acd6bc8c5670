"""Full SPARQL by `sheaves query` and `sheaves ask`."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import knowledge_sheaves as ks
from knowledge_sheaves.embedding import ModelInfo, SheafEmbedding, model_config
from knowledge_sheaves.graph.readers import load

Sheaves = Callable[..., tuple[int, str, str]]
COUNT = "SELECT (COUNT(*) AS ?n) { ?x :treats ?y }"
BLOCK = """SELECT ?y ?x ?p { :virus :causes ?y
  SERVICE ks:predict { ?x :treats ?y . ?x ks:probability ?p . ks:answers ks:top 1 } }
  ORDER BY ?y LIMIT 2"""


def test_facts_are_asked_in_full_and_shown_as_a_table(sheaves: Sheaves, trained: Path) -> None:
    code, out, err = sheaves("query", trained, COUNT, "--facts-only", "--format", "csv")
    number = int(out.splitlines()[1])
    assert (code, err) == (0, "")
    assert number > 10
    assert f" {number} " in sheaves("query", trained, COUNT, "--facts-only")[1]
    assert sheaves("query", trained, "ASK { :virus ?p ?o }", "--facts-only")[1] == "yes\n"
    nothing = "SELECT ?x { ?x :treats :virus }"
    assert sheaves("query", trained, nothing, "--facts-only")[1] == "No answers.\n"
    misspelt = "SELECT ?x { ?x :treats :virsu }"
    code, out, err = sheaves("query", trained, misspelt, "--facts-only")
    assert code
    assert "virus" in err


def test_facts_only_predicts_nothing(sheaves: Sheaves, trained: Path) -> None:
    pattern = "SELECT ?x { ?x :treats :virus }"
    assert len(sheaves("query", trained, pattern)[1].splitlines()) > 10
    assert sheaves("query", trained, pattern, "--facts-only")[1] == "No answers.\n"
    assert sheaves("query", trained, "?x treats virus", "--facts-only")[1] == "No answers.\n"
    code, _, err = sheaves("query", trained, BLOCK, "--facts-only")
    assert code == 2
    assert "leave one of the two out" in err


def test_graphs_are_written_in_their_forms(sheaves: Sheaves, trained: Path) -> None:
    text = "CONSTRUCT { ?y :of ?x } { ?x :treats ?y } LIMIT 1"
    _, lines, _ = sheaves("query", trained, text, "--facts-only")
    assert lines.startswith("<urn:name:")
    _, document, _ = sheaves("query", trained, text, "--facts-only", "--format", "jsonld")
    assert len(json.loads(document)) == 1
    _, described, _ = sheaves("query", trained, "DESCRIBE :virus", "--facts-only")
    assert "<urn:name:virus> <urn:name:causes> " in described
    code, _, err = sheaves("query", trained, text, "--facts-only", "--format", "xml")
    assert (code, err) == (2, "sheaves: A graph is written as ttl, nt, jsonld, not as 'xml'.\n")


def test_a_block_is_answered_as_in_python(sheaves: Sheaves, trained: Path) -> None:
    code, out, err = sheaves("query", trained, BLOCK, "--json")
    assert (code, err) == (0, "")
    assert out.encode() == ks.load(trained).sparql(BLOCK, "json").data + b"\n"


@pytest.mark.parametrize("option", ["--top=3", "--explain", "--new", "--type=entity"])
def test_options_of_plain_patterns_are_refused(
    sheaves: Sheaves, trained: Path, option: str
) -> None:
    code, _, err = sheaves("query", trained, BLOCK, option)
    assert code == 2
    assert err.startswith(f"sheaves: {option.partition('=')[0]} is for plain patterns")


def test_the_prompt_takes_blocks(
    sheaves: Sheaves, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(" ".join(BLOCK.split()) + "\n"))
    code, out, err = sheaves("ask", trained)
    assert (code, err) == (0, "")
    assert "?x" in out


def test_tables_have_labels_and_values_as_they_are_written(
    sheaves: Sheaves, tmp_path: Path
) -> None:
    lines = [f"<http://s/p{i}> <http://s/made> <http://s/x{i % 3}> ." for i in range(9)]
    label, year = "<http://www.w3.org/2000/01/rdf-schema#label>", "<http://s/year>"
    whole = "<http://www.w3.org/2001/XMLSchema#integer>"
    lines += [f'<http://s/x0> {label} "Lens" .', f'<http://s/x0> {year} "2020"^^{whole} .']
    lines += [f'<http://s/made> {label} "has made" .']
    lines += [f'<http://s/x0> <http://s/price> "28.40"^^{whole.replace("integer", "decimal")} .']
    (tmp_path / "facts.nt").write_text("\n".join(lines) + "\n")
    data = load(tmp_path / "facts.nt")
    model = SheafEmbedding(model_config("complex", dim=4), data.train)
    model.info = ModelInfo.of(data)
    model.save(tmp_path / "model")
    text = (
        "SELECT ?x ?r ?y ?p { <http://s/p0> ?r ?x . ?x <http://s/year> ?y ; <http://s/price> ?p }"
    )
    _, out, _ = sheaves("query", tmp_path / "model", text, "--facts-only")
    for cell in ("Lens", "http://s/x0", "has made", "http://s/made", " 2020 ", " 28.4 "):
        assert cell in out
    _, out, _ = sheaves("query", tmp_path / "model", text, "--facts-only", "--format", "csv")
    assert out.splitlines()[1] == "http://s/x0,http://s/made,2020,28.4", "as the W3C has it"


def test_rows_of_nothing_and_of_triples_are_shown(sheaves: Sheaves, trained: Path) -> None:
    for text in ("SELECT (1/0 AS ?n) {}", "SELECT (TRIPLE(:virus, :causes, :virus) AS ?n) {}"):
        code, out, err = sheaves("query", trained, text, "--facts-only")
        assert (code, err) == (0, "")
        assert "?n" in out

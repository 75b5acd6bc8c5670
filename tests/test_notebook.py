"""What a notebook shows: tables and pictures, and no name that becomes a tag."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import knowledge_sheaves as ks
from knowledge_sheaves.graph import EntityType, Relation
from knowledge_sheaves.notebook import MOST_ROWS, facts, table

NOTEBOOK = Path(__file__).parents[1] / "examples" / "first_look.ipynb"
EVIL = '<script>alert("1")</script>'


class Tags(HTMLParser):
    """Collects the elements of a page, and the texts in its cells."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.cells: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)

    def handle_data(self, data: str) -> None:
        if (
            data.strip()
            and self.names
            and self.names[-1] in ("td", "th", "li", "caption", "summary")
        ):
            self.cells.append(data.strip())


@pytest.fixture(scope="module")
def model() -> ks.Model:
    schema = ks.Schema(
        [EntityType(EVIL, 8), EntityType("Film & <Play>", 8)],
        [Relation("likes <b>", EVIL, "Film & <Play>"), Relation("knows &amp;", EVIL, EVIL)],
    )
    rows = [(EVIL, "knows &amp;", "Bob"), ("Bob", "likes <b>", "A <i>Film</i>")]
    types = {EVIL: EVIL, "Bob": EVIL, "A <i>Film</i>": "Film & <Play>"}
    labels = {"Bob": "<img src=x onerror=alert(1)>"}
    graph = ks.KnowledgeGraph.from_triples(rows, types=types, schema=schema, labels=labels)
    data = ks.Dataset(graph, name=EVIL, notes=(EVIL,))
    return ks.train(data, "transe", dim=8, epochs=1)


def test_names_are_text_wherever_they_stand(model: ks.Model) -> None:
    query = ks.Query.from_triples(
        [(EVIL, "knows &amp;", "?y"), ("?y", "likes <b>", "?<i>x")], "?<i>x", model.graph
    )
    found = model.answer(query, explain=True)
    pages = {
        "schema": model.graph.schema._repr_html_(),
        "model": model._repr_html_(),
        "predictions": model.predict(EVIL, "knows &amp;")._repr_html_(),
        "answers": found._repr_html_(),
    }
    for what, page in pages.items():
        tags = Tags(page)
        assert not {"script", "img", "b", "i", "play"} & set(tags.names), what
        assert any("<" in cell for cell in tags.cells), f"{what} shows the name itself"
    assert "A <i>Film</i>" in Tags(pages["answers"]).cells
    assert pages["answers"].count("<svg") == len(found)


def test_a_dollar_in_a_name_is_no_formula() -> None:
    graph = ks.KnowledgeGraph.from_triples([("cost $5", "costs $x^$", "Bob")])
    model = ks.train(graph, "transe", dim=4, epochs=1)
    query = ks.Query.from_triples([("cost $5", "costs $x^$", "?x")], "?x", graph)
    found = model.answer(query, top=1, explain=True)
    assert "<svg" in found.explanation[0]._repr_html_()


def test_a_long_table_says_how_much_is_left_out() -> None:
    rows = [{"place": place} for place in range(MOST_ROWS + 7)]
    page = table(rows)
    assert page.count("<tr>") == 1 + MOST_ROWS
    assert "7 more rows." in page
    assert "<tr>" not in table([])


def test_what_is_not_known_is_not_shown() -> None:
    page = facts({"name": None, "left_out": "", "train": {"mrr": 0.25}, "notes": ["a", "b"]})
    assert Tags(page).cells == ["train mrr", "0.25", "notes", "a b"]


@pytest.mark.slow
def test_the_notebook_runs_and_every_result_shows_itself() -> None:
    book = nbformat.read(NOTEBOOK, as_version=4)
    codes = [cell for cell in book.cells if cell.cell_type == "code"]
    assert not any(cell.outputs for cell in codes), "results are made anew, not kept"
    NotebookClient(book, timeout=300, kernel_name="python3").execute()
    shown = [_shown(cell) for cell in codes]
    pages = [Tags(output["text/html"]) for output in shown]
    assert {"complex", "umls"} <= set(pages[0].cells)
    assert "disrupts" in pages[1].cells
    assert "biologic_function" in pages[2].cells
    reasons = [cell for cell in pages[3].cells if cell.startswith("virus causes ")]
    assert any(cell.endswith("(known)") for cell in reasons), pages[3].cells
    assert pages[3].names.count("svg") == pages[3].names.count("details") == 3
    assert {"Overall", "both sides", "By pattern"} <= set(pages[4].cells)


def _shown(cell: nbformat.NotebookNode) -> dict[str, str]:
    (result,) = [out for out in cell.outputs if out.output_type == "execute_result"]
    return dict(result.data)

"""Finding entities as somebody types."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.search import NameSearch

NAMES = st.lists(st.text("abA _", min_size=1, max_size=6), min_size=1, max_size=12, unique=True)


@given(names=NAMES, text=st.text("abA _", min_size=1, max_size=3))
def test_what_holds_the_text_is_found_and_what_is_called_so_comes_first(
    names: list[str], text: str
) -> None:
    graph = KnowledgeGraph.from_triples([], entities=names)
    found = [f.name for f in NameSearch(graph).find(text, limit=len(names), kind="entity")]
    wanted = in_words(text)
    assert len(set(found)) == len(found)
    holding = {name for name in names if wanted and wanted in in_words(name)}
    if holding:
        assert set(found) == holding
        exact = [name for name in found if in_words(name) == wanted]
        assert found[: len(exact)] == exact
    elif not wanted:
        assert found == []


def in_words(name: str) -> str:
    return name.casefold().replace("_", " ").strip(" ")


def test_labels_are_found_and_misspelt_names_too() -> None:
    rows = [("DB1", "treats", "D1"), ("DB2", "treats", "D2")]
    labels = {"DB1": "Salbutamol", "D1": "asthma", "D2": "atrial fibrillation"}
    search = NameSearch(KnowledgeGraph.from_triples(rows, labels=labels))
    assert [found.label for found in search.find("fib")] == ["atrial fibrillation"]
    assert [found.label for found in search.find("astma")] == ["asthma"]
    assert [found.name for found in search.find("db", limit=1)] == ["DB2"]
    assert search.find("nothing like it") == []
    assert search.find("treat", kind="entity") == []

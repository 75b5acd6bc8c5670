"""`sheaves consistency` prints, draws and gives to programs what the library finds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.consistency import consistency

Sheaves = Callable[..., tuple[int, str, str]]


def test_the_document_is_what_the_library_finds(sheaves: Sheaves, model: Path) -> None:
    code, out, _ = sheaves("consistency", model, "--json", "--top", 3, "--eigenvalues", 5)
    assert code == 0
    found = consistency(SheafEmbedding.load(model), 5)
    shown = json.loads(out)
    assert (shown["h0"], shown["h1"]) == (found.h0, found.h1)
    assert shown["spectrum"] == pytest.approx(found.spectrum)
    assert [row["name"] for row in shown["relations"]] == [d.name for d in found.relations[:3]]
    assert len(shown["regions"]) == 3
    assert any("lifted" in note for note in shown["notes"])


def test_the_tables_name_relations_and_entities(sheaves: Sheaves, typed_model: Path) -> None:
    code, out, _ = sheaves("consistency", typed_model)
    assert code == 0
    assert "dimension of H⁰" in out
    assert "the end" in out
    assert "likes" in out
    assert "Ann" in out


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_the_picture_is_written(
    sheaves: Sheaves, typed_model: Path, tmp_path: Path, ending: str
) -> None:
    file, kept = tmp_path / f"consistency.{ending}", tmp_path / "kept"
    kept.write_text("the old one")
    file.hardlink_to(kept)
    assert sheaves("consistency", typed_model, "--picture", file)[0] == 0
    assert file.stat().st_size > 5_000
    assert kept.read_bytes() == b"the old one", "it was written over"
    if ending == "svg":
        assert "<!-- likes -->" in file.read_text(encoding="utf-8")


def test_other_endings_and_places_that_are_no_folder_are_refused(
    sheaves: Sheaves, typed_model: Path, tmp_path: Path
) -> None:
    code, _, err = sheaves("consistency", typed_model, "--picture", tmp_path / "x.doc")
    assert code == 2
    assert "a picture ends in .svg" in err
    code, _, err = sheaves("consistency", typed_model, "--picture", __file__ + "/x.svg")
    assert code == 1
    assert "cannot be written" in err

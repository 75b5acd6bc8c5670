"""The paper's figures in miniature: a small grid on UMLS, measured in parts, drawn from cells."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from betae_cases import write_betae
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.readers import load

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module("paper_figures")


def test_the_grid_is_the_papers_and_its_order_gives_all_pictures_early(figures: ModuleType) -> None:
    grid = figures.Grid()
    cells = grid.cells()
    assert len(cells) == len(set(cells)) == 3 * 10 * 9 + 4 * 9
    assert cells == figures.Grid().cells()
    assert all(cell.relation_dim <= cell.dim for cell in cells)
    assert all(cell.relation_dim == cell.dim for cell in cells if cell.model == "transe")
    assert all(cell.alpha == 0 for cell in cells if cell.sections == 1)
    assert {cell.sections for cell in cells[:22]} == {1}
    frame = pl.DataFrame([figures.asdict(cell) for cell in cells[:44]])
    assert set(frame.filter(dim=32, relation_dim=32, sections=16)["alpha"]) == set(figures.ALPHAS)


def test_boxes_compare_like_with_like(figures: ModuleType) -> None:
    """A setting that was not measured at every value is in no box."""
    columns = {"data": "x", "sample": 1, "split": "test", "epochs": 1}
    rows = [
        {"model": model, "dim": dim, "sections": 1, "alpha": 0.0, **columns}
        | dict.fromkeys(figures.PANELS, 0.1)
        for model, dims in (("se", (8, 16)), ("transe", (8,)))
        for dim in dims
    ]
    drawn = figures.boxes(pl.DataFrame(rows), "dim", ("model", "sections", "alpha"), "d_s")
    assert drawn.get_suptitle().endswith("2 models")
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["se"]
    alone = pl.DataFrame(rows).filter(dim=8)
    assert figures.boxes(alone, "dim", ("model", "sections", "alpha"), "d_s") is None


@pytest.mark.slow
def test_a_second_run_goes_on_and_a_third_trains_nothing(
    figures: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_betae(tmp_path / "umls", load("umls"), figures.TYPES, 3)
    out, docs = tmp_path / "out", tmp_path / "docs"
    words = ["--data", tmp_path, "--sets", "umls", "--out", out, "--docs", docs]
    words += ["--epochs", 1, "--sample", 3, "--dims", 4, 8, "--sections", 2]
    words += ["--alphas", 0, 0.1, "--models", "se", "transe"]

    def run(*more: object) -> str:
        figures.main([str(word) for word in (*words, *more)])
        return capsys.readouterr().out

    assert "no cells to draw yet" in run("--minutes", 0)
    cells = figures.Grid(("se", "transe"), (4, 8), (2,), (0.0, 0.1)).cells()
    assert run().count("training, 1 epochs") == len(cells) == 10
    names = [f"paper-{kind}-umls" for kind in ("alpha", "dimension", "sections")]
    table = (out / "paper-figures-umls.csv").read_bytes()
    pictures = {file.name: file.read_bytes() for file in out.glob("*.svg")}
    assert sorted(pictures) == [f"{name}.svg" for name in names]
    assert sorted(file.stem for file in out.glob("*.png")) == names
    assert "training" not in run()
    assert (out / "paper-figures-umls.csv").read_bytes() == table
    assert {file.name: file.read_bytes() for file in out.glob("*.svg")} == pictures
    assert (docs / "tables" / "paper-figures-umls.csv").read_bytes() == table
    frame = pl.read_csv(out / "paper-figures-umls.csv")
    assert [tuple(row) for row in frame.select("model", "dim", "relation_dim").rows()] == [
        (cell.model, cell.dim, cell.relation_dim) for cell in cells
    ]
    assert frame.select(figures.PANELS).to_numpy().min() > 0
    assert not list((out / "umls").glob("*/")), "models go once they are measured"
    with pytest.raises(InputError, match="give the same --epochs"):
        run("--sample", 2)

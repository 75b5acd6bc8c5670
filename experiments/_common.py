"""What the experiments share: models that are trained once, tables and pictures."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowledge_sheaves import files
from knowledge_sheaves.embedding import SheafConfig, SheafEmbedding
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.training import TrainingConfig, train
from knowledge_sheaves.training.checkpoint import checkpoint_beside
from knowledge_sheaves.training.settings import make_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Settings that do not change what comes out of a run.
INDIFFERENT = {"threads", "checkpoint_every", "logger"}


def configs(settings: Mapping[str, Any]) -> tuple[SheafConfig, TrainingConfig]:
    """Settings by name, as a model's and its training's; a null counts as a choice."""
    return make_settings(None, {}, [f"{name}={json.dumps(v)}" for name, v in settings.items()])


def finished(folder: Path) -> bool:
    """Whether a run is at its end: one that was interrupted leaves a checkpoint beside its folder.

    >>> finished(Path("no such folder"))
    False
    """
    return folder.exists() and not checkpoint_beside(folder).exists()


def trained(
    data: Dataset, model: SheafConfig, training: TrainingConfig, folder: Path
) -> SheafEmbedding:
    """Train a model, go on with a run that was stopped, or load what an earlier call trained."""
    if not finished(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        print(f"{folder.name}: training, {training.epochs} epochs", flush=True)
        return train(data, model, training, out=folder, resume=checkpoint_beside(folder).exists())
    found = SheafEmbedding.load(folder)
    assert found.info is not None, "a trained model knows how it came about"
    had = found.config.to_dict() | found.info.training | {"data": found.info.data_hash}
    wanted = model.to_dict() | training.to_dict() | {"data": data.hash}
    changed = [k for k, v in wanted.items() if k not in INDIFFERENT and had.get(k, v) != v]
    if changed:
        raise InputError(
            f"{folder} was trained with other settings for {', '.join(changed)}: choose another "
            "--out, or remove it."
        )
    return found


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; its first column is text, the others are numbers."""
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def write_text(name: str, text: str, out: Path, docs: Path | None = None) -> None:
    """Write a table into the results, and into the documentation if that is given."""
    for folder in (out, *([] if docs is None else [docs / "tables"])):
        files.write_text(folder / name, text)


def write_figure(name: str, figure: Figure, out: Path, docs: Path | None = None) -> None:
    """Write a picture as SVG and PNG into the results, and the SVG into the documentation.

    The same picture gives the same file: without the date, and with names that are not random.
    """
    import matplotlib

    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / f"{name}.png", dpi=150)
    figure.set_layout_engine("none")  # it is laid out by now, and that takes half of the time
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(out / f"{name}.svg", metadata={"Date": None})
    if docs is not None:
        (docs / "img").mkdir(parents=True, exist_ok=True)
        shutil.copy(out / f"{name}.svg", docs / "img")

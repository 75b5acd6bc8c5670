"""How good the recipes are: each beside the best of a search that had the same time for a trial.

python experiments/recipes.py --data DATA --out build/recipes --sets umls codex-s --trials 12
python experiments/recipes.py --data DATA --out build/recipes --sets wn18rr --recipe good --trials 0

DATA is a folder with the public data sets that PyKEEN does not bring. Settings are chosen for a
machine of a fixed speed, and epochs are counted where a recipe would watch the clock: so the table
comes out the same on a machine that is busy with other things. Every run has a folder of its own,
and every search a study: a second call goes on where the first one stopped. A model is tested once,
after all that was chosen. The table is written to OUT/recipes-RECIPE.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from _common import configs, markdown, trained, write_text

from knowledge_sheaves import files
from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.evaluation import evaluate
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.training.recipes import Plan, plan
from knowledge_sheaves.training.tuning import tune

SETS = {
    "kinships": "kinships",
    "nations": "nations",
    "umls": "umls",
    "codex-s": "codex/codex-s",
    "codex-m": "codex/codex-m",
    "wn18rr": "WN18RR",
    "fb15k-237": "FB15k-237",
    "hetionet": "hetionet/edges_subset.tsv",
    "nell-995": "NELL-betae",
}
SPEED = 13e9
"""About that of one core of the machine that the table was made on (`machine_speed`)."""


def read(root: Path, name: str) -> Dataset:
    place = root / SETS[name]
    return load(place if place.exists() else SETS[name], types="none")


def planned(data: Dataset, recipe: str, minutes: float | None, **other: Any) -> Plan:
    """What the recipe chooses, with its epochs counted; the run on all facts measures nothing."""
    given = {"threads": 1, **({} if minutes is None else {"minutes": minutes})}
    made = plan(data, recipe, given, speed=SPEED)
    return replace(made, training=replace(made.training, minutes=None, refit=False, **other))


def measure(model: SheafEmbedding, data: Dataset, folder: Path) -> dict[str, Any]:
    """Validation MRR and, once, that of test."""
    file = folder.with_name(f"{folder.name}.json")
    if not file.exists():
        assert model.info is not None, "a trained model knows how it came about"
        found = {
            "validation": model.info.metrics["validation_mrr"],
            "test": evaluate(model, data).mrr,
            "epochs": model.info.training["epochs_run"],
            "best_epoch": model.info.training["best_epoch"],
            "seconds": model.info.seconds,
        }
        files.write_json(file, found)
    return dict(json.loads(file.read_text()))


def search(data: Dataset, made: Plan, trials: int, folder: Path) -> dict[str, Any] | None:
    """The best of so many trials around the recipe; none where there was no search.

    Width and epochs are those of the recipe, so that a trial takes about as long.
    """
    known = folder / "study.json"
    before = json.loads(known.read_text()) if known.exists() else {"trials": 0}
    if before["trials"] < trials:
        found = tune(
            data,
            made.model,
            made.training,
            fixed=["threads", "epochs", "dim"],
            study=folder / "study.db",
            trials=trials - before["trials"],
            report=lambda trial: print(f"  trial {trial.number}: {trial.mrr}", flush=True),
        )
        before = {"trials": found.trials, "mrr": found.mrr, "settings": found.settings}
        files.write_json(known, before)
    return before if before["trials"] else None


def row(root: Path, name: str, given: argparse.Namespace) -> dict[str, Any]:
    """One line of the table: trained and searched as far as that was not done before."""
    data, folder = read(root, name), given.out / name
    folder.mkdir(parents=True, exist_ok=True)
    named = {"optimiser": given.optimiser, "learning_rate": given.learning_rate}
    other = {name: value for name, value in named.items() if value is not None}
    made = planned(data, given.recipe, given.minutes, **other)
    place = folder / given.recipe
    mine = measure(trained(data, made.model, made.training, place), data, place)
    found = {"settings": str(made).rpartition(":")[0], "recipe": mine}
    searched = search(data, made, given.trials, folder) if given.trials else None
    if searched:
        best = folder / f"tuned-{searched['trials']}"  # one that goes on may find another
        model = trained(data, *configs(searched["settings"]), best)
        found["searched"] = searched | measure(model, data, best)
    return found


def line(name: str, found: dict[str, Any]) -> list[str]:
    mine, other = found["recipe"], found.get("searched")
    shown = [name, found["settings"], f"{mine['validation']:.3f}", f"{mine['test']:.3f}"]
    if other is None:
        return [*shown, "", "", "", ""]
    numbers = (other["validation"], other["test"])
    difference = mine["test"] - other["test"]
    return [*shown, *(f"{n:.3f}" for n in numbers), f"{difference:+.3f}", str(other["trials"])]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="How good the recipes are.")
    parser.add_argument("--data", type=Path, required=True, help="the folder of the data sets")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the runs")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--recipe", default="quick", help="quick, good or best")
    parser.add_argument("--minutes", type=float, help="the minutes of best")
    parser.add_argument("--optimiser", help="in place of the recipe's")
    parser.add_argument("--learning-rate", type=float, help="the same")
    parser.add_argument("--trials", type=int, default=12, help="trials of the search; 0: none")
    given = parser.parse_args(words)
    rows = given.out / f"recipes-{given.recipe}.json"
    known: dict[str, Any] = json.loads(rows.read_text()) if rows.exists() else {}
    for name in given.sets:
        known[name] = row(given.data, name, given)
        print(" | ".join(line(name, known[name])), flush=True)
        files.write_json(rows, known)
    columns = ["", "recipe", "validation", "test", "search: validation", "test", "gap", "trials"]
    lines = [line(name, known[name]) for name in SETS if name in known]
    write_text(f"recipes-{given.recipe}.md", markdown(columns, lines), given.out)


if __name__ == "__main__":
    main()

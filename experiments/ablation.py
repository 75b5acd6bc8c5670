"""What each ingredient of a base model gives: one change at a time, judged on validation triples.

python experiments/ablation.py DATA --out build/ablation

Every row is a training run with a folder of its own, so a second call goes on where the first one
stopped. The table is written to OUT/ablation.md and OUT/ablation.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import yaml
from _common import configs, finished, markdown, trained, write_text

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers import load

SETTINGS = Path(__file__).with_suffix(".yaml")


def measure(data: Dataset, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Train with some settings, unless an earlier call has, and say what came of it."""
    model = trained(data, *configs(settings), folder)
    assert model.info is not None, "a trained model knows how it came about"
    return {
        "mrr": model.info.metrics["validation_mrr"],
        "epochs": model.info.training["epochs_run"],
        "seconds": model.info.seconds,
        "peak_memory": model.info.peak_memory,
        "parameters": model.num_parameters,
    }


def table(rows: dict[str, dict[str, Any]]) -> str:
    """The rows in Markdown, each with its distance from the first."""
    first = next(iter(rows.values()))["mrr"]
    return markdown(
        ["", "validation MRR", "change", "parameters", "minutes"],
        [
            [
                name,
                f"{100 * row['mrr']:.1f}",
                f"{100 * (row['mrr'] - first):+.1f}",
                f"{row['parameters'] / 1e6:.1f} M",
                f"{row['seconds'] / 60:.1f}",
            ]
            for name, row in rows.items()
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="What each ingredient of a base model gives.")
    parser.add_argument("data", help="a BetaE folder, or any other data that sheaves train takes")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the runs")
    parser.add_argument("--settings", type=Path, default=SETTINGS, help="a base and its rows")
    parser.add_argument("--rows", nargs="*", help="train no rows but these")
    parser.add_argument("--docs", type=Path, help="write the table into this documentation too")
    given = parser.parse_args()
    settings = yaml.safe_load(given.settings.read_text())
    data = load(given.data)
    rows: dict[str, dict[str, Any]] = {}
    for name, change in settings["rows"].items():
        folder = given.out / "".join(c if c.isalnum() else "-" for c in name)
        wanted = not given.rows or name in given.rows
        if not wanted and not finished(folder):
            continue
        try:
            rows[name] = measure(data, settings["base"] | change, folder)
        except InputError as error:
            if wanted:
                raise
            print(f"{name} is left out. {error}", flush=True)
            continue
        print(f"{name}: {rows[name]['mrr']:.4f}", flush=True)
        write_text("ablation.json", json.dumps(rows, indent=1), given.out)
        write_text("ablation.md", table(rows), given.out, given.docs)
    print(table(rows))


if __name__ == "__main__":
    main()

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

from knowledge_sheaves.cli.settings import make_settings
from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.training import train

SETTINGS = Path(__file__).with_suffix(".yaml")


def run(data: Dataset, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Train with some settings, or read what an earlier call has trained with them."""
    if not folder.exists():
        unset = [name for name, value in settings.items() if value is None]
        given = {name: value for name, value in settings.items() if value is not None}
        model, training = make_settings(None, given, [f"{name}=null" for name in unset])
        resume = folder.with_name(f"{folder.name}.checkpoint.safetensors").exists()
        train(data, model, training, out=folder, resume=resume)
    trained = SheafEmbedding.load(folder)
    assert trained.info is not None, "a trained model knows how it came about"
    return {
        "mrr": trained.info.metrics["validation_mrr"],
        "epochs": trained.info.training["epochs_run"],
        "seconds": trained.info.seconds,
        "peak_memory": trained.info.peak_memory,
        "parameters": trained.num_parameters,
    }


def table(rows: dict[str, dict[str, Any]]) -> str:
    """The rows in Markdown, each with its distance from the first."""
    lines = ["| | validation MRR | change | parameters | minutes |", "|---|---|---|---|---|"]
    first = next(iter(rows.values()))["mrr"]
    for name, row in rows.items():
        mrr, change = 100 * row["mrr"], 100 * (row["mrr"] - first)
        size, minutes = row["parameters"] / 1e6, row["seconds"] / 60
        lines.append(f"| {name} | {mrr:.1f} | {change:+.1f} | {size:.1f} M | {minutes:.1f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="What each ingredient of a base model gives.")
    parser.add_argument("data", help="a BetaE folder, or any other data that sheaves train takes")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the runs")
    parser.add_argument("--settings", type=Path, default=SETTINGS, help="a base and its rows")
    parser.add_argument("--rows", nargs="*", help="only these rows")
    given = parser.parse_args()
    settings = yaml.safe_load(given.settings.read_text())
    data = load(given.data)
    given.out.mkdir(parents=True, exist_ok=True)
    rows: dict[str, dict[str, Any]] = {}
    for name, change in settings["rows"].items():
        if given.rows and name not in given.rows:
            continue
        slug = "".join(c if c.isalnum() else "-" for c in name)
        rows[name] = run(data, settings["base"] | change, given.out / slug)
        print(f"{name}: {rows[name]['mrr']:.4f}", flush=True)
        (given.out / "ablation.json").write_text(json.dumps(rows, indent=1))
        (given.out / "ablation.md").write_text(table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()

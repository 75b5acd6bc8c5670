"""Draw the training curves of model folders: validation MRR over time, and loss over epochs.

python experiments/curves.py build/complex build/transe --out docs/img/fb15k-237.svg
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import polars as pl


def read_curve(folder: Path) -> pl.DataFrame:
    """The epochs of a run with the minutes of training after each."""
    curve = pl.read_csv(folder / "training.csv")
    return curve.with_columns(minutes=pl.col("seconds").cum_sum() / 60)


def draw(folders: list[Path], out: Path) -> None:
    """Draw one line per folder, named after it."""
    figure, (quality, loss) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for folder in folders:
        curve = read_curve(folder)
        if "mrr" in curve.columns:
            judged = curve.drop_nulls("mrr")
            quality.plot(judged["minutes"], judged["mrr"], marker=".", label=folder.name)
        loss.plot(curve["epoch"], curve["loss"], label=folder.name)
    quality.set(xlabel="minutes of training", ylabel="validation MRR")
    loss.set(xlabel="epoch", ylabel="loss")
    for axes in (quality, loss):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    loss.legend(frameon=False)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the training curves of model folders.")
    parser.add_argument("folders", nargs="+", type=Path, help="folders with a training.csv")
    parser.add_argument("--out", type=Path, required=True, help="an .svg or .png file")
    given = parser.parse_args()
    for folder in given.folders:
        if not (folder / "training.csv").exists():
            parser.error(f"{folder} has no training.csv: is it the folder of a trained model?")
    draw(given.folders, given.out)
    print(f"Wrote {given.out}")


if __name__ == "__main__":
    main()

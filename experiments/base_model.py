"""Train the summands of a base model, and sum them.

python experiments/base_model.py NELL-betae --out build/nell

Each summand is trained once and kept in OUT-members: a second call goes on where the first one
stopped. Their direct sum is the model in OUT.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import yaml
from _common import configs, trained

from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.training import sum_models

SETTINGS = Path(__file__).with_suffix(".yaml")


def main() -> None:
    parser = argparse.ArgumentParser(description="A base model: the direct sum of several runs.")
    parser.add_argument("data", help="a BetaE folder, or any other data that sheaves train takes")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the model")
    parser.add_argument("--settings", type=Path, default=SETTINGS, help="a base and its members")
    given = parser.parse_args()
    settings = yaml.safe_load(given.settings.read_text())
    data = load(given.data)
    members = []
    for name, own in settings["members"].items():
        folder = given.out.with_name(f"{given.out.name}-members") / name
        members.append(trained(data, *configs(settings["base"] | own), folder))
    whole = sum_models(members)
    whole.save(given.out)
    for name, model in zip([*settings["members"], "sum"], [*members, whole], strict=True):
        assert model.info is not None, "a trained model knows how it came about"
        minutes = (model.info.seconds or 0) / 60
        mrr = model.info.metrics["validation_mrr"]
        print(f"{name}: validation MRR {mrr:.4f}, {minutes:.0f} min of training")


if __name__ == "__main__":
    main()

"""What every process of a test does; the first one prints, as JSON, what is to be compared."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from knowledge_sheaves.embedding import SheafConfig, model_config
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.processes import Processes
from knowledge_sheaves.ranking import Predictor, rank_triples
from knowledge_sheaves.training import TrainingConfig
from knowledge_sheaves.training.sharded import train_sharded
from sharded_cases import answered, typed

OPTIONS = {"epochs": 2, "negatives": 5, "optimiser": "rowwise-adagrad"}
CASES: dict[str, tuple[str, SheafConfig, TrainingConfig]] = {
    "typed": (
        "typed",
        model_config("translational", dim=8, biases=True),
        TrainingConfig(**OPTIONS, batch_size=8),
    ),
    "corrupted": (
        "nations",
        model_config("transe", dim=6, biases="by-end"),
        TrainingConfig(**OPTIONS, batch_size=256, loss="margin"),
    ),
    "lifted": (
        "nations",
        model_config("complex", dim=8),
        TrainingConfig(**OPTIONS | {"optimiser": "adagrad"}, batch_size=256, n3=0.01),
    ),
    "no maps": (
        "nations",
        model_config("unstructured", dim=6),
        TrainingConfig(**OPTIONS, batch_size=256),
    ),
}


def data_of(name: str) -> Dataset:
    return typed() if name == "typed" else load(name)


def judged(model: object, data: Dataset) -> dict[str, object]:
    """Ranks of the validation facts, and the best answers to some questions."""
    assert data.valid is not None
    rows = data.valid.triples[:60]
    ranks = rank_triples(model, rows, [data.train, data.valid])  # type: ignore[arg-type]
    asked = data.train.decode(data.train.triples[::40])
    predictor = Predictor(model)  # type: ignore[arg-type]
    answers = [
        [(a.name, round(a.energy, 4), round(a.probability, 4)) for a in found]
        for head, relation, tail in asked
        for found in (
            predictor.predict(head=head, relation=relation, top=4, new=True),
            predictor.predict(relation=relation, tail=tail, top=4),
        )
    ]
    return {
        "ranks": {side: found.realistic.tolist() for side, found in ranks.sides.items()},
        "answers": [*answers, *answered(model, data, 3)],  # type: ignore[arg-type]
    }


def main(folder: Path) -> None:
    found = {}
    with Processes.started() as processes:
        for name, (source, model, training) in CASES.items():
            data = data_of(source)
            trained = train_sharded(processes, data, model, training, out=folder / name)
            assert trained.info is not None
            found[name] = judged(trained, data)
        if processes.first:
            print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""A process that saves or loads one model folder again and again: `python racing.py save …`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.numbers import not_numbers
from knowledge_sheaves.embedding.storage import ModelInfo, save_calibration, save_metrics
from knowledge_sheaves.errors import SheafError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.dataset import Dataset


def marked(number: int) -> SheafEmbedding:
    """A model each of whose files says which one it is: names, relations, facts, weights, all."""
    from knowledge_sheaves.embedding import model_config

    rows = [(f"{number}:{i}", f"r{number}", f"{number}:{(i + number) % 7}") for i in range(7)]
    graph = KnowledgeGraph.from_triples(rows)
    model = SheafEmbedding(model_config("transe", dim=4), graph)
    for weights in model.parameters():
        weights.data.fill_(float(number))
    model.info = ModelInfo.of(
        Dataset(graph, name=str(number)),
        calibration={"tau": float(number)},
        metrics={"number": number},
    )
    return model


def marks(model: SheafEmbedding) -> set[int]:
    """The numbers of all models that the files of this one come from."""
    assert model.info is not None
    assert not_numbers(model.state_dict()) is None
    found = {int(name.split(":")[0]) for name in model.graph.entities}
    found |= {int(name[1:]) for name in model.graph.schema.relation_names}
    found |= {int(value) for p in model.parameters() for value in p.detach().unique().tolist()}
    heads, tails = model.graph.triples[:, 0], model.graph.triples[:, 2]
    names = list(model.graph.entities)
    shifts = {
        (int(names[t].split(":")[1]) - int(names[h].split(":")[1])) % 7
        for h, t in zip(heads, tails, strict=True)
    }
    assert shifts == {next(iter(found)) % 7}, shifts
    found |= {int(value) for value in model.info.metrics.values()}  # they may be absent
    return found | {int(model.info.name), int(model.info.calibration["tau"])}


def save(folder: Path, number: int, seconds: float) -> int:
    """Save, measure and calibrate again and again; what a rival replaced meanwhile is refused."""
    model, until, count = marked(number), time.monotonic() + seconds, 0
    while time.monotonic() < until:
        model.save(folder)
        assert model.info is not None
        try:
            save_metrics({"number": number}, folder, model.info.generation)
            save_calibration({"tau": float(number)}, folder, model.info.generation)
        except SheafError as error:
            if "was replaced by another model" not in str(error):
                raise
        count += 1
    return count


def load(folder: Path, number: int, seconds: float) -> int:
    """Load again and again: every time it is one model, and soon."""
    until, count, slowest = time.monotonic() + seconds, 0, 0.0
    while time.monotonic() < until:
        started = time.monotonic()
        found = marks(SheafEmbedding.load(folder))
        assert len(found) == 1, f"a mixture of the models {found}"
        slowest = max(slowest, time.monotonic() - started)
        count += 1
    print(f"slowest {slowest:.3f}", file=sys.stderr)
    return count


if __name__ == "__main__":
    action, place, mark, duration = sys.argv[1:]
    print({"save": save, "load": load}[action](Path(place), int(mark), float(duration)))

"""Typed stalks, smaller ones for small types, against one type for all.

python experiments/typed.py --data DATA --sets codex-s codex-m hetionet nell --out build/types

Every model has a folder of its own under OUT and is trained and measured once: a second call goes
on where the first one stopped. The table is written to OUT/types.md, all numbers to OUT/types.json.

A schema is read off the training triples alone. Held-out triples that join types which their
relation does not join in training are ruled out by it: they count as not found, and are judged
false.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from _common import configs, markdown, trained, write_text

from knowledge_sheaves import files
from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.evaluation import evaluate
from knowledge_sheaves.evaluation.benchmark import fingerprint
from knowledge_sheaves.evaluation.classification import Labelled, Verdicts, classify, known_names
from knowledge_sheaves.graph import IntArray, KnowledgeGraph, Schema
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.graph.readers.negatives import read_negatives
from knowledge_sheaves.ranking import ranked_side

SETTINGS = Path(__file__).with_suffix(".yaml")
# What the driver takes from a row; all else are settings of the model and its training.
OWN = ("typed", "per_number")
COLUMNS = (
    *("", "types", "parameters", "of maps", "validation MRR", "test MRR", "H@10"),
    *("ruled out", "epochs", "minutes", "memory", "accuracy", "F1"),
)
NOTE = """
Parameters of maps count both directions where a model has reciprocal relations. Ruled out are the
test triples whose pair of types training does not show for their relation; they count as not found.
Memory is the most that the process held during training.
"""


@dataclass(frozen=True)
class Case:
    """One data set with its types and without, and false triples by split where it has any."""

    plain: Dataset
    typed: Dataset
    negatives: Mapping[str, Sequence[tuple[str, str, str]]]
    settings: Mapping[str, Any]


def read_case(root: Path, about: Mapping[str, Any], settings: Mapping[str, Any]) -> Case:
    """Read a data set; both versions have the same splits."""
    path, types = root / about["path"], str(about["types"])
    data = load(
        path,
        types=types if types.startswith("regex:") else root / types,
        min_type_count=settings["min_type_count"],
        min_pair_count=settings["min_pair_count"],
        stalks="types",
    )
    false = (
        {s: read_negatives(path, s) for s in ("valid", "test")} if about.get("negatives") else {}
    )
    return Case(without_types(data), as_trained(data), false, about.get("settings", {}))


def without_types(data: Dataset) -> Dataset:
    """The same triples with one type for all entities."""
    schema = data.train.schema
    single = Schema.single(schema.relation_names)
    return rebuild(data, single, schema.edge_names, np.zeros_like(data.train.entity_types))


def as_trained(data: Dataset) -> Dataset:
    """The same data under the schema of the training triples alone; others are dropped."""
    schema = data.train.schema
    seen = np.unique(data.train.triples[:, 1])
    edges = np.full(len(schema.relations), -1)
    edges[seen] = np.arange(len(seen))
    known = Schema(schema.types, [schema.relations[edge] for edge in seen.tolist()])
    return rebuild(data, known, edges, data.train.entity_types)


def rebuild(data: Dataset, schema: Schema, edges: IntArray, types: IntArray) -> Dataset:
    """The data in another schema: ``edges`` tells what an edge becomes, −1 for none."""

    def graph(old: KnowledgeGraph) -> KnowledgeGraph:
        heads, before, tails = old.triples.T
        after = edges[before]
        kept = after >= 0
        return KnowledgeGraph(
            *(schema, old.entities, types, heads[kept], after[kept], tails[kept]), labels=old.labels
        )

    return replace(data, **{name: graph(old) for name, old in data.splits.items()})


def with_widths(data: Dataset, full: int, step: int, per_number: float) -> Dataset:
    """Give every type a stalk by the number of its entities, in multiples of ``step``.

    The vectors of n entities span at most n dimensions: a wider stalk is never filled.
    """
    schema = data.train.schema
    counts = np.bincount(data.train.entity_types, minlength=len(schema.types))
    wanted = np.ceil(counts / per_number / step).astype(int).clip(1, full // step) * step
    kinds = [replace(k, dim=d) for k, d in zip(schema.types, wanted.tolist(), strict=True)]
    narrower = Schema(kinds, schema.relations)
    return rebuild(data, narrower, np.arange(len(schema.relations)), data.train.entity_types)


def run(case: Case, settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Train a row and measure it, or read what an earlier call has found."""
    model, training = configs({k: v for k, v in settings.items() if k not in OWN})
    data = case.typed if settings["typed"] else case.plain
    if settings.get("per_number"):
        data = with_widths(data, model.dim, model.n_blocks, settings["per_number"])
    forget_peak()
    found = trained(data, model, training, folder)
    weights, kept = fingerprint(found), folder.with_name(f"{folder.name}.json")
    if kept.exists():
        row: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        if row["weights"] == weights:
            return row
    row = {"weights": weights, **describe(found), **measure(found, data, case)}
    files.write_text(kept, json.dumps(row, indent=1))
    return row


def forget_peak() -> None:
    """Let the most memory that the process has held start anew, where Linux allows it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def describe(model: SheafEmbedding) -> dict[str, Any]:
    """What a model is, and what its training took."""
    assert model.info is not None, "a trained model knows how it came about"
    schema = model.graph.schema
    return {
        "types": len(schema.types),
        "edges": len(schema.relations),
        "stalks": {kind.name: kind.dim or model.config.dim for kind in schema.types},
        "parameters": model.num_parameters,
        "map_parameters": sum(p.numel() for p in model.maps.parameters()),
        "epochs": model.info.training["epochs_run"],
        "seconds": model.info.seconds,
        "peak_memory": model.info.peak_memory,
    }


def measure(model: SheafEmbedding, data: Dataset, case: Case) -> dict[str, Any]:
    """Link prediction on validation and test triples, and verdicts where some are known false."""
    found: dict[str, Any] = {}
    for split in ("valid", "test"):
        overall = evaluate(model, data, split).overall[ranked_side(model)]
        fitting = data.splits[split].num_triples / case.plain.splits[split].num_triples
        found[split] = {
            "mrr": fitting * overall.mrr,
            "hits_at_10": fitting * overall.hits_at_10,
            "ruled_out": 1 - fitting,
        }
    if case.negatives:
        found["classification"] = vars(judge(model, case))
    return found


def judge(model: SheafEmbedding, case: Case) -> Verdicts:
    """Verdicts on the test triples and the false ones, by thresholds of the validation triples."""
    labelled = {}
    for split, false in case.negatives.items():
        graph = case.plain.splits[split]
        true = graph.decode(graph.triples)
        rows = [*true, *known_names(case.plain.train, false)]
        # By name, because true triples may be ruled out as well.
        given = Labelled.of(model.graph, np.zeros((0, 3), np.int64), rows)
        labelled[split] = replace(given, true=np.arange(len(rows)) < len(true))
    return classify(model, labelled["valid"], labelled["test"]).overall


def line(name: str, row: Mapping[str, Any]) -> list[str]:
    """A row of the table."""
    verdicts = row.get("classification")
    scores = (row["valid"]["mrr"], row["test"]["mrr"], row["test"]["hits_at_10"])
    sizes = (row["parameters"], row["map_parameters"])
    return [
        name,
        str(row["types"]),
        *(f"{size / 1e6:.2f} M" for size in sizes),
        *(f"{score:.3f}" for score in scores),
        f"{100 * row['test']['ruled_out']:.1f} %",
        str(row["epochs"]),
        f"{row['seconds'] / 60:.1f}",
        f"{row['peak_memory'] / 2**30:.2f} GiB",
        *(f"{verdicts[name]:.3f}" if verdicts else "" for name in ("accuracy", "f1")),
    ]


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """All rows in Markdown, with what to know of them."""
    return markdown(COLUMNS, [line(name, row) for name, row in rows.items()]) + NOTE


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Typed stalks against one type for all.")
    parser.add_argument("--data", type=Path, required=True, help="the folder of the data sets")
    parser.add_argument("--sets", nargs="+", help="which of them; all if not given")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the models")
    parser.add_argument("--epochs", type=int, help="other than the settings say")
    parser.add_argument("--docs", type=Path, help="write the table there, too: tables/types.md")
    parser.add_argument("--settings", type=Path, default=SETTINGS, help="sets, a base and its rows")
    given = parser.parse_args(words)
    settings = yaml.safe_load(given.settings.read_text(encoding="utf-8"))
    for name in given.sets or ():
        if name not in settings["sets"]:
            parser.error(f"there is no set {name!r}, only {', '.join(settings['sets'])}")
    base = settings["base"] | ({"epochs": given.epochs} if given.epochs else {})
    rows: dict[str, dict[str, Any]] = {}
    for name in given.sets or settings["sets"]:
        case = read_case(given.data, settings["sets"][name], settings)
        for label, change in settings["rows"].items():
            slug = "".join(c if c.isalnum() else "-" for c in label)
            row = run(case, base | case.settings | change, given.out / name / slug)
            rows[f"{name}: {label}"] = row
            print(f"{name}: {label}: {row['test']['mrr']:.4f}", flush=True)
            write_text("types.json", json.dumps(rows, indent=1), given.out)
            write_text("types.md", table(rows), given.out, given.docs)
    print(table(rows))


if __name__ == "__main__":
    main()

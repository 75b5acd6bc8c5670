"""Classes with coordinates of their own, at equal parameters.

python experiments/hierarchy.py --data DATA --sets planted codex-s codex-m --out build/hierarchy

`planted` is made here: a hierarchy with a class that has two parents, true vectors that are direct
sums over ancestors, and relations of classes at every height. The types of CoDEx are flat: a type
counts as a subclass of every more frequent one that most of its entities have as well.

Every model has a folder of its own under OUT and is trained and measured once: a second call goes
on where the first one stopped. The table is written to OUT/hierarchy.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from _common import configs, markdown, trained, write_text
from scipy import sparse
from typed import as_trained

from knowledge_sheaves import files
from knowledge_sheaves.embedding import SheafConfig, SheafEmbedding
from knowledge_sheaves.evaluation import evaluate
from knowledge_sheaves.evaluation.benchmark import fingerprint
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.classes import Classes
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.graph.splits import split
from knowledge_sheaves.ranking import ranked_side

SETTINGS = Path(__file__).with_suffix(".yaml")
OWN = ("types", "seeds")
COLUMNS = (
    "",
    "classes",
    "parameters",
    "validation MRR",
    "test MRR",
    "H@10",
    "± of seeds",
    "minutes",
)


@dataclass(frozen=True)
class Case:
    """One data set whose types share maps, and the same with a stalk for every type."""

    shared: Dataset
    stalks: Dataset


def planted(about: Mapping[str, Any], seed: int = 0) -> Case:
    """Facts of a hierarchical sheaf: the tails that its products rank first."""
    rng = np.random.default_rng(seed)
    parents, size = about["classes"], int(about["numbers"])

    def up(kind: str) -> set[str]:
        return {kind}.union(*(up(parent) for parent in parents[kind])) if kind else set()

    kinds = [leaf for leaf in about["leaves"] for _ in range(about["size"])]
    entities = [f"{kind}-{place}" for place, kind in enumerate(kinds)]
    blocks = {name: slice(size * i, size * (i + 1)) for i, name in enumerate(["", *parents])}
    x = np.zeros((len(kinds), size * len(blocks)))
    for row, kind in enumerate(kinds):
        for part in ("", *sorted(up(kind))):
            x[row, blocks[part]] = rng.normal(size=size)
    rows = []
    for number, ends in enumerate(about["relations"]):
        seen = [np.concatenate([np.r_[blocks[c]] for c in ("", *sorted(up(end)))]) for end in ends]
        heads, tails = (np.array([not end or end in up(k) for k in kinds]) for end in ends)
        maps = rng.normal(size=(len(seen[1]), len(seen[0])))
        products = x[np.ix_(heads, seen[0])] @ maps.T @ x[np.ix_(tails, seen[1])].T
        best = np.argsort(-products, axis=1)[:, : about["tails"]]
        ids = np.flatnonzero(tails)[best]
        for head, found in zip(np.flatnonzero(heads).tolist(), ids.tolist(), strict=True):
            rows += [(entities[head], f"r{number}", entities[tail]) for tail in found]
    types = dict(zip(entities, kinds, strict=True))
    data = split(KnowledgeGraph.from_triples(rows, entities=entities), (0.8, 0.1, 0.1), seed)
    classes = Classes.of(entities, types, subclass_of={k: tuple(v) for k, v in parents.items()})
    everything = KnowledgeGraph.from_triples(rows, entities=entities, types=types)
    parts = {n: everything.with_triples(g.decode(g.triples)) for n, g in data.splits.items()}
    return Case(share(data, classes), as_trained(replace(data, **parts)))


def share(data: Dataset, classes: Classes) -> Dataset:
    """The data with other types over shared maps."""
    return replace(data, **{name: graph.shared(classes) for name, graph in data.splits.items()})


def induced(classes: Classes, entities: Sequence[str], most: float) -> Classes:
    """The same types, each below every more frequent one that most of its entities have as well."""
    group, table = classes.groups
    counts = sparse.csr_array(np.diag(np.bincount(group, minlength=table.shape[0])))
    both = (table.T @ counts @ table).toarray()
    size = both.diagonal()
    below = (both >= most * size[:, None]) & (size[None] > size[:, None]) & (size[:, None] > 0)
    parents = {
        classes.names[kind]: tuple(classes.names[int(p)] for p in np.flatnonzero(row))
        for kind, row in enumerate(below)
        if row.any()
    }
    own = {name: classes.own(place) for place, name in enumerate(entities)}
    return Classes.of(entities, own, subclass_of=parents)


def read_case(root: Path, name: str, settings: Mapping[str, Any]) -> Case:
    """Read or make a data set, in both versions."""
    if name == "planted":
        return planted(settings["planted"])
    about = settings["sets"][name]
    counts = {key: settings[key] for key in ("min_type_count", "min_pair_count")}
    how = {"types": root / about["types"], "type_separator": " "}
    data = load(root / about["path"], **how)
    assert data.train.classes is not None, "types were given"
    classes = induced(data.train.classes, list(data.train.entities), settings["induced"])
    stalks = load(root / about["path"], **how, **counts, stalks="types")
    return Case(share(data, classes), as_trained(stalks))


def matched(config: SheafConfig, data: Dataset, wanted: int) -> SheafConfig:
    """The configuration with so many blocks that it has about so many parameters."""
    block = config.block or config.dim

    def size(blocks: int) -> int:
        sized = config.with_options(dim=blocks * block)
        return SheafEmbedding(sized, data.train).num_parameters

    one, two = size(1), size(2)
    return config.with_options(dim=block * max(1, round(1 + (wanted - one) / (two - one))))


def row_of(
    name: str, case: Case, settings: Mapping[str, Any], first: SheafEmbedding | None, out: Path
) -> tuple[dict[str, Any], SheafEmbedding]:
    """Train a row and measure it, or read what an earlier call has found."""
    kind = settings.get("types", "hierarchical")
    given = {key: value for key, value in settings.items() if key not in OWN}
    if kind != "hierarchical":
        given |= {"type_dim": None, "dim": given["block"]}
    model, training = configs(given)
    data = case.stalks if kind == "stalks" else case.shared
    if first is not None:
        model = matched(model, data, first.num_parameters)
    found = trained(data, model, training, out / name)
    weights, kept = fingerprint(found), out / f"{name}.json"
    if kept.exists():
        row: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        if row["weights"] == weights:
            return row, found
    assert found.info is not None, "a trained model knows how it came about"
    row = {
        "weights": weights,
        "classes": len(found.graph.ancestry.names) if kind == "hierarchical" else 0,
        "parameters": found.num_parameters,
        "seconds": found.info.seconds,
        "epochs": found.info.training["epochs_run"],
    }
    for part in ("valid", "test"):
        overall = evaluate(found, data, part).overall[ranked_side(found)]
        # What the schema of training rules out was not found.
        fitting = data.splits[part].num_triples / case.shared.splits[part].num_triples
        row[part] = {"mrr": fitting * overall.mrr, "hits": fitting * overall.hits_at_10}
    files.write_text(kept, json.dumps(row, indent=1))
    return row, found


def line(name: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line of the table, the mean over seeds."""
    test = np.array([row["test"]["mrr"] for row in rows])
    spread = f"{test.std(ddof=1):.3f}" if len(test) > 1 else "one seed"
    return [
        name,
        str(rows[0]["classes"] or ""),
        f"{rows[0]['parameters']:,}",
        f"{np.mean([row['valid']['mrr'] for row in rows]):.3f}",
        f"{test.mean():.3f}",
        f"{np.mean([row['test']['hits'] for row in rows]):.3f}",
        spread,
        f"{np.mean([row['seconds'] for row in rows]) / 60:.1f}",
    ]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Classes with coordinates of their own.")
    parser.add_argument("--data", type=Path, default=Path(), help="the folder of the data sets")
    parser.add_argument("--sets", nargs="+", help="which of them; all if not given")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the models")
    parser.add_argument("--settings", type=Path, default=SETTINGS, help="sets, a base and its rows")
    given = parser.parse_args(words)
    settings = yaml.safe_load(given.settings.read_text(encoding="utf-8"))
    rows: dict[str, list[dict[str, Any]]] = {}
    for name in given.sets or settings["sets"]:
        about = settings["sets"][name]
        case = read_case(given.data, name, settings)
        for seed in about.get("seeds", settings["seeds"]):
            first = None
            for label, change in settings["rows"].items():
                chosen = settings["base"] | about.get("settings", {}) | change | {"seed": seed}
                slug = "".join(c if c.isalnum() else "-" for c in label)
                out = given.out / name / str(seed)
                row, model = row_of(slug, case, chosen, first, out)
                first = first or model
                rows.setdefault(f"{name}: {label}", []).append(row)
                print(f"{name}: {label}: seed {seed}: {row['test']['mrr']:.4f}", flush=True)
                table = markdown(COLUMNS, [line(*each) for each in rows.items()])
                write_text("hierarchy.md", table, given.out)
    print(table)


if __name__ == "__main__":
    main()

"""What there is to say of a model: its choices, its data, its training, how good it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowledge_sheaves.embedding.folder import (
    FACTS,
    GENERATION,
    HASHED,
    MEASURED,
    METRICS,
    TRUST,
    WEIGHTS,
    check_sealed,
    header_shapes,
    read_config,
    read_measured,
)
from knowledge_sheaves.embedding.search.about import about_index
from knowledge_sheaves.files import reading

if TYPE_CHECKING:
    from knowledge_sheaves.embedding.model import SheafEmbedding

Described = dict[str, dict[str, Any]]


def describe(model: SheafEmbedding) -> Described:
    """Return what is known of a model, by topic and by name.

    >>> from knowledge_sheaves.embedding import SheafEmbedding, model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([("Ann", "knows", "Bob")])
    >>> describe(SheafEmbedding(model_config("transe", dim=4), graph))["data"]
    {'entities': 2, 'train': 1}
    """
    known = model.info
    choices = {"parameters": model.num_parameters, **model.config.to_dict()}
    if known is None:
        graph = model.graph
        counts = {"entities": graph.num_entities, "train": graph.num_triples}
        return {"model": choices, "data": counts, "training": {}, "quality": {}}
    index = None if known.place is None else about_index(known.place, known.generation)
    judged = known.measured is not None
    quality = {
        **_judged(known.counts, model.graph.num_triples if judged else None),
        **validated(model),
        **known.metrics,
        **known.calibration,
        **_trusted(known.trust, judged or bool(known.held_out)),
        **_found(index),
    }
    return _described(choices, known.to_dict(), quality)


def describe_folder(folder: Path) -> Described:
    """The same of the model in a folder, without loading it: its size does not matter."""
    return reading(folder, _describe_folder)


def _describe_folder(folder: Path) -> Described:
    config = read_config(folder)
    check_sealed(folder, config, HASHED)
    info, facts = config.get("info"), header_shapes(folder / FACTS)
    if not isinstance(info, dict):  # nobody said what it was trained on
        from knowledge_sheaves.embedding.model import SheafEmbedding

        return describe(SheafEmbedding.load(folder))
    judged = MEASURED in config
    metrics, trust = (
        read_measured(folder / name, config) if (folder / name).exists() else {}
        for name in (METRICS, TRUST)
    )
    quality = {
        **_judged(info["counts"], facts["train"][0] if judged else None),
        **_validated(metrics, "test" in facts or judged),
        **metrics,
        **info["calibration"],
        **_trusted(trust, judged or "valid" in facts or "test" in facts),
        **_found(about_index(folder, config.get(GENERATION))),
    }
    parameters = config.get("parameters") or _counted(folder)
    return _described({"parameters": parameters, **config["model"]}, info, quality)


def _counted(folder: Path) -> int:
    """How many numbers were learned, in a folder of an older version; the radius was not."""
    shapes = header_shapes(folder / WEIGHTS)
    return sum(math.prod(shape) for name, shape in shapes.items() if name != "radius")


def _described(
    choices: Mapping[str, Any], info: Mapping[str, Any], quality: Mapping[str, Any]
) -> Described:
    counts, notes = info["counts"], info["notes"]
    data = {"name": info["name"], "source": info["source"], **counts}
    training = {name: info[name] for name in ("created", "version", "seconds", "peak_memory")}
    return {
        "model": dict(choices),
        "data": {**data, "hash": info["data_hash"], "notes": notes},
        "training": {**training, **info["training"]},
        "quality": dict(quality),
    }


def _trusted(trust: Mapping[str, Any], held_out: bool) -> dict[str, str]:
    """What probabilities rest on, where something was held out."""
    if not trust:
        return {"trust": "not measured"} if held_out else {}
    count = trust["facts"]["all"]["count"] if "facts" in trust else 0
    facts = f"probabilities were fitted on {count:,} held-out facts"
    return {"trust": facts + (", and on questions" if "questions" in trust else "")}


def _judged(counts: Mapping[str, int], learned: int | None) -> dict[str, str]:
    """Of which model the numbers are, where it is not the one that answers."""
    if learned is None:
        return {}
    return {
        "measured": f"by a model that never saw the {counts.get('held_out', 0):,} held-out facts "
        f"(measured/); the one that answers has learned all {learned:,}"
    }


def validated(model: SheafEmbedding) -> dict[str, str]:
    """What the validation MRR is, where it does not compare with that of `sheaves evaluate`."""
    known = model.info
    if known is None:
        return {}
    return _validated(known.metrics, "test" in known.held_out or known.measured is not None)


def _validated(metrics: Mapping[str, Any], tested: bool) -> dict[str, str]:
    if "validation_mrr" not in metrics or not tested:
        return {}
    return {
        "validation": "test facts count as wrong answers here, since they are not to be known yet; "
        "sheaves evaluate leaves them out and reads higher"
    }


def _found(index: Mapping[str, Any] | None) -> dict[str, float]:
    """What share of the ten best answers the index finds, by shape, and type if there are more."""
    types = {} if index is None else index["types"]
    several = len(types) > 1
    return {
        f"index_recall_at_10 {shape}{' ' + each['name'] if several else ''}": said["recall_at_10"]
        for each in types.values()
        for shape, said in each["shapes"].items()
    }

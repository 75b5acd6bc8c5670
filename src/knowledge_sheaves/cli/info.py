"""`sheaves info`: what a model is, trained on what, how, and how good."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from knowledge_sheaves.cli.models import Folder, load_model
from knowledge_sheaves.cli.output import AsJson, print_facts, print_json

if TYPE_CHECKING:
    from knowledge_sheaves.embedding import SheafEmbedding


def info(model: Folder, as_json: AsJson = False) -> None:
    """Show what a model is, what it was trained on and how, and how good it is.

    \b
    Example:
      sheaves info model/
    """
    described = _describe(load_model(model))
    if as_json:
        print_json(described)
        return
    for title, facts in described.items():
        if facts:
            print_facts(title.capitalize(), _flat(facts))


def _describe(model: SheafEmbedding) -> dict[str, dict[str, Any]]:
    known = model.info
    choices = {"parameters": model.num_parameters, **model.config.to_dict()}
    if known is None:
        graph = model.graph
        counts = {"entities": graph.num_entities, "train": graph.num_triples}
        return {"model": choices, "data": counts, "training": {}, "quality": {}}
    return {
        "model": choices,
        "data": {
            "name": known.name,
            "source": known.source,
            **known.counts,
            "hash": known.data_hash,
            "notes": known.notes,
        },
        "training": {
            "created": known.created,
            "version": known.version,
            "seconds": known.seconds,
            "peak_memory": known.peak_memory,
            **known.training,
        },
        "quality": {**known.metrics, **known.calibration},
    }


def _flat(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in facts.items():
        words = f"{prefix}{name}".replace("_", " ")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{words} ")
        elif isinstance(value, list):
            yield words, " ".join(map(str, value)) or None
        elif name == "peak_memory" and value is not None:
            yield words, f"{value / 2**20:,.0f} MB"
        else:
            yield words, value

"""What there is to say of a model: its choices, its data, its training, how good it is."""

from __future__ import annotations

from typing import Any

from knowledge_sheaves.embedding.model import SheafEmbedding


def describe(model: SheafEmbedding) -> dict[str, dict[str, Any]]:
    """Return what is known of a model, by topic and by name.

    >>> from knowledge_sheaves.embedding import model_config
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
        "quality": {**_judged(model), **validated(model), **known.metrics, **known.calibration},
    }


def _judged(model: SheafEmbedding) -> dict[str, str]:
    """Of which model the numbers are, where it is not the one that answers."""
    if model.info is None or model.info.measured is None:
        return {}
    held_out = model.info.counts.get("held_out", 0)
    return {
        "measured": f"by a model that never saw the {held_out:,} held-out facts (measured/); "
        f"the one that answers has learned all {model.graph.num_triples:,}"
    }


def validated(model: SheafEmbedding) -> dict[str, str]:
    """What the validation MRR is, where it does not compare with that of `sheaves evaluate`."""
    known = model.info
    if known is None or "validation_mrr" not in known.metrics:
        return {}
    if "test" not in known.held_out and known.measured is None:
        return {}
    return {
        "validation": "test facts count as wrong answers here, since they are not to be known yet; "
        "sheaves evaluate leaves them out and reads higher"
    }

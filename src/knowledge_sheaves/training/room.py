"""Whether a model can fit into the memory of this machine, told before it is built."""

from __future__ import annotations

import os

from knowledge_sheaves.embedding.config import TIED, SheafConfig
from knowledge_sheaves.embedding.constraints import CONSTRAINTS
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.knowledge import KnowledgeGraph

COPIES = 3
"""Of every number: itself, what the optimiser keeps for it, and the best model so far."""
NUMBER_BYTES = 4


def training_bytes(model: SheafConfig, graph: KnowledgeGraph) -> int:
    """Return about how many bytes training takes for vectors and maps.

    >>> from knowledge_sheaves.embedding import model_config
    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b")])
    >>> training_bytes(model_config("rescal", dim=1000), graph)  # two maps of a million numbers
    24024000
    """
    classes = len(graph.ancestry.names) if model.type_dim else 0
    whole = model.dim + (model.type_dim or 0) * classes
    numbers, width = graph.num_entities * whole * model.sections, whole // model.n_blocks
    ends = (model.head,) if model.tail == TIED else (model.head, model.tail)
    maps = model.n_blocks * sum(CONSTRAINTS[end].count(width, width) for end in ends)
    edges = len(graph.schema.relations) * (2 if model.reciprocal is True else 1)
    return (numbers + edges * maps) * NUMBER_BYTES * COPIES


def check_room(model: SheafConfig, graph: KnowledgeGraph, processes: int = 1) -> None:
    """Refuse a model that this machine cannot hold, and say what it would take.

    Spread over ``processes``, a machine must hold the share of one at least.
    """
    needed, have = training_bytes(model, graph), machine_bytes()
    if have is not None and needed // processes > have:
        raise InputError(
            f"{model.name} with dim {model.dim} takes about {_gigabytes(needed)} to train on "
            f"{graph.num_entities:,} entities and {len(graph.schema.relations):,} relations, and "
            f"this machine has {_gigabytes(have)}: choose a smaller dim, or spread it over more "
            "machines (--sharded)."
        )


def machine_bytes() -> int | None:
    """Return the memory of this machine, or None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB of memory"

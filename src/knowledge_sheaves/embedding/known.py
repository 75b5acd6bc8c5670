"""Which facts count as known: one rule for whoever asks a model and whoever measures it.

Questions know every fact that the user gave, whichever split holds it, and what follows from those
by what the schema says of relations. What measures a model (benchmarks, calibration, `scores`)
remembers those of training only: held-out facts are what it looks for.
"""

from __future__ import annotations

import numpy as np

from knowledge_sheaves.embedding.model import SheafEmbedding
from knowledge_sheaves.embedding.storage import dataset_of
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph

ALL, TRAIN = KNOWN = ("all", "train")


def check_known(known: str) -> None:
    """Refuse what is no choice of known facts."""
    if known not in KNOWN:
        raise InputError(f"known is one of {', '.join(KNOWN)}, not {known!r}.")


def known_splits(model: SheafEmbedding, known: str = ALL) -> dict[str, KnowledgeGraph]:
    """The facts that count as known, by the split that holds them or that they follow from."""
    return {name: graph.closed for name, graph in _given(model, known).items()}


def given_graph(model: SheafEmbedding, known: str = ALL) -> KnowledgeGraph:
    """The facts that were given, in one graph, without what follows from them."""
    return model.keep(("given", known), lambda: _joined(model, known))


def known_graph(model: SheafEmbedding, known: str = ALL) -> KnowledgeGraph:
    """The facts that count as known in one graph, each once.

    >>> from knowledge_sheaves.embedding import ModelInfo, model_config
    >>> from knowledge_sheaves.graph.dataset import Dataset
    >>> train = KnowledgeGraph.from_triples([("a", "r", "b")])
    >>> model = SheafEmbedding(model_config("transe", dim=2), train)
    >>> model.info = ModelInfo.of(Dataset(train, valid=train.with_triples([("b", "r", "a")])))
    >>> known_graph(model).num_triples, known_graph(model, "train").num_triples
    (2, 1)
    """
    return given_graph(model, known).closed


def false_facts(model: SheafEmbedding) -> KnowledgeGraph | None:
    """What is known to be false, in one graph; None where nothing is."""
    if model.info is None or not len(model.info.false):
        return None
    rows = model.info.false
    return model.keep("false", lambda: model.graph.with_triples(rows))


def _given(model: SheafEmbedding, known: str) -> dict[str, KnowledgeGraph]:
    check_known(known)
    return {TRAIN: model.graph} if known == TRAIN else dataset_of(model).splits


def _joined(model: SheafEmbedding, known: str) -> KnowledgeGraph:
    splits = _given(model, known)
    if len(splits) == 1:
        return model.graph
    return model.graph.with_triples(np.concatenate([graph.triples for graph in splits.values()]))

"""The temperature at which a model's energies are probabilities."""

from __future__ import annotations

from knowledge_sheaves.embedding import SheafEmbedding

QUERY_TAU = "query_tau"
"""A temperature fitted on queries; that of predictions, "tau", is fitted on facts."""


def fitted_temperature(model: SheafEmbedding) -> float | None:
    """The temperature that was fitted on validation queries, or else on validation facts.

    >>> from knowledge_sheaves.embedding import ModelInfo, model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b")])
    >>> model = SheafEmbedding(model_config("transe", dim=2), graph)
    >>> fitted_temperature(model) is None
    True
    >>> model.info = ModelInfo(calibration={"tau": 0.5})
    >>> fitted_temperature(model)
    0.5
    """
    known = {} if model.info is None else model.info.calibration
    return known.get(QUERY_TAU, known.get("tau"))

"""Several runs as one model: their direct sum, judged and tempered on the validation facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from knowledge_sheaves.embedding import ModelInfo, SheafEmbedding, direct_sum
from knowledge_sheaves.embedding.beside import statements_of
from knowledge_sheaves.embedding.storage import dataset_of
from knowledge_sheaves.ranking import fit_temperature, ranked_side
from knowledge_sheaves.training.config import TrainingConfig
from knowledge_sheaves.training.trainer import validation_metrics


def sum_models(models: Sequence[SheafEmbedding]) -> SheafEmbedding:
    """The direct sum of trained models, with what its folder will say of it.

    >>> from knowledge_sheaves.embedding import model_config
    >>> from knowledge_sheaves.graph.readers import load
    >>> from knowledge_sheaves.training import train
    >>> data, model = load("nations"), model_config("complex", dim=8)
    >>> runs = [train(data, model, TrainingConfig(epochs=2, seed=seed)) for seed in (0, 1)]
    >>> whole = sum_models(runs)
    >>> whole.config.dim, sorted(whole.info.metrics)
    (16, ['validation_mrr'])
    """
    whole = direct_sum(models)
    data = dataset_of(models[0])
    infos = [model.info or ModelInfo() for model in models]
    metrics, calibration = {}, {}
    if data.valid is not None and data.valid.num_triples:
        # The same facts that the first of the runs was validated on.
        settings = TrainingConfig(
            seed=infos[0].training.get("seed", 0),
            validation_triples=infos[0].training.get("validation_triples", 5000),
        )
        metrics["validation_mrr"] = validation_metrics(whole, data, data.valid, settings).mrr
        side = ranked_side(whole)
        calibration["tau"] = fit_temperature(whole, data.valid, data.train, side=side)
    whole.info = ModelInfo.of(
        replace(data, statements=statements_of(models[0])),
        training={"direct_sum": [info.training for info in infos]},
        seconds=sum(info.seconds or 0.0 for info in infos),
        peak_memory=max(info.peak_memory or 0 for info in infos),
        calibration=calibration,
        metrics=metrics,
    )
    return whole

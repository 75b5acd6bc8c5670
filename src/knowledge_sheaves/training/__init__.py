"""Turn a graph into a trained knowledge sheaf."""

from __future__ import annotations

from knowledge_sheaves.training.config import TrainingConfig
from knowledge_sheaves.training.refit import train
from knowledge_sheaves.training.summing import sum_models
from knowledge_sheaves.training.trainer import Progress

__all__ = ["Progress", "TrainingConfig", "sum_models", "train"]

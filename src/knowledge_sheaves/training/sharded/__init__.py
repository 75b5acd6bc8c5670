"""Training over several processes or machines, with entity tables spread by TorchRec."""

from __future__ import annotations

from knowledge_sheaves.training.sharded.run import ROWWISE, check_shardable, train_sharded

__all__ = ["ROWWISE", "check_shardable", "train_sharded"]

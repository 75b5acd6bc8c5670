"""Where the numbers of a run go: a CSV file always, and a tracking tool where asked for."""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from knowledge_sheaves.errors import InputError

Log = Callable[[int, Mapping[str, float]], None]


def curve_text(rows: list[dict[str, float]]) -> str:
    """The whole curve as CSV: it is short.

    >>> curve_text([{"epoch": 1, "loss": 0.5}, {"epoch": 2, "mrr": 0.25}])
    'epoch,loss,mrr\\n1,0.5,\\n2,,0.25\\n'
    """
    text = io.StringIO()
    writer = csv.DictWriter(
        text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def make_log(name: str, folder: Path, settings: Mapping[str, Any]) -> Log:
    """A function that records one epoch's numbers with the tool of this name."""
    if name == "tensorboard":
        writer = _module("torch.utils.tensorboard", "tensorboard").SummaryWriter(str(folder))

        def to_tensorboard(epoch: int, numbers: Mapping[str, float]) -> None:
            for key, value in numbers.items():
                writer.add_scalar(key, value, epoch)
            writer.flush()

        return to_tensorboard
    if name == "mlflow":
        mlflow = _module("mlflow", "mlflow")
        mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
        mlflow.set_experiment("knowledge-sheaves")
        mlflow.start_run()
        mlflow.log_params(dict(settings))
        return lambda epoch, numbers: mlflow.log_metrics(dict(numbers), step=epoch)
    return lambda epoch, numbers: None


def _module(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise InputError(
            f"Logging to {extra} needs a package that is not installed: "
            f"pip install 'knowledge-sheaves[{extra}]'."
        ) from None

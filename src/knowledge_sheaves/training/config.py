"""How a model is trained, in one flat list of options."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from knowledge_sheaves.embedding.config import load_options
from knowledge_sheaves.embedding.option_kinds import check_kinds, is_usual_number
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.vocabulary import suggestion
from knowledge_sheaves.training.losses import LOSSES
from knowledge_sheaves.training.optimisers import OPTIMISERS

CHOICES: dict[str, Collection[str]] = {
    "loss": LOSSES,
    "optimiser": OPTIMISERS,
    "sampling": ("uniform", "bernoulli"),
    "world": ("sampled", "closed", "local", "open"),
    "corrupt": ("both", "tail", "head", "relation", "vertex"),
    "section_penalty": ("orthogonal", "columns"),
    "logger": ("none", "tensorboard", "mlflow"),
}

MOST_THREADS = 1024
"""No processor has more cores, and the libraries below break where the system gives no more."""


@dataclass(frozen=True)
class TrainingConfig:
    """The options of a training run.

    ``negatives`` candidates are shared by a batch, besides its own tails (None: all entities, the
    full softmax). With the margin loss every triple is paired with corrupted ones instead:
    ``corrupt`` says where, ``vertex`` being a star of ``subgraph`` triples around one entity that
    is exchanged as a whole.

    >>> TrainingConfig.from_dict({"epochs": 3, "loss": "margin"}).margin
    1.0
    """

    epochs: int = 50
    batch_size: int = 1024
    negatives: int | None = 2048
    loss: str = "softmax"
    optimiser: str = "adagrad"
    learning_rate: float = 0.1
    margin: float = 1.0
    adversarial: float = 1.0
    """Self-adversarial temperature of the logistic loss."""
    sampling: Literal["uniform", "bernoulli"] = "uniform"
    corrupt: Literal["both", "tail", "head", "relation", "vertex"] = "both"
    subgraph: int = 1
    filter_negatives: bool = False
    world: Literal["sampled", "closed", "local", "open"] = "sampled"
    """What counts as false: what the loss draws, or pairs of facts with a negative graph's."""
    pair_weight: float = 1.0
    """How much a pair of a true and a false subgraph counts beside a fact."""
    weigh_negatives: bool = False
    """Let sampled candidates stand for all entities, each by how rarely it is drawn."""
    n3: float = 0.0
    l2: float = 0.0
    relation_weight: float = 0.0
    subproperty_weight: float = 1.0
    """Weight of the relation-prediction term."""
    dropout: float = 0.0
    section_weight: float = 0.0
    """Weight α of the orthogonal-sections penalty."""
    section_penalty: Literal["orthogonal", "columns"] = "orthogonal"
    normalise: bool = False
    """Bring every entity (every section of it) to unit length after each step."""
    averaging: float = 0.0
    """Epochs over which weights are averaged: the average is what is validated and kept."""
    seed: int = 0
    threads: int | None = None
    device: str = "cpu"
    minutes: float | None = None
    """Stop after the epoch that comes nearest to so many minutes, validation included."""
    patience: int = 5
    """Stop when this many validations in a row bring no better MRR."""
    validate_every: int = 1
    validation_triples: int = 5000
    validation_candidates: int | None = None
    """Rank among so many entities, drawn by chance (None: all; 100,000 of more than a million)."""
    checkpoint_every: int = 1
    refit: bool = True
    """Where the split is ours: train once more, on all facts, for as long as was best."""
    logger: Literal["none", "tensorboard", "mlflow"] = "none"

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if str(getattr(self, name)) not in choices:
                raise InputError(
                    f"{name} must be one of {', '.join(choices)}, not {getattr(self, name)!r}."
                )
        for name in (
            "epochs",
            "batch_size",
            "subgraph",
            "patience",
            "validate_every",
            "validation_triples",
            "checkpoint_every",
        ):
            self._check(name, int, 1)
        self._check("seed", int, 0)
        for name in ("negatives", "threads", "validation_candidates"):
            if getattr(self, name) is not None:
                self._check(name, int, 1)
        if (self.threads or 0) > MOST_THREADS:
            raise InputError(f"threads must be at most {MOST_THREADS}, not {self.threads}.")
        weights = ("relation_weight", "subproperty_weight", "section_weight")
        for name in ("n3", "l2", *weights, "margin", "adversarial"):
            self._check(name, float, 0)
        for name in ("averaging", "pair_weight"):
            self._check(name, float, 0)
        self._check("dropout", float, 0)
        if self.dropout >= 1:
            raise InputError(f"dropout must be below 1, not {self.dropout!r}.")
        if self.averaging and self.normalise:
            raise InputError(
                "The average of vectors of unit length is shorter: choose averaging or normalise."
            )
        for name in ("learning_rate",) if self.minutes is None else ("learning_rate", "minutes"):
            value = getattr(self, name)
            if not self._is(value, float) or value <= 0:
                raise InputError(f"{name} must be above 0, not {value!r}.")

        check_kinds(self)

    def _check(self, name: str, kind: type, least: float) -> None:
        value = getattr(self, name)
        if not self._is(value, kind) or value < least:
            word = "a whole number" if kind is int else "a number"
            raise InputError(f"{name} must be {word} of at least {least}, not {value!r}.")

    @staticmethod
    def _is(value: object, kind: type) -> bool:
        wanted = (int,) if kind is int else (int, float)
        return is_usual_number(value) and isinstance(value, wanted)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def names(cls) -> list[str]:
        return [f.name for f in fields(cls)]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TrainingConfig:
        """Options from plain data; unknown names are refused."""
        if not isinstance(data, Mapping):
            raise InputError("Training options must be a list of options (name: value).")
        known = cls.names()
        for name in data:
            if name not in known:
                raise InputError(
                    f"There is no training option {name!r}{suggestion(str(name), known) or '.'} "
                    f"Known are {', '.join(known)}."
                )
        return cls(**data)

    @classmethod
    def load(cls, path: str | Path) -> TrainingConfig:
        """Options from a YAML or JSON file."""
        return load_options(path, cls.from_dict)

"""What a user can choose about answering queries, and what the model was calibrated to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.budget import MEMORY, Limits
from knowledge_sheaves.query.solvers.harmonic.forms import Lift
from knowledge_sheaves.query.temperature import fitted_temperature

SOLVERS = ("auto", "harmonic", "naive", "chaining")
# What each solver goes by.
USED = {
    "naive": (),
    "harmonic": ("lift", "strength", "kappa", "tau"),
    "chaining": ("facts", "k", "softness", "focus", "kappa", "tau"),
}
CALIBRATED = ("strength", "kappa", "k", "softness", "focus")
UNTEMPERED = (
    "No temperature was fitted for this model, so probabilities are those of temperature 1: "
    "trust their order only."
)


@dataclass(frozen=True)
class Options:
    """How queries are solved.

    ``strength`` λ of the prior on unknowns, ``lift`` how lifted models are extended, ``kappa`` how
    hard a negated branch bites, ``k`` how many candidates of an unknown chaining keeps,
    ``softness`` how much all of them count beside the best, ``focus`` how many times colder edges
    are that lead to unknowns, ``facts`` whether it remembers the known ones. What is None is as the
    model was calibrated: see `settle`. ``memory_limit`` is in bytes beyond the model,
    ``time_limit`` in seconds for each call.
    """

    solver: str = "auto"
    lift: Lift = "composite"
    strength: float | None = None
    kappa: float | None = None
    k: int | None = None
    softness: float | None = None
    focus: float | None = None
    facts: str = "remembered"
    tau: float | None = None
    memory_limit: int = MEMORY
    time_limit: float = math.inf

    def __post_init__(self) -> None:
        if self.solver not in SOLVERS:
            raise InputError(
                f"There is no solver {self.solver!r}: choose one of {', '.join(SOLVERS)}."
            )

    def limits(self) -> Limits:
        """The limits of a call that begins now."""
        return Limits.start(self.memory_limit, self.time_limit)


@dataclass(frozen=True)
class Settled(Options):
    """Options that leave nothing open, and the defaults of a model without calibration.

    ``tempered`` is whether the temperature is one that somebody chose or fitted.
    """

    strength: float = 0.0
    kappa: float = 1.0
    k: int = 64
    softness: float = 0.0
    focus: float = 1.0
    tau: float = 1.0
    tempered: bool = True

    @property
    def choices(self) -> dict[str, Any]:
        """What the answers depend on, by name: nothing that the solver does not go by."""
        return {name: getattr(self, name) for name in ("solver", *USED[self.solver])}

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of the probabilities that were found with these options."""
        return () if self.tempered else (UNTEMPERED,)


def settle(model: SheafEmbedding, options: Options | None = None) -> Settled:
    """Fill in what options leave open, by the model's calibration where it has one.

    >>> from knowledge_sheaves.embedding import ModelInfo, model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b")])
    >>> model = SheafEmbedding(model_config("transe", dim=2), graph)
    >>> model.info = ModelInfo(calibration={"tau": 0.5, "kappa": 6.0})
    >>> options = settle(model, Options(kappa=2.0))
    >>> options.tau, options.kappa, options.k
    (0.5, 2.0, 64)
    """
    known = {} if model.info is None else model.info.calibration
    found: dict[str, Any] = {name: known[name] for name in CALIBRATED if name in known}
    tau = fitted_temperature(model)
    if tau is not None:
        found["tau"] = tau
    given = {name: value for name, value in vars(options or Options()).items() if value is not None}
    found["tempered"] = "tau" in found | given
    if given["solver"] == "auto":
        given["solver"] = "chaining"  # it answers every query
    return Settled(**found | given)


@dataclass(frozen=True)
class Wanted:
    """Which answers to show."""

    top: int = 10
    allow: frozenset[int] | None = None
    deny: frozenset[int] = frozenset()
    kind: int | None = None
    only_new: bool = False

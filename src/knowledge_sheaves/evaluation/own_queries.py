"""Questions of all shapes drawn from a model's own held-out facts, as a benchmark of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.storage import dataset_of
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.evaluation.betae import TYPES, Agreement, TypeQueries
from knowledge_sheaves.evaluation.query_calibration import drawn_queries


class OwnQueries:
    """``sample`` queries of every type, or as many as are found.

    Easy answers follow from the facts before the split, hard ones need a fact of it.

    >>> from knowledge_sheaves.embedding import ModelInfo, model_config
    >>> from knowledge_sheaves.graph.readers import load
    >>> data = load("nations")
    >>> model = SheafEmbedding(model_config("complex", dim=4), data.train)
    >>> model.info = ModelInfo.of(data)
    >>> len(OwnQueries(model, "test", 3).queries("2p"))
    3
    """

    hash = ""

    def __init__(self, model: SheafEmbedding, split: str, sample: int, seed: int = 0) -> None:
        self.model, self.split, self.sample, self.seed = model, split, sample, seed
        self.data = dataset_of(model)

    @property
    def name(self) -> str:
        """What the data are called."""
        return self.data.name

    @property
    def counts(self) -> dict[str, int]:
        """How many queries were drawn of each type."""
        return {name: len(given) for name, given in self._drawn.items()}

    def named(self, names: Sequence[str] | None) -> list[str]:
        """The types with these names that were drawn, in their order in tables."""
        for name in names or ():
            if name not in TYPES:
                raise InputError(
                    f"There is no query type {name!r}: the types are {', '.join(TYPES)}."
                )
        self._types = [name for name in TYPES if not names or name in names]
        return list(self._drawn)

    def queries(self, name: str) -> TypeQueries:
        """The queries of a type with their answers."""
        return self._drawn[name]

    def check(self, given: TypeQueries) -> Agreement:
        """Drawn answers are those of the triples."""
        return Agreement(given.name, len(given), len(given), len(given))

    _types: Sequence[str] = TYPES

    @cached_property
    def _drawn(self) -> dict[str, TypeQueries]:
        drawn = drawn_queries(
            self.model, self.sample, self.seed, split=self.split, types=self._types
        )
        return {each.name: each for each in drawn}

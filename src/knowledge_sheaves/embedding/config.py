"""What a model is, in a few choices; the catalogue of named models is a table of such choices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from knowledge_sheaves.embedding.constraints import CONSTRAINTS
from knowledge_sheaves.embedding.energies import Energy, energy_of
from knowledge_sheaves.embedding.option_kinds import check_kinds, is_usual_number
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.plain_data import read_plain_data
from knowledge_sheaves.graph.vocabulary import suggestion

TIED = "tied"
Options = TypeVar("Options")


@dataclass(frozen=True)
class SheafConfig:
    """The choices that make a model.

    ``block`` is the size b of the maps' blocks (None: a whole stalk is one block). ``head`` and
    ``tail`` name constraints on the maps (see `constraints`); ``tail="tied"`` is the head's map.
    ``translation`` is False, True, or "projected" (z is sent through the head map first).
    ``lifted`` puts entities on a sphere, so that energies rank tails as ⟨F x_h, x_t⟩ does.
    ``norm`` and ``power`` say how a residual is measured when scores are compared, ‖ρ‖_norm^power;
    harmonic extension always uses the square. ``space="torus"`` takes differences modulo 1.
    ``biases="by-end"`` gives an entity one bias as head and another as tail. ``clamp`` shortens
    F_h x_h and F_t x_t to that length, in the same norm, before scores are compared. ``type_dim``
    gives every class of the graph so many coordinates of its own, beside the ``dim`` that all
    entities share (see `hierarchy`).

    >>> SheafConfig(name="mine", dim=32, block=2, head="rotation").n_blocks
    16
    """

    name: str = "custom"
    dim: int = 128
    block: int | None = 1
    head: str = "free"
    tail: str = "identity"
    translation: bool | Literal["projected"] = False
    biases: bool | Literal["by-end"] = False
    relation_dim: int | None = None
    type_dim: int | None = None
    sections: int = 1
    lifted: bool = False
    norm: float = 2
    power: float = 2
    clamp: float | None = None
    space: str = "vector"
    reciprocal: bool | Literal["tied"] = True
    """Maps of their own for relations read backwards; "tied": the relation's, ends exchanged."""
    init: float | None = None
    """Spread of the entities' first values (None: a choice that suits the model)."""
    loops: bool = False
    """Whether an entity may relate to itself where the data show no such fact: see `loops`."""

    def __post_init__(self) -> None:
        self._check_numbers()
        check_kinds(self)
        for end, name in (("head", self.head), ("tail", self.tail)):
            if name not in CONSTRAINTS and (name != TIED or end == "head"):
                known = sorted(CONSTRAINTS) + ([TIED] if end == "tail" else [])
                raise InputError(
                    f"{end} must be one of {', '.join(known)}, not {name!r}"
                    f"{suggestion(name, known) or '.'}"
                )
        self._check_sizes()
        self.energy  # noqa: B018 (choices that it cannot do are refused now, not when it is used)

    def _check_numbers(self) -> None:
        for name in ("dim", "sections"):
            if not _whole(getattr(self, name)):
                raise InputError(
                    f"{name} must be a whole number above 0, not {getattr(self, name)!r}."
                )
        for name in ("block", "relation_dim", "type_dim"):
            value = getattr(self, name)
            if value is not None and not _whole(value):
                raise InputError(
                    f"{name} must be a whole number above 0 or nothing, not {value!r}."
                )
        if self.translation not in (True, False, "projected"):
            raise InputError(
                f"translation must be true, false or projected, not {self.translation!r}."
            )
        if self.biases not in (True, False, "by-end"):
            raise InputError(f"biases must be true, false or by-end, not {self.biases!r}.")
        if self.reciprocal == TIED and self.biases == "by-end":
            raise InputError(
                "An entity that is favoured by end is favoured otherwise where a relation is read "
                "backwards: with reciprocal: tied use biases: true."
            )
        for name in ("norm", "power") if self.clamp is None else ("norm", "power", "clamp"):
            value = getattr(self, name)
            if not is_usual_number(value) or value <= 0:
                raise InputError(f"{name} must be a number above 0, not {value!r}.")
        if self.block is not None and self.dim % self.block:
            raise InputError(
                f"dim {self.dim} is not a multiple of block {self.block}: try dim "
                f"{self.block * max(1, round(self.dim / self.block))}."
            )

    def _check_sizes(self) -> None:
        """Whether the maps can have the size that the stalks ask for."""
        if self.type_dim is not None:
            self._check_classes()
        width = height = self.dim // self.n_blocks
        if self.relation_dim is not None:
            if self.tail == "identity":
                raise InputError(
                    "Under a tail map that is the identity relations have the dimension of their "
                    "tails: leave out relation_dim, or choose another tail."
                )
            if self.relation_dim % self.n_blocks:
                raise InputError(
                    f"relation_dim {self.relation_dim} cannot be cut into the model's "
                    f"{self.n_blocks} equal blocks: choose a multiple of {self.n_blocks}."
                )
            height = self.relation_dim // self.n_blocks
        for name in {self.head, self.tail} - {TIED}:
            CONSTRAINTS[name].check(height, width)
        if self.translation == "projected" and height != width:
            raise InputError(
                "A projected translation goes through the head map, which must be square: leave "
                "out relation_dim, or use translation: true."
            )

    def _check_classes(self) -> None:
        """Whether maps can see the coordinates that classes have beside the shared ones."""
        assert self.type_dim is not None, "asked for only then"
        free = self.head == "free" and (self.lifted or self.tail in ("free", TIED))
        if not free or self.space != "vector":
            raise InputError(
                "Classes have coordinates of their own under maps that are free where they look at "
                "entities: with type_dim choose rescal, distmult, se, pairre, transr or "
                "translational."
            )
        if self.translation == "projected":
            raise InputError(
                "A projected translation goes through the head map, which is not square where "
                "classes have coordinates of their own: use translation: true."
            )
        if self.type_dim % self.n_blocks:
            raise InputError(
                f"type_dim {self.type_dim} cannot be cut into the model's {self.n_blocks} equal "
                f"blocks: choose a multiple of {self.n_blocks}."
            )

    @property
    def n_blocks(self) -> int:
        """How many blocks every map of the model has."""
        return 1 if self.block is None else self.dim // self.block

    @cached_property
    def energy(self) -> Energy:
        """How the two ends of an edge are measured.

        >>> model_config("transe", norm=1, power=1).energy.notes
        ['Scores use the norm of order 1; harmonic extension minimises the squared Euclidean norm.']
        """
        return energy_of(self)

    @property
    def notes(self) -> list[str]:
        """Where scores are not the energies that queries minimise, in sentences for the user."""
        return self.energy.notes

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def with_options(self, **options: Any) -> SheafConfig:
        """The same model with other choices; unknown names are refused."""
        known = [f.name for f in fields(self)]
        for name in options:
            if name not in known:
                raise InputError(
                    f"A model has no option {name!r}{suggestion(name, known) or '.'} Known are "
                    f"{', '.join(known)}."
                )
        return replace(self, **options)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SheafConfig:
        """A model from plain data; ``model: NAME`` starts from an entry of the catalogue."""
        if not isinstance(data, Mapping):
            raise InputError("A model's configuration must be a list of options (name: value).")
        options = {str(name): value for name, value in data.items()}  # YAML has keys of any kind
        base = model_config(str(options.pop("model"))) if "model" in options else cls()
        return base.with_options(**options)

    @classmethod
    def load(cls, path: str | Path) -> SheafConfig:
        """A model from a YAML or JSON file."""
        return load_options(path, cls.from_dict)


def load_options(path: str | Path, build: Callable[[Any], Options]) -> Options:
    """Build something from the data of a YAML or JSON file; errors name the file."""
    path = Path(path)
    data = read_plain_data(path)
    try:
        return build(data)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _whole(value: object) -> bool:
    return is_usual_number(value) and isinstance(value, int) and value > 0


def _row(
    name: str, block: int | None, head: str, tail: str = "identity", **rest: Any
) -> SheafConfig:
    return SheafConfig(
        name=name, dim=120 if block else 32, block=block, head=head, tail=tail, **rest
    )


CATALOGUE: dict[str, SheafConfig] = {
    row.name: row
    for row in (
        _row("unstructured", 1, "identity"),
        _row("transe", 1, "identity", translation=True),
        _row("transh", None, "projection", TIED, translation="projected"),
        _row("mure", 1, "free", translation=True, biases=True),
        _row("pairre", 1, "free", "free"),
        _row("rotate", 2, "rotation"),
        _row("rote", 2, "rotation", translation=True, biases=True),
        _row("refe", 2, "reflection", translation=True, biases=True),
        _row("nage", 3, "orthogonal"),
        _row("ote", 20, "scaled-orthogonal"),
        _row("se", None, "free", "free"),
        _row("se-orthogonal", None, "orthogonal", "orthogonal"),
        _row("transr", None, "free", TIED, translation=True),
        _row("translational", None, "free", "free", translation=True),
        _row("distmult", 1, "free", lifted=True),
        _row("complex", 2, "complex", lifted=True),
        _row("quate", 4, "quaternion", lifted=True),
        _row("rescal", None, "free", lifted=True),
        _row("toruse", 1, "identity", translation=True, space="torus"),
    )
}
ALIASES = {"hole": "complex", "extensionse": "se", "extensiontranse": "transe"}


def model_config(name: str, **options: Any) -> SheafConfig:
    """A model of the catalogue by name, with options changed.

    >>> model_config("rotate", dim=64).n_blocks
    32
    """
    key = ALIASES.get(name.lower(), name.lower())
    if key not in CATALOGUE:
        known = [*CATALOGUE, *ALIASES]
        raise InputError(
            f"There is no model {name!r}{suggestion(name, known) or '.'} "
            f"Known are {', '.join(known)}."
        )
    return CATALOGUE[key].with_options(**options)

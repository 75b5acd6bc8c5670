"""What a PyKEEN model consists of: tensors and a few numbers, from an object or a saved file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from pykeen.models import ERModel, Model
from pykeen.nn import quaternion
from pykeen.utils import clamp_norm, complex_normalize
from torch import Tensor
from torch.nn import functional

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.interop.archive import Record, read_archive

INTERACTIONS = "pykeen.nn.modules."
NORMALIZERS: dict[str, Callable[..., Tensor]] = {
    "torch.nn.functional.normalize": functional.normalize,
    "pykeen.nn.quaternion.normalize": quaternion.normalize,
    "pykeen.utils.clamp_norm": clamp_norm,
    "pykeen.utils.complex_normalize": complex_normalize,
}
NO_SHEAF = {
    "NTN": "its tensor layer ends in a tanh, so the score is no form in the entities' vectors",
    "ConvE": "it scores through a convolutional network",
    "ConvKB": "it scores through a convolutional network",
    "ERMLP": "it scores through a neural network",
    "ERMLPE": "it scores through a neural network",
    "ProjE": "it scores through a neural network",
    "CrossE": "it scores through a neural network",
    "TuckER": "batch normalisation stands between an entity and its map",
    "TransD": "the map of an edge depends on the entity that it acts on",
    "BoxE": "it measures how far points lie from boxes, which is no norm of a difference",
    "KG2E": "it compares distributions, not vectors",
}


@dataclass(frozen=True)
class Parts:
    """The vectors of a PyKEEN model and how its interaction measures them.

    Relations come first as they are, then, where the model was trained on inverse triples, as
    their inverses.
    """

    interaction: str
    entities: list[Tensor]
    relations: list[Tensor]
    num_relations: int
    inverse: bool
    norm: float = 2
    power: float = 1
    clamp: float | None = None

    @classmethod
    def of_model(cls, model: Model) -> Self:
        kind = type(model)
        if not isinstance(model, ERModel) or kind.score_hrt is not ERModel.score_hrt:
            raise InputError(f"{kind.__name__} is no sheaf: it has a way of scoring of its own.")
        interaction = type(model.interaction)
        path = f"{interaction.__module__}.{interaction.__name__}"
        was_training = model.training
        model.eval()
        with torch.no_grad():
            vectors = [
                [each(indices=None).detach().cpu() for each in each_kind]
                for each_kind in (model.entity_representations, model.relation_representations)
            ]
        model.train(was_training)
        return cls._of(
            path,
            vars(model.interaction).get,
            vectors,
            bool(model.use_inverse_triples),
            int(model.num_relations),
        )

    @classmethod
    def of_file(cls, path: Path) -> Self:
        """From PyKEEN's ``trained_model.pkl``, of which nothing is run."""
        model = read_archive(path)
        interaction = model.get("interaction") if isinstance(model, Record) else None
        if not isinstance(interaction, Record):
            name = model.path if isinstance(model, Record) else type(model).__name__
            if name.endswith(".KnowledgeSheafModel"):
                raise InputError(
                    f"{path} holds a sheaf already: save what its to_sheaf_embedding() gives, with "
                    "save(), and load that."
                )
            raise InputError(f"{path} holds {name}, which is no sheaf: it has no interaction.")
        vectors = [
            [_vectors(path, each) for each in _children(model.get(kind))]
            for kind in ("entity_representations", "relation_representations")
        ]
        return cls._of(
            interaction.path,
            interaction.get,
            vectors,
            bool(model.get("use_inverse_triples")),
            int(model.get("num_relations")),
        )

    @classmethod
    def _of(
        cls,
        path: str,
        option: Callable[[str], Any],
        vectors: list[list[Tensor]],
        inverse: bool,
        num_relations: int,
    ) -> Self:
        entities, relations = vectors
        name = path.removeprefix(INTERACTIONS).removesuffix("Interaction")
        if inverse:  # PyKEEN puts the inverse of relation 2i at 2i + 1
            relations = [torch.cat([each[0::2], each[1::2]]) for each in relations]
        p = option("p")
        norm = 2.0 if p is None else float(p)
        return cls(
            name,
            entities,
            relations,
            num_relations // 2 if inverse else num_relations,
            inverse,
            norm,
            norm if option("power_norm") else 1.0,
            option("max_projection_norm"),
        )


def refusal(name: str, known: Iterable[str]) -> InputError:
    """Why a model cannot become a sheaf."""
    if name in NO_SHEAF:
        return InputError(f"{name} is no sheaf: {NO_SHEAF[name]}.")
    return InputError(
        f"{name} is not among the models known to be sheaves, which are {', '.join(known)}."
    )


def _children(modules: Any) -> list[Record]:
    return list(modules.get("_modules").values()) if isinstance(modules, Record) else []


def _vectors(path: Path, representation: Record) -> Tensor:
    """All vectors of a stored representation, as its own forward pass would give them."""
    table = representation.get("_embeddings")
    if not isinstance(table, Record) or not isinstance(table.get("weight"), Tensor):
        raise InputError(
            f"{path} computes its vectors ({representation.path}): load it with PyKEEN and give "
            "the model itself."
        )
    vectors = table.get("weight").view(-1, *representation.get("_shape"))
    if representation.get("is_complex"):
        vectors = torch.view_as_complex(vectors)
    normalizer = representation.get("normalizer")
    if normalizer is None:
        return vectors
    name, options = normalizer, {}
    if isinstance(normalizer, Record) and normalizer.path == "functools.partial":
        name, _, options, _ = normalizer.get("state")
    if name.path not in NORMALIZERS:
        raise InputError(
            f"{path} normalises its vectors with {name.path}, which is not known: load it with "
            "PyKEEN and give the model itself."
        )
    return NORMALIZERS[name.path](vectors, **options)

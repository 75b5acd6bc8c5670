"""Trained PyKEEN models as sheaf embeddings, one short function per interaction.

Distance models keep their scores: ours is PyKEEN's with the sign turned. Bilinear models are lifted
onto a sphere, where the energy is ‖R x_h‖² + M² − 2 · score: one and the same order of tails.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from pykeen.models import Model
from pykeen.nn import quaternion
from pykeen.triples import CoreTriplesFactory
from torch import Tensor

from knowledge_sheaves.embedding import SheafConfig, SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.interop.assemble import Ingredients, assemble, lifted
from knowledge_sheaves.interop.parts import Parts, refusal
from knowledge_sheaves.interop.training_graph import graph_in, graph_of
from knowledge_sheaves.interop.wrapper import KnowledgeSheafModel


def from_pykeen(
    model: Model | str | Path, triples_factory: CoreTriplesFactory | None = None
) -> SheafEmbedding:
    """A trained PyKEEN model, or a folder that PyKEEN saved one in, as a sheaf embedding.

    ``triples_factory`` gives names and known facts to a model object; a folder has its own. Where
    our queries use another energy than PyKEEN's score, a warning says so, and so does
    ``config.notes``. A model that is no sheaf is refused with the reason.

    >>> from pykeen.datasets import Nations
    >>> from pykeen.models import RotatE
    >>> triples = Nations().training
    >>> model = from_pykeen(RotatE(triples_factory=triples, embedding_dim=8), triples)
    >>> model.config.name, model.graph.entities[0]
    ('rotate', 'brazil')
    """
    if isinstance(model, KnowledgeSheafModel):
        return model.to_sheaf_embedding()
    if isinstance(model, Model):
        parts = Parts.of_model(model)
    elif not isinstance(model, str | Path):
        raise InputError(
            f"A {type(model).__name__} is neither a PyKEEN model nor the folder of one: of a "
            "pipeline's result, give result.model and result.training."
        )
    else:
        folder = Path(model)
        parts = Parts.of_file(folder / "trained_model.pkl" if folder.is_dir() else folder)
    if parts.interaction not in CONVERSIONS:
        raise refusal(parts.interaction, CONVERSIONS)
    ingredients = CONVERSIONS[parts.interaction](parts)
    for note in ingredients.config.notes:
        warnings.warn(note, stacklevel=2)
    sizes = (len(parts.entities[0]), parts.num_relations)
    if isinstance(model, Model) or triples_factory is not None:
        graph = graph_of(*sizes, triples_factory)
    else:
        graph = graph_in(folder / "training_triples", *sizes)
    return assemble(ingredients, graph)


def _distance(name: str, parts: Parts, dim: int, **options: Any) -> SheafConfig:
    """A model of the catalogue that measures residuals as PyKEEN does."""
    return model_config(
        name,
        dim=dim,
        norm=parts.norm,
        power=parts.power,
        reciprocal=parts.inverse,
        **options,
    )


def _unstructured(parts: Parts) -> Ingredients:
    (x,) = parts.entities
    return Ingredients(_distance("unstructured", parts, x.shape[1]), x)


def _translation(name: str) -> Callable[[Parts], Ingredients]:
    def convert(parts: Parts) -> Ingredients:
        (x,), (z,) = parts.entities, parts.relations
        return Ingredients(_distance(name, parts, x.shape[1]), x, translations=z)

    return convert


def _transh(parts: Parts) -> Ingredients:
    """I − w wᵀ with w as it is: PyKEEN neither normalises it nor sends z through it."""
    (x,), (w, z) = parts.entities, parts.relations
    config = _distance("transh", parts, x.shape[1], head="free", translation=True)
    maps = torch.eye(x.shape[1]) - w.unsqueeze(2) * w.unsqueeze(1)
    return Ingredients(config, x, _dense(maps), translations=z)


def _se(parts: Parts) -> Ingredients:
    (x,), (heads, tails) = parts.entities, parts.relations
    return Ingredients(_distance("se", parts, x.shape[1]), x, _dense(heads), _dense(tails))


def _transr(parts: Parts) -> Ingredients:
    (x,), (z, maps) = parts.entities, parts.relations
    config = _distance("transr", parts, x.shape[1], relation_dim=z.shape[1], clamp=parts.clamp)
    return Ingredients(config, x, _dense(maps.mT), translations=z)


def _rotate(parts: Parts) -> Ingredients:
    (x,), (r,) = parts.entities, parts.relations
    if not torch.allclose(r.abs(), torch.ones(()).to(r.abs()), atol=1e-4):
        raise InputError(
            "This RotatE has relations that are no rotations, for which PyKEEN's own score depends "
            "on the shape of the batch: train it with the default relation_constrainer."
        )
    config = _distance("rotate", parts, 2 * x.shape[1]).with_options(norm=2, power=1)
    return Ingredients(config, _real(x), r.angle().unsqueeze(2))


def _mure(parts: Parts) -> Ingredients:
    (x, *biases), (z, scale) = parts.entities, parts.relations
    config = _distance("mure", parts, x.shape[1], biases="by-end")
    return Ingredients(config, x, scale.unsqueeze(2), None, z, torch.stack(biases, 1))


def _pairre(parts: Parts) -> Ingredients:
    (x,), (heads, tails) = parts.entities, parts.relations
    config = _distance("pairre", parts, x.shape[1])
    return Ingredients(config, x, heads.unsqueeze(2), tails.unsqueeze(2))


def _bilinear(parts: Parts, name: str, vectors: Tensor, blocks: Tensor) -> Ingredients:
    """Maps R with score ⟨R x_h, x_t⟩; those of inverse triples, or else Rᵀ, rank the heads."""
    config = model_config(name, dim=vectors.shape[1], head="free")
    if parts.inverse:
        forward, backward = blocks.chunk(2)
    else:
        forward, backward = blocks, blocks.mT
    return lifted(config, vectors, forward.flatten(2), backward.flatten(2))


def _distmult(parts: Parts) -> Ingredients:
    (x,), (r,) = parts.entities, parts.relations
    return _bilinear(parts, "distmult", x, r[..., None, None])


def _complex(parts: Parts) -> Ingredients:
    (x,), (r,) = parts.entities, parts.relations
    forward, backward = r.chunk(2) if parts.inverse else (r, r.conj().resolve_conj())
    maps = torch.view_as_real(forward), torch.view_as_real(backward)
    return lifted(model_config("complex", dim=2 * x.shape[1]), _real(x), *maps)


def _hole(parts: Parts) -> Ingredients:
    """Circular correlation is complex multiplication between Fourier coefficients.

    The first and, for even d, the last frequency have one real coefficient each: they share a
    block, in which they do not mix.
    """
    (x,), (r,) = parts.entities, parts.relations
    dim = x.shape[1]
    inner = (dim - 1) // 2
    basis = torch.fft.rfft(torch.eye(dim, dtype=torch.float64), norm="ortho")
    turning = torch.view_as_real(basis[:, 1 : inner + 1]).flatten(1) * 2**0.5
    still = torch.zeros(dim, 2, dtype=torch.float64)
    still[:, 0] = basis[:, 0].real
    frequencies = torch.fft.rfft(r.double())
    edges = torch.zeros(len(r), 2, dtype=torch.float64)
    edges[:, 0] = frequencies[:, 0].real
    if dim % 2 == 0:
        still[:, 1] = basis[:, -1].real
        edges[:, 1] = frequencies[:, -1].real
    middle = frequencies[:, 1 : inner + 1]
    rotations = torch.stack([middle.real, -middle.imag, middle.imag, middle.real], -1)
    blocks = torch.cat([torch.diag_embed(edges).unsqueeze(1), rotations.unflatten(2, (2, 2))], 1)
    vectors = x.double() @ torch.cat([still, turning], 1)
    ingredients = _bilinear(parts, "complex", vectors, blocks)
    config = ingredients.config.with_options(name="hole")
    return Ingredients(config, ingredients.vectors, ingredients.heads)


def _quate(parts: Parts) -> Ingredients:
    (x,), (r,) = parts.entities, parts.relations
    blocks = -torch.einsum("rdj,ijk->rdki", r, quaternion.multiplication_table().to(r))
    return _bilinear(parts, "quate", x.flatten(1), blocks)


def _rescal(parts: Parts) -> Ingredients:
    (x,), (r,) = parts.entities, parts.relations
    return _bilinear(parts, "rescal", x, r.mT.unsqueeze(1))


def _dense(maps: Tensor) -> Tensor:
    """Whole matrices as maps of one block."""
    return maps.flatten(1).unsqueeze(1)


def _real(vectors: Tensor) -> Tensor:
    """Complex coordinates as planes."""
    return torch.view_as_real(vectors).flatten(1)


CONVERSIONS: dict[str, Callable[[Parts], Ingredients]] = {
    "UM": _unstructured,
    "TransE": _translation("transe"),
    "TorusE": _translation("toruse"),
    "TransH": _transh,
    "SE": _se,
    "TransR": _transr,
    "RotatE": _rotate,
    "MuRE": _mure,
    "PairRE": _pairre,
    "DistMult": _distmult,
    "ComplEx": _complex,
    "HolE": _hole,
    "QuatE": _quate,
    "RESCAL": _rescal,
}

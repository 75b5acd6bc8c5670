"""An index in a model's folder: written beside and renamed, and bound to the model by generation.

nearest/about.json          format, generation, and of every type what was measured
nearest/0.safetensors       the codes of the entities of a type, by its number
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from knowledge_sheaves.embedding.folder import (
    GENERATION,
    HASHED,
    NEAREST,
    read_file,
    sha256,
)
from knowledge_sheaves.embedding.model import SheafEmbedding
from knowledge_sheaves.embedding.numbers import check_weights
from knowledge_sheaves.embedding.search.about import ABOUT, AGAIN, FORMAT, SINGLE, about_index
from knowledge_sheaves.embedding.search.building import (
    LEAST,
    RECALL,
    Questions,
    Report,
    asked_of,
    bias_columns,
    build,
    edges,
    monomials,
    sample_queries,
)
from knowledge_sheaves.embedding.search.codes import Coded, Codes
from knowledge_sheaves.embedding.search.finders import Finder, Found, FullScan
from knowledge_sheaves.embedding.search.scans import CodeScan, ListScan
from knowledge_sheaves.embedding.storage import same_model, tensors_written
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.files import as_json, check_place, encoded, replacing, sealed
from knowledge_sheaves.sheaf.monomials import Monomials

AUTO, FULL, EXACT, QUICK = MODES = ("auto", "full", "exact", "quick")
"""How answers are searched for: by all entities, by all their codes, or by some lists of codes."""
LARGE = 1_000_000
"""From so many entities on an index is used without being asked for."""
EDGES: Mapping[str, Questions] = {SINGLE: edges}
PLAIN = ("columns", "order", "starts", "means", "spread", "sample", "longest")


@torch.no_grad()
def index(
    model: SheafEmbedding,
    *,
    recall: float = RECALL,
    least: int = LEAST,
    seed: int = 0,
    questions: Mapping[str, Questions] = EDGES,
    report: Report = lambda said: None,
) -> dict[str, Any]:
    """Build the index of a model that was loaded from a folder, and keep it there.

    Returns what was measured, by type. Types with fewer than ``least`` entities have none. How much
    a quick search reads is found for every shape of ``questions``, of which `SINGLE` is one.
    """
    place, generation = _place(model), model.info.generation if model.info else None
    check_weights(model)
    kinds = _kinds(model, least)
    check_place(place / NEAREST, sum(_room(model, kind) for kind in kinds))
    about: dict[str, Any] = {"format": FORMAT, GENERATION: generation, "types": {}}
    built: dict[int, Codes] = {}
    for kind in kinds:
        started, name = time.perf_counter(), model.graph.schema.types[kind].name
        codes, measured = build(
            *(model, kind, recall, seed, questions),
            lambda said, name=name: report(f"{name}: {said}"),  # type: ignore[misc]
        )
        built[kind] = codes
        about["types"][str(kind)] = {
            "name": name,
            "entities": len(codes),
            "lists": len(codes.spread),
            "shapes": {shape: asdict(each) for shape, each in measured.items()},
            "seed": seed,
            "seconds": round(time.perf_counter() - started, 1),
            "monomials": codes.kind.name.lower(),
        }
    report("writing")
    _write(place, generation, built, about)
    return about


def _place(model: SheafEmbedding) -> Path:
    info = model.info
    if info is None or info.place is None or info.generation is None:
        raise InputError("An index lies in the folder of a model: save the model and load it.")
    if not model.is_as_saved:
        raise InputError("The model was changed after it was loaded: save it and load it again.")
    return info.place


def _kinds(model: SheafEmbedding, least: int) -> list[int]:
    """The types that are indexed; a model whose energies cannot be searched is refused."""
    sizes = [len(model.entities_of_type(kind)) for kind in range(len(model.widths))]
    kinds = [kind for kind, size in enumerate(sizes) if size >= least]
    if not kinds:
        raise InputError(
            f"No type of the model has {least:,} entities, and so few are compared quicker "
            "without an index."
        )
    for kind in kinds:
        query = sample_queries(model, kind, 1, 0)
        candidates = model.pool(kind, "tail").candidates
        if query is not None and asked_of(model, query, candidates) is None:
            raise InputError(
                f"The energy of {model.config.name!r} is no linear form of its entities, so an "
                "index cannot search by it: questions compare all entities."
            )
        monomials(model, candidates)
    return kinds


def _room(model: SheafEmbedding, kind: int) -> int:
    """About how many bytes the index of a type takes."""
    candidates = model.pool(kind, "tail").candidates
    needed, width = monomials(model, candidates), candidates.flat.shape[1]
    wide = candidates.take(torch.zeros(1, dtype=torch.long)).monomials(needed).shape[1]
    return len(candidates) * (width + wide + 32)


def _write(
    place: Path, generation: str | None, built: Mapping[int, Codes], about: dict[str, Any]
) -> None:
    with same_model(place, generation, "index"), replacing(place / NEAREST, ("*",)) as new:
        hashes = {}
        for kind, codes in built.items():
            path = new / f"{kind}.safetensors"
            with tensors_written():
                safetensors.torch.save_file(
                    _tensors(codes), path, metadata={GENERATION: str(generation)}
                )
            hashes[path.name] = sha256(path)
        text = as_json(sealed(about | {"sha256": hashes}))
        (new / ABOUT).write_bytes(encoded(text))
        for path in new.iterdir():  # safetensors lets nobody else read what it writes
            path.chmod((new / ABOUT).stat().st_mode)


def _tensors(codes: Codes) -> dict[str, Tensor]:
    tables = {"points": codes.points} | ({} if codes.more is None else {"more": codes.more})
    coded = {
        f"{name}.{part}": tensor
        for name, table in tables.items()
        for part, tensor in table._asdict().items()
    }
    plain = {name: getattr(codes, name) for name in PLAIN}
    return {name: tensor.contiguous() for name, tensor in (coded | plain).items()}


def _codes(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> Codes:
    def table(name: str) -> Coded | None:
        if f"{name}.codes" not in tensors:
            return None
        return Coded(*(tensors[f"{name}.{part}"] for part in Coded._fields))

    points = table("points")
    if points is None:
        raise ValueError("it has no codes of the vectors")
    return Codes(
        points,
        table("more"),
        **{name: tensors[name] for name in PLAIN},
        kind=Monomials[about["monomials"].upper()],
    )


# Reading.


def check_index(folder: Path, config: Mapping[str, Any]) -> None:
    """Read an index whole, and refuse one that is not as it was written."""
    about = about_index(folder, config.get(GENERATION))
    for name in {} if about is None else about["sha256"]:
        _check_hash(folder / NEAREST / name, about or {})


def _check_hash(path: Path, about: Mapping[str, Any]) -> None:
    if read_file(path, sha256) != about["sha256"].get(path.name):
        raise InputError(f"{path} was changed or cut short after it was written: {AGAIN}.")


def search_mode(model: SheafEmbedding, told: str = AUTO) -> str:
    """How answers are searched for by what a question says: full, exact or quick."""
    if told not in MODES:
        raise InputError(f"search is one of {', '.join(MODES)}, not {told!r}.")
    if told == FULL or (told == AUTO and (model.is_spread or model.graph.num_entities < LARGE)):
        return FULL
    if model.is_spread:
        raise InputError("Over several processes each compares all of its entities: search=full.")
    if model.device.type != "cpu" or _about(model) is None:
        if told == AUTO:
            return FULL
        raise InputError(
            "The model has no index to search by: sheaves index MODEL makes one, and search=full "
            "compares all entities."
        )
    return QUICK if told == AUTO else told


def is_indexed(model: SheafEmbedding) -> bool:
    """Whether a large model has an index, for which all its weights were looked at."""
    return model.graph.num_entities >= LARGE and _about(model) is not None


def search_note(finder: Finder, found: Found) -> list[str]:
    """What to know of answers that a finder found."""
    size = len(finder.candidates)
    if not isinstance(finder, CodeScan):
        return []
    if finder.exact or found.looked_at == size:
        return [f"Exact: whatever of {size:,} entities could be among the best was compared."]
    met = finder.recall if isinstance(finder, ListScan) else None
    told = "" if met is None else f": of the 10 best it met {met:.1%} when it was built"
    return [
        f"Found by the index, which looked at {found.looked_at:,} of {size:,} entities{told}; "
        "search=exact misses none."
    ]


def _about(model: SheafEmbedding) -> dict[str, Any] | None:
    info = model.info
    if info is None or info.place is None or info.generation is None or not model.is_as_saved:
        return None
    place, generation = info.place, info.generation
    if not (place / NEAREST).exists():  # it may still be built
        return None
    return model.keep("about index", lambda: about_index(place, generation))


def finder_of(
    model: SheafEmbedding, kind: int, mode: str, reach: int | None = None, shape: str = SINGLE
) -> Finder:
    """What finds the best entities of a type, by a mode that `search_mode` gave.

    ``reach`` is how many a quick search is to read, if not as many as its recall needs for a
    ``shape`` of questions.
    """
    candidates, biases = model.pool(kind, "tail").candidates, bias_columns(model, kind)
    codes = None if mode == FULL else _loaded(model, kind)
    if codes is None:
        return FullScan(candidates, biases)
    if mode != QUICK:
        return CodeScan(candidates, biases, codes)
    if reach is not None:
        return ListScan(candidates, biases, codes, reach)
    about = _about(model)
    assert about is not None, "codes come with what was measured"
    shapes = about["types"][str(kind)]["shapes"]
    said = shapes.get(shape, shapes[SINGLE])
    return ListScan(candidates, biases, codes, int(said["reach"]), float(said["recall_at_10"]))


def _loaded(model: SheafEmbedding, kind: int) -> Codes | None:
    """The codes of a type, mapped into memory; None where the type has none."""
    about = _about(model)
    assert about is not None, "a mode that needs an index has one"
    assert model.info is not None
    assert model.info.place is not None
    said = about["types"].get(str(kind))
    if said is None:
        return None
    path = model.info.place / NEAREST / f"{kind}.safetensors"

    def read() -> Codes:
        if path.is_file() and path.stat().st_size <= HASHED:  # what is larger is not read whole
            _check_hash(path, about)
        codes = read_file(path, lambda file: _codes(safetensors.torch.load_file(file), said))
        if not codes.fit(model.pool(kind, "tail").candidates, bias_columns(model, kind)):
            raise InputError(f"{path} was changed, or is of other entities: {AGAIN}.")
        return codes

    return model.keep(("codes", kind), read)

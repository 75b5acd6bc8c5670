"""The data sets that PyKEEN knows by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.graph.readers.raw import Raw
from knowledge_sheaves.graph.vocabulary import suggestion

# The files of these come with PyKEEN and need neither the network nor torch.
BUNDLED = ("kinships", "nations", "umls")


def bundled_folder(name: str) -> Path | None:
    """Return the folder of a data set whose files come with PyKEEN."""
    spec = find_spec("pykeen")
    if spec is None or not spec.submodule_search_locations or name.lower() not in BUNDLED:
        return None
    return Path(spec.submodule_search_locations[0]) / "datasets" / name.lower()


def is_named(name: str) -> bool:
    """Whether PyKEEN has a data set of this name.

    >>> is_named("CoDExSmall"), is_named("my model")
    (True, False)
    """
    from pykeen.datasets import dataset_resolver

    return dataset_resolver.normalize(name) in {each.lower() for each in dataset_resolver.options}


def download(name: str) -> Raw:
    """Let PyKEEN fetch a data set, or take the one that it fetched before."""
    # PyKEEN brings torch, which graphs do without: only who asks for its data pays for it.
    from pykeen.datasets import dataset_resolver

    known = {option.lower(): option for option in dataset_resolver.options}
    if dataset_resolver.normalize(name) not in known:
        raise InputError(
            f"{name!r} is not a file, a folder or the name of a PyKEEN data set"
            + (suggestion(name, known) or ".")
        )
    try:
        data = dataset_resolver.make(name)
        parts = {"train": data.training, "valid": data.validation, "test": data.testing}
    except ImportError as error:
        raise SheafError(f"PyKEEN's data set {name!r} needs more packages: {error}") from error
    except OSError as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SheafError(
            f"PyKEEN could not download its data set {name!r} ({reason}); check the network, "
            "or give a folder with the files."
        ) from error
    splits = {
        split: part.mapped_triples.numpy().astype(np.int64)
        for split, part in parts.items()
        if part is not None
    }
    return Raw(_names(data.entity_to_id), _names(data.relation_to_id), splits)


def _names(ids: Mapping[str, int]) -> list[str]:
    return sorted(ids, key=ids.__getitem__)

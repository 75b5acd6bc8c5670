"""Models as folders: what is in them, and how a damaged one is told from a sound one.

config.json           format version, the model's choices, what it was trained on, checksums
entities.tsv          name, type and label of every entity, one a line; its id is its line
schema.json           types and relations; ``classes``, types that shape no stalks
facts.safetensors     the known triples as ids: train, and valid, test and false where there are
                      any; and ``classes``, rows of an entity and a type
weights.safetensors   the parameters
statements.parquet    what the source says beside facts, such as literals (may be absent)
metrics.json          how good it is (may be absent)
trust.json            how far to trust its answers (may be absent)
training.csv          how training went (given by the trainer; may be absent)
measured/             the model that never saw the held-out facts, where this one learned them
index/                the facts as SPARQL searches them, where they are many (made when needed)
nearest/              the entities as answers are searched for (made by `sheaves index`)

Every save draws a generation, an id that stands in the headers of its files: files of two saves are
never taken for one model, however large they are. Text files are held against their checksums
whenever they are read, tensors up to ``HASHED`` bytes too, and all of it by `sheaves check`.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import polars as pl
import safetensors.numpy
from safetensors import SafetensorError

from knowledge_sheaves import __version__
from knowledge_sheaves.embedding.beside import Kept, statements_of
from knowledge_sheaves.embedding.config import SheafConfig
from knowledge_sheaves.embedding.entity_file import read_entities, write_entities
from knowledge_sheaves.embedding.folder import (
    CLASSES,
    COMPANIONS,
    CONFIG,
    ENTITIES,
    FACTS,
    FALSE,
    FORMAT,
    GENERATION,
    HASHED,
    MEASURED,
    MEASUREMENTS,
    METRICS,
    OWN,
    SCHEMA,
    SEALED,
    STATEMENTS,
    TRUST,
    WEIGHTS,
    check_sealed,
    mixed,
    read_config,
    read_file,
    read_json,
    read_measured,
    sha256,
)
from knowledge_sheaves.embedding.narrow import PLAIN
from knowledge_sheaves.embedding.numbers import check_weights
from knowledge_sheaves.embedding.weights import check_size, fill_weights, write_weights
from knowledge_sheaves.errors import InputError, OutputError
from knowledge_sheaves.files import (
    as_json,
    changing,
    check_place,
    encoded,
    reading,
    replacing,
    said_of,
    sealed,
    write_json,
    write_text,
)
from knowledge_sheaves.graph import IntArray, KnowledgeGraph, Schema
from knowledge_sheaves.graph.classes import Classes
from knowledge_sheaves.graph.dataset import Dataset

if TYPE_CHECKING:
    from knowledge_sheaves.embedding.model import SheafEmbedding

Model = TypeVar("Model", bound="SheafEmbedding")


def _no_triples() -> IntArray:
    return np.zeros((0, 3), np.int64)


class Judge(NamedTuple):
    """Where the model lies by which another is judged, and of which save it must be."""

    folder: Path
    generation: str


@dataclass
class ModelInfo:
    """What a model was trained on, how, and how good it is.

    ``held_out`` are the validation and test triples, so that the model can be evaluated, and
    known facts be told from new ones, without the data set. ``drawn`` says that they are our
    choice, ``measured`` is what a model is judged by that has learned them (see `measured`).
    ``false`` are triples that are known to be false, ``statements`` what the source says beside
    facts (see `statements_of`), ``place`` is the folder from which the model was read.

    >>> data = Dataset(KnowledgeGraph.from_triples([("a", "r", "b")]), name="tiny")
    >>> ModelInfo.of(data, seconds=1.5).counts
    {'entities': 2, 'types': 1, 'relations': 1, 'train': 1}
    """

    name: str = "data"
    source: str = "given in Python"
    notes: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    data_hash: str = ""
    training: dict[str, Any] = field(default_factory=dict)
    seconds: float | None = None
    peak_memory: int | None = None
    calibration: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    trust: dict[str, Any] = field(default_factory=dict, repr=False)
    version: str = __version__
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    drawn: bool = False
    measured: SheafEmbedding | Judge | None = field(default=None, repr=False, compare=False)
    held_out: dict[str, IntArray] = field(default_factory=dict, repr=False, compare=False)
    false: IntArray = field(default_factory=_no_triples, repr=False, compare=False)
    generation: str | None = field(default=None, repr=False, compare=False)
    statements: pl.DataFrame | Kept | None = field(default=None, repr=False, compare=False)
    place: Path | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, data: Dataset, **rest: Any) -> ModelInfo:
        """Describe a data set; ``rest`` says how a model was trained on it."""
        schema = data.train.schema
        counts = {
            "entities": data.train.num_entities,
            "types": len(data.train.type_names),
            "relations": len(schema.relation_names),
            **{name: graph.num_triples for name, graph in data.splits.items()},
            **({FALSE: len(data.false)} if len(data.false) else {}),
        }
        held_out = {name: g.triples for name, g in data.splits.items() if name != "train"}
        return cls(
            *(data.name, data.source, list(data.notes), counts, data.hash),
            drawn=data.drawn,
            held_out=held_out,
            false=data.false,
            statements=data.statements,
            **rest,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what is written to config.json as info: all but what has a place of its own."""
        bare = replace(self, measured=None, held_out={}, trust={}, statements=None)
        plain = asdict(replace(bare, false=_no_triples()))
        files = ("metrics", "trust", "measured", "statements", "place")
        for name in (*files, "held_out", "false", "generation"):
            del plain[name]
        return plain


def dataset_of(model: SheafEmbedding) -> Dataset:
    """The facts that a model knows of, by split, as a data set.

    >>> from knowledge_sheaves.embedding import SheafEmbedding, model_config
    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b")])
    >>> dataset_of(SheafEmbedding(model_config("transe", dim=2), graph))
    Dataset('data': 2 entities of 1 types, 1 relations, triples: 1 train)
    """
    info = model.info or ModelInfo()
    held_out = {name: model.graph.with_triples(rows) for name, rows in info.held_out.items()}
    return Dataset(
        model.graph,
        held_out.get("valid"),
        held_out.get("test"),
        *(info.name, info.source, tuple(info.notes), info.drawn, info.false),
    )


def measured(model: SheafEmbedding) -> SheafEmbedding:
    """The model by which one is judged that has learned all facts: it never saw those held out.

    A model that has not learned them is judged by itself.
    """
    if model.info is None or model.info.measured is None:
        return model
    kept = model.info.measured
    if isinstance(kept, Judge):
        found = model.load_another(kept.folder)
        if found.info is None or found.info.generation != kept.generation:
            raise mixed(kept.folder)
        model.info.measured = kept = found
    return kept


def save(
    model: SheafEmbedding,
    folder: Path,
    companions: Mapping[str, str] | None = None,
    *,
    whole: bool = True,
    write: Callable[[SheafEmbedding, Path, dict[str, str]], None] | None = None,
    tables: str = PLAIN,
) -> None:
    """Write a model, all or nothing; a model that was in the folder is replaced.

    ``tables`` is what entity vectors are kept as (`narrow`).

    ``companions`` are further files of text that go with it, by name. Statements beside the facts
    are left out unless the model is to be ``whole``. ``write`` writes the weights with what their
    header is to say, where they are not all here.
    """
    check_target(folder)
    check_weights(model)
    companions, generation = companions or {}, secrets.token_hex(8)
    judge, beside = measured(model), statements_of(model) if whole else None
    with replacing(folder, (*OWN, *companions)) as new:
        _write_sealed(model, new, generation, write or partial(write_weights, tables=tables))
        if beside is not None:
            beside.write_parquet(new / STATEMENTS)
        if judge is not model:
            save(judge, new / MEASURED, whole=False, tables=tables)
        config = _plain(
            {
                # Older versions read tables of single precision alone.
                "format": FORMAT if tables != PLAIN else 1,
                GENERATION: generation,
                "model": model.config.to_dict(),
                "parameters": model.num_parameters,
                "info": model.info.to_dict() if model.info else None,
                "sha256": {
                    name: sha256(new / name)
                    for name in (*SEALED, STATEMENTS)
                    if (new / name).exists()
                },
                **({MEASURED: judge.info.generation} if judge is not model and judge.info else {}),
            }
        )
        texts = {CONFIG: as_json(sealed(config)), **companions}
        if model.info and model.info.metrics:
            texts[METRICS] = _measured_text(model.info.metrics, generation)
        if model.info and model.info.trust:
            texts[TRUST] = _measured_text(model.info.trust, generation)
        for name, text in texts.items():
            (new / name).write_bytes(encoded(text))
    if model.info:
        model.info.generation = generation


def _write_sealed(
    model: SheafEmbedding,
    new: Path,
    generation: str,
    write: Callable[[SheafEmbedding, Path, dict[str, str]], None],
) -> None:
    write_entities(new / ENTITIES, model.graph)
    (new / SCHEMA).write_bytes(encoded(as_json(_schema_data(model.graph))))
    facts = {"train": model.graph.triples, **(model.info.held_out if model.info else {})}
    if model.info is not None and len(model.info.false):
        facts[FALSE] = model.info.false
    if model.graph.classes is not None:
        facts[CLASSES] = model.graph.classes.pairs
    rows = {name: np.ascontiguousarray(triples) for name, triples in facts.items()}
    header = {GENERATION: generation}
    with tensors_written():
        safetensors.numpy.save_file(rows, new / FACTS, metadata=header)
        write(model, new / WEIGHTS, header)
    for name in (FACTS, WEIGHTS):  # safetensors lets nobody else read what it writes
        (new / name).chmod((new / ENTITIES).stat().st_mode)


def _schema_data(graph: KnowledgeGraph) -> dict[str, Any]:
    """The schema, and the types that shape no stalks; who has them stands with the facts."""
    classes = {} if graph.classes is None else {CLASSES: graph.classes.to_dict()}
    return {**graph.schema.to_dict(), **classes}


@contextmanager
def tensors_written() -> Iterator[None]:
    """Say of a failed write of tensors what the system said: safetensors wraps it."""
    try:
        yield
    except SafetensorError as error:
        said = str(error).split("error: ")[-1].split(" (os error")[0]
        raise OSError(errno.EIO, said) from error


def save_metrics(
    found: Mapping[str, Any], folder: Path, generation: str | None = None, file: str = METRICS
) -> None:
    """Write what was measured into a model's folder; ``generation`` says which was measured."""
    with same_model(folder, generation, Path(file).stem) as config:
        write_text(folder / file, _measured_text(found, config.get(GENERATION)))


def save_calibration(
    calibration: Mapping[str, float], folder: Path, generation: str | None = None
) -> None:
    """Write a new calibration into a model's folder, all or nothing; the rest stays as it is.

    ``generation`` says which model was calibrated.
    """
    with same_model(folder, generation, "calibration") as config:
        info = config.get("info") or ModelInfo().to_dict()
        said = _plain(config | {"info": info | {"calibration": dict(calibration)}})
        write_json(folder / CONFIG, sealed(said))


@contextmanager
def same_model(folder: Path, generation: str | None, what: str) -> Iterator[dict[str, Any]]:
    """Keep other writers out, and make sure that the folder still holds the model that is meant."""
    with said_of(folder), changing(folder):
        config = read_config(folder)
        if generation is not None and config.get(GENERATION) != generation:
            raise OutputError(
                f"{folder} was replaced by another model meanwhile, so the {what} of the old one "
                "cannot be kept there: run the command again."
            )
        yield config


def _measured_text(metrics: Mapping[str, Any], generation: str | None) -> str:
    return as_json(sealed(_plain({**metrics, GENERATION: generation})))


def load(
    make: Callable[[SheafConfig, KnowledgeGraph, int | None], Model],
    folder: Path,
    fill: Callable[[Model, Path], None] | None = None,
) -> Model:
    """Read a model; whatever is wrong with its folder is one sentence that names the file.

    ``fill`` gives the model that was made the weights of a file, where not all of them are wanted.
    """
    model = reading(folder, lambda place: _read_model(make, place, fill or fill_weights))
    if model.info is None:
        return model
    # Some is read when it is needed; by then the folder is in its place again.
    model.info.place = folder.resolve()
    model.mark_saved()
    if isinstance(model.info.measured, Judge):
        model.info.measured = model.info.measured._replace(folder=model.info.place / MEASURED)
    if isinstance(model.info.statements, Kept):
        model.info.statements = model.info.statements._replace(path=model.info.place / STATEMENTS)
    return model


def check_target(folder: Path, force: bool = True) -> None:
    """Refuse a folder in which a model must not or cannot be saved; ask before training.

    Without ``force`` a model that is there already is not to be replaced.
    """
    check_place(folder)
    if not force and (folder / CONFIG).exists():
        raise InputError(
            f"{folder} holds a trained model already: choose another folder, or say --force to "
            "replace it (--resume goes on with a run that was stopped)."
        )
    if folder.resolve().parent.exists():
        with said_of(folder), changing(folder):  # not while another process replaces it
            _check_folder(folder)


def _check_folder(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is a file, and a model is a folder: choose another name.")
    names = sorted(item.name for item in folder.iterdir())
    strange = [n for n in names if not any(fnmatch(n, own) for own in (*OWN, *COMPANIONS))]
    if CONFIG not in names and strange:
        raise InputError(
            f"{folder} exists and is not a model (it holds {strange[0]!r}): choose another folder."
        )
    if Path.cwd().is_relative_to(folder.resolve()) or os.path.ismount(folder):
        what = "a disk of its own" if os.path.ismount(folder) else "the folder you work in"
        raise InputError(
            f"{folder} is {what}, and a model's folder is replaced as a whole: choose a folder in "
            f"it, such as {folder / 'model'}."
        )


def _plain(data: object) -> Any:
    """The data as they come back from JSON; a setting of a strange kind must not cost a model."""
    return json.loads(json.dumps(data, default=str))


def _read_model(
    make: Callable[[SheafConfig, KnowledgeGraph, int | None], Model],
    folder: Path,
    fill: Callable[[Model, Path], None],
) -> Model:
    config = read_config(folder)
    check_sealed(folder, config, HASHED)
    said = read_file(folder / SCHEMA, lambda path: read_json(path))
    types = said.pop(CLASSES, None) if isinstance(said, dict) else None
    schema = read_file(folder / SCHEMA, lambda _: Schema.from_dict(said))
    facts = read_file(folder / FACTS, lambda path: safetensors.numpy.load_file(path))
    graph = read_file(folder / ENTITIES, lambda path: read_entities(path, schema, facts["train"]))
    if types is not None:
        pairs = facts.pop(CLASSES, np.zeros((0, 2), np.int64))
        graph.classes = read_file(
            folder / SCHEMA, lambda _: Classes.from_dict(types, pairs, graph.num_entities)
        )
    choices = read_file(folder / CONFIG, lambda _: SheafConfig.from_dict(config["model"]))
    read_file(folder / WEIGHTS, lambda path: check_size(path, choices, graph))
    model = read_file(folder / CONFIG, lambda _: make(choices, graph, None))
    read_file(folder / WEIGHTS, lambda path: fill(model, path))
    if config.get("info") is not None:
        model.info = read_file(folder / CONFIG, lambda _: _info(config["info"]))
        model.info.false = facts.pop(FALSE, _no_triples())
        model.info.held_out = {name: rows for name, rows in facts.items() if name != "train"}
        model.info.generation = config.get(GENERATION)
        if STATEMENTS in config["sha256"]:
            model.info.statements = Kept(folder / STATEMENTS, config["sha256"][STATEMENTS])
        if MEASURED in config:
            model.info.measured = Judge(folder / MEASURED, config[MEASURED])
        for path in (folder / name for name in MEASUREMENTS if (folder / name).exists()):
            setattr(model.info, path.stem, read_measured(path, config))
    return model


def _info(data: Mapping[str, Any]) -> ModelInfo:
    known = {f.name for f in fields(ModelInfo)}
    return ModelInfo(**{name: value for name, value in data.items() if name in known})

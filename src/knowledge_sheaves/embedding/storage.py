"""Models as folders: what is in them, and how a damaged one is told from a sound one.

config.json           format version, the model's choices, what it was trained on, checksums
entities.tsv          name, type and label of every entity, one a line; its id is its line
schema.json           types and relations
facts.safetensors     the known triples as ids: train, and valid and test where there are any
weights.safetensors   the parameters
metrics.json          how good it is (may be absent, may change)
training.csv          how training went (written by the trainer; may be absent, may change)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import safetensors.numpy
import safetensors.torch
from safetensors import SafetensorError

from knowledge_sheaves import __version__
from knowledge_sheaves.embedding.config import SheafConfig
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.files import reading, replacing, write_json, write_text
from knowledge_sheaves.graph import IntArray, KnowledgeGraph, Schema, Vocabulary
from knowledge_sheaves.graph.dataset import Dataset

if TYPE_CHECKING:
    from knowledge_sheaves.embedding.model import SheafEmbedding

Model = TypeVar("Model", bound="SheafEmbedding")

FORMAT = 1
CONFIG, ENTITIES, SCHEMA = "config.json", "entities.tsv", "schema.json"
FACTS, WEIGHTS, METRICS = "facts.safetensors", "weights.safetensors", "metrics.json"
SEALED = (ENTITIES, SCHEMA, FACTS, WEIGHTS)
OWN = (CONFIG, *SEALED, METRICS)
COMPANIONS = ("training.csv", "checkpoint*", "logs", "events.out.tfevents.*", "mlflow.db", "mlruns")
"""What a trainer and its logs may have put into the folder before there is a model in it."""
HEADER = ("name", "type", "label")
ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}


@dataclass
class ModelInfo:
    """What a model was trained on, how, and how good it is.

    ``held_out`` are the validation and test triples, so that the model can be evaluated, and
    known facts be told from new ones, without the data set.

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
    version: str = __version__
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    held_out: dict[str, IntArray] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, data: Dataset, **rest: Any) -> ModelInfo:
        """Describe a data set; ``rest`` says how a model was trained on it."""
        schema = data.train.schema
        counts = {
            "entities": data.train.num_entities,
            "types": len(schema.types),
            "relations": len(schema.relation_names),
            **{name: graph.num_triples for name, graph in data.splits.items()},
        }
        held_out = {name: g.triples for name, g in data.splits.items() if name != "train"}
        return cls(
            *(data.name, data.source, list(data.notes), counts, data.hash),
            held_out=held_out,
            **rest,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what is written to config.json: all but the metrics and the triples."""
        plain = asdict(self)
        del plain["metrics"], plain["held_out"]
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
        *(info.name, info.source, tuple(info.notes)),
    )


def save(model: SheafEmbedding, folder: Path) -> None:
    """Write a model, all or nothing; a model that was in the folder is replaced."""
    check_target(folder)
    with replacing(folder, OWN) as new:
        write_text(new / ENTITIES, _entity_lines(model.graph))
        write_json(new / SCHEMA, model.graph.schema.to_dict())
        held_out = model.info.held_out if model.info else {}
        facts = {"train": model.graph.triples, **held_out}
        rows = {name: np.ascontiguousarray(triples) for name, triples in facts.items()}
        safetensors.numpy.save_file(rows, new / FACTS)
        weights = {name: t.detach().cpu().contiguous() for name, t in model.state_dict().items()}
        safetensors.torch.save_file(weights, new / WEIGHTS)
        for name in (FACTS, WEIGHTS):  # safetensors lets nobody else read what it writes
            (new / name).chmod((new / ENTITIES).stat().st_mode)
        config = _plain(
            {
                "format": FORMAT,
                "model": model.config.to_dict(),
                "info": model.info.to_dict() if model.info else None,
                "sha256": {name: _sha256(new / name) for name in SEALED},
            }
        )
        write_json(new / CONFIG, config | {"seal": _seal(config)})
        if model.info and model.info.metrics:
            save_metrics(model.info.metrics, new)


def save_metrics(metrics: Mapping[str, Any], folder: Path) -> None:
    """Write how good a model is into its folder."""
    write_json(folder / METRICS, metrics)


def save_calibration(calibration: Mapping[str, float], folder: Path) -> None:
    """Write a new calibration into a model's folder, all or nothing; the rest stays as it is."""
    config = reading(folder, _read_config)
    info = config.get("info") or ModelInfo().to_dict()
    said = _plain(config | {"info": info | {"calibration": dict(calibration)}})
    write_json(folder / CONFIG, said | {"seal": _seal(said)})


def load(cls: type[Model], folder: Path) -> Model:
    """Read a model; whatever is wrong with its folder is one sentence that names the file."""
    return reading(folder, lambda place: _read_model(cls, place))


def check_target(folder: Path) -> None:
    """Refuse a folder in which a model must not be saved; ask before training, not after."""
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


def _entity_lines(graph: KnowledgeGraph) -> str:
    escape = str.maketrans(ESCAPES)
    types = [kind.name.translate(escape) for kind in graph.schema.types]
    labels = graph.labels or {}
    lines = ["\t".join(HEADER)] + [
        f"{name.translate(escape)}\t{types[kind]}\t{labels.get(place, '').translate(escape)}"
        for place, (name, kind) in enumerate(
            zip(graph.entities, graph.entity_types.tolist(), strict=True)
        )
    ]
    return "\n".join(lines) + "\n"


def _plain(data: object) -> Any:
    """The data as they come back from JSON; a setting of a strange kind must not cost a model."""
    return json.loads(json.dumps(data, default=str))


def _seal(config: Mapping[str, Any]) -> str:
    """The checksum of config.json itself, of what it says and not of how it is laid out."""
    said = {name: value for name, value in config.items() if name != "seal"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_model(cls: type[Model], folder: Path) -> Model:
    config = _read_config(folder)
    _check_sealed(folder, config.get("sha256", {}))
    schema = _read(folder / SCHEMA, lambda path: Schema.from_dict(_json(path)))
    facts = _read(folder / FACTS, lambda path: safetensors.numpy.load_file(path))
    graph = _read(folder / ENTITIES, lambda path: _graph(path, schema, facts["train"]))
    choices = _read(folder / CONFIG, lambda _: SheafConfig.from_dict(config["model"]))
    model = _read(folder / CONFIG, lambda _: cls(choices, graph))
    _read(folder / WEIGHTS, lambda path: _fill(model, path))
    if config.get("info") is not None:
        model.info = _read(folder / CONFIG, lambda _: _info(config["info"]))
        model.info.held_out = {name: rows for name, rows in facts.items() if name != "train"}
        if (folder / METRICS).exists():
            model.info.metrics = _read(folder / METRICS, _json)
    return model


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if not folder.is_dir():
        what = "it is a file" if folder.exists() else "there is no such folder"
        raise InputError(
            f"{folder} is not a model: {what}; train one with sheaves train DATA --out {folder}."
        )
    if not path.exists():
        raise InputError(f"{folder} is not a model: it has no {CONFIG}; is it the right folder?")
    config = _read(path, _json)
    version = config.get("format") if isinstance(config, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InputError(f"{path} is not the {CONFIG} of a model: it has no format version.")
    if version > FORMAT:
        raise InputError(
            f"{path}: the model has format {version}, and this version of knowledge-sheaves "
            f"({__version__}) reads up to {FORMAT}: install a newer one."
        )
    if config.get("seal") != _seal(config):
        raise _changed(path)
    return config


def _changed(path: Path) -> InputError:
    return InputError(
        f"{path} was changed or cut short after the model was saved (its checksum is wrong): "
        "restore it from a copy, or train again."
    )


def _check_sealed(folder: Path, checksums: Mapping[str, str]) -> None:
    for name in SEALED:
        path = folder / name
        if not path.is_file():
            raise InputError(
                f"{path} is missing, and the model cannot do without it: restore it from a copy, "
                "or train again."
            )
        if _read(path, _sha256) != checksums.get(name):
            raise _changed(path)


Result = TypeVar("Result")


def _read(path: Path, read: Callable[[Path], Result]) -> Result:
    """Read one file; whatever is wrong with it becomes one sentence that names it."""
    with _named(path):
        return read(path)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}, line {error.lineno}: not valid JSON ({error.msg}): restore it from a copy."
        ) from None
    except (UnicodeDecodeError, SafetensorError, KeyError, TypeError) as error:
        raise InputError(f"{path} cannot be understood ({error}): is it of this model?") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogatepass")


def _json(path: Path) -> Any:
    return json.loads(_text(path))


def _graph(path: Path, schema: Schema, train: IntArray) -> KnowledgeGraph:
    names: list[str] = []
    kinds: list[str] = []
    labels: dict[int, str] = {}
    header, *lines = _text(path).removesuffix("\n").split("\n")
    if tuple(header.split("\t")) != HEADER:
        raise InputError(f"the first line must be {' '.join(HEADER)}, divided by tabs.")
    for place, line in enumerate(lines):
        fields_ = line.split("\t")
        if len(fields_) != len(HEADER):
            raise InputError(f"line {place + 2} has {len(fields_)} fields, not {len(HEADER)}.")
        if "\\" in line:
            fields_ = [_unescape(text) for text in fields_]
        names.append(fields_[0])
        kinds.append(fields_[1])
        if fields_[2]:
            labels[place] = fields_[2]
    types = schema.type_names.ids(kinds)
    return KnowledgeGraph(schema, Vocabulary(names), types, *train.T, labels=labels or None)


def _unescape(text: str) -> str:
    # A backslash pairs with what follows it, so look from the left and never twice.
    parts, rest = [], text
    while "\\" in rest:
        before, _, after = rest.partition("\\")
        parts += [before, {"t": "\t", "n": "\n", "r": "\r"}.get(after[:1], after[:1])]
        rest = after[1:]
    return "".join([*parts, rest])


def _info(data: Mapping[str, Any]) -> ModelInfo:
    known = {f.name for f in fields(ModelInfo)}
    return ModelInfo(**{name: value for name, value in data.items() if name in known})


def _fill(model: SheafEmbedding, path: Path) -> None:
    weights = safetensors.torch.load_file(path)
    wanted = model.state_dict()
    shapes = {name: list(t.shape) for name, t in wanted.items()}
    found = {name: list(t.shape) for name, t in weights.items()}
    for name in sorted(shapes.keys() | found.keys()):
        if shapes.get(name) != found.get(name):
            raise InputError(
                f"the weights do not fit the configuration: {name!r} should have the shape "
                f"{shapes.get(name, 'of nothing')}, not {found.get(name, 'of nothing')}; take "
                f"{CONFIG} and {WEIGHTS} from the same model."
            )
    model.to(next(iter(weights.values())).dtype)
    model.load_state_dict(weights)

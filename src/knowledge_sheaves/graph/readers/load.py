"""One door for all data: a name, a file or a folder becomes a data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.files import unreadable
from knowledge_sheaves.graph.readers import about, rdf, tables
from knowledge_sheaves.graph.readers.betae import is_betae, read_betae
from knowledge_sheaves.graph.readers.layout import TextFormat
from knowledge_sheaves.graph.readers.pykeen_data import bundled_folder, download, is_named
from knowledge_sheaves.graph.readers.raw import (
    ENDS,
    SHARED,
    Raw,
    Typing,
    assemble,
    drop_unseen,
    number_names,
)
from knowledge_sheaves.graph.schema import Schema
from knowledge_sheaves.graph.schema_file import load_type_choices
from knowledge_sheaves.graph.splits import split
from knowledge_sheaves.graph.type_rules import TypesOf

MOST_LISTED = 5
SPLITS = {
    "train": ("train", "training"),
    "valid": ("valid", "validation", "val", "dev"),
    "test": ("test", "testing"),
}
SCHEMA_SUFFIXES = (".yaml", ".yml", ".json")


def read(
    source: str | Path,
    *,
    schema: Schema | str | Path | None = None,
    types: TypesOf | str | Path | None = None,
    type_separator: str | None = None,
    type_columns: Sequence[str | int] | None = None,
    labels: Mapping[str, str] | str | Path | None = None,
    relation_labels: Mapping[str, str] | str | Path | None = None,
    lang: str | None = None,
    strict: bool = False,
    min_type_count: int = 1,
    min_pair_count: int = 1,
    stalks: str = SHARED,
    text: TextFormat | None = None,
    sizes: Sequence[float] | None = None,
    seed: int = 0,
    keep_unseen: bool = False,
) -> Dataset:
    """Read a data set.

    ``source`` is a folder with train, valid and test (text, Parquet or RDF); a file, or a folder
    with ``triples``, which is split here by ``sizes`` and ``seed``; a folder of the BetaE
    benchmark; or the name of a PyKEEN data set. A folder may also hold ``types``, ``labels``,
    ``relation_labels`` (text or Parquet) and ``schema.yaml``.

    ``types`` is a mapping, a table of entity and type (``type_separator`` divides several in one
    field, ``type_columns`` says where the two stand), ``"regex:..."`` with one group that finds
    the type at the start of the name (for NELL ``"regex:concept_([a-z]+)_"``), or ``"none"``. They
    rule out, filter and ask, over one stalk; with ``stalks="types"``, or where the schema gives
    dimensions, every type has a stalk of its own, and every pair of types maps of its own.
    ``strict`` and the minimum counts are those of `KnowledgeGraph.from_triples`. Triples of valid
    and test with names that train never shows are dropped and counted in the notes, as PyKEEN does;
    ``keep_unseen`` keeps them. ``lang`` is the language of the labels that RDF has in several.

    >>> read("nations")
    Dataset('nations': 14 entities of 1 types, 55 relations, triples: 1592 train, 199 valid, \
201 test)
    """
    found = _find(source)
    raw, name = _read(found, text or TextFormat(), lang)
    folder = found if isinstance(found, Path) and found.is_dir() else None
    raw = _with_about(raw, folder, types, type_separator, type_columns)
    raw = _with_labels(raw, folder, labels, relation_labels)
    if "train" in raw.splits and not keep_unseen and not (folder and is_betae(folder)):
        raw = drop_unseen(raw)
    counts = {"min_type_count": min_type_count, "min_pair_count": min_pair_count}
    typing = _typing(schema, folder, strict=strict, stalks=stalks, **counts)
    if "train" in raw.splits:
        return assemble(raw, typing, name=name, source=str(source))
    whole = assemble(
        replace(raw, splits={"train": raw.splits["all"]}), typing, name=name, source=str(source)
    )
    parts = split(whole.train, sizes, seed)
    notes = whole.notes + parts.notes
    return replace(
        parts,
        name=name,
        source=str(source),
        notes=notes,
        drawn=True,
        statements=whole.statements,
    )


def _find(source: str | Path) -> Path | str:
    """Return a path that exists, or the name of a data set to download."""
    try:
        path = Path(source).expanduser()
        if path.exists() and not _is_model(path):
            return path
    except RuntimeError:  # ~name, and there is nobody of that name
        raise InputError(f"{source}: there is no such user, and no such file or folder.") from None
    except (OSError, ValueError) as error:
        raise unreadable(Path(source), error) from None
    bundled = bundled_folder(str(source))
    if bundled is not None:
        return bundled
    if path.exists() and not (isinstance(source, str) and is_named(source)):
        raise InputError(f"{source}: this folder holds a model, and no data to learn from.")
    if isinstance(source, Path) or len(path.parts) > 1 or path.suffix:
        raise InputError(f"{source}: there is no such file or folder.")
    return source


def _is_model(path: Path) -> bool:
    """Whether a folder is that of a model: one may lie under the name of the data set it learned.

    Its log, training.csv, would pass for a file of training facts.
    """
    return all((path / name).is_file() for name in ("config.json", "weights.safetensors"))


def _read(found: Path | str, form: TextFormat, lang: str | None) -> tuple[Raw, str]:
    if isinstance(found, str):
        return download(found), found
    if not found.is_dir():
        return _read_files({"all": found}, form, lang), _stem(found)
    name = found.resolve().name
    if is_betae(found):
        return read_betae(found), name
    return _read_files(_files(found), form, lang), name


def _stem(path: Path) -> str:
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return plain.stem


def _files(folder: Path) -> dict[str, Path]:
    suffixes = (*tables.SUFFIXES, *rdf.SUFFIXES)
    by_split = {split: about.find_file(folder, stems, suffixes) for split, stems in SPLITS.items()}
    found = {split: path for split, path in by_split.items() if path is not None}
    if "train" in found:
        return found
    whole = about.find_file(folder, ("triples",), suffixes)
    if whole is None:
        raise InputError(
            f"{folder}: there is no train file (or triples, to be split) here{_instead(folder)}"
        )
    return {"all": whole}


def _instead(folder: Path) -> str:
    """What to give instead of a folder: one of its files that could be read."""
    suffixes = (*tables.SUFFIXES, *rdf.SUFFIXES)
    names = sorted(path.name for path in folder.iterdir() if path.name.lower().endswith(suffixes))
    if not names:
        return f" that ends in {', '.join(suffixes)}."
    shown = ", ".join(names[:MOST_LISTED])
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return f": give the file that holds the facts, one of {shown}{more}."


def _read_files(files: dict[str, Path], form: TextFormat, lang: str | None) -> Raw:
    kinds = {split: _kind(path) for split, path in files.items()}
    if set(kinds.values()) == {"rdf"}:
        return rdf.read_rdf(files, lang)
    if "rdf" in kinds.values():
        names = ", ".join(path.name for path in files.values())
        raise InputError(f"{names}: write all splits as RDF, or all as tables.")
    return number_names(
        {split: tables.table_parts(path, ENDS, form) for split, path in files.items()}
    )


def _kind(path: Path) -> str:
    name = path.name.lower()
    if name.endswith(rdf.SUFFIXES):
        return "rdf"
    if name.endswith(tables.SUFFIXES):
        return "table"
    known = ", ".join((*tables.SUFFIXES, *rdf.SUFFIXES))
    raise InputError(f"{path}: the ending does not tell what it is; use one of {known}.")


def _with_about(
    raw: Raw,
    folder: Path | None,
    types: TypesOf | str | Path | None,
    separator: str | None,
    columns: Sequence[str | int] | None,
) -> Raw:
    """Add the types that the user points to, else those that lie in the folder."""
    if folder is not None and types is None:
        types = about.find_file(folder, about.TYPE_FILES)
    if types is None:
        return raw
    found, notes = about.types_of(types, raw.names, separator, columns)
    return replace(raw, types=found, notes=raw.notes + notes)


def _with_labels(
    raw: Raw,
    folder: Path | None,
    labels: Mapping[str, str] | str | Path | None,
    relation_labels: Mapping[str, str] | str | Path | None,
) -> Raw:
    """Add the labels that the user points to, else those that lie in the folder."""
    if folder is not None:
        labels = labels or about.find_file(folder, about.LABEL_FILES)
        relation_labels = relation_labels or about.find_file(folder, about.RELATION_LABEL_FILES)
    if labels is not None:
        given = labels if isinstance(labels, Mapping) else about.read_labels(Path(labels))
        raw = replace(raw, labels=given)
    if relation_labels is not None:
        of = relation_labels
        given = of if isinstance(of, Mapping) else about.read_relation_labels(Path(of))
        known = _about_relations(given, raw.relations)
        if given and not known:
            raise InputError(
                f"{of}: none of its {len(given):,} rows is about a relation of the graph, such as "
                f"{raw.relations[0]!r}; a row is a relation and its label."
            )
        raw = replace(raw, relation_labels=known)
    return raw


def _about_relations(given: Mapping[str, str], relations: Sequence[str]) -> dict[str, str]:
    """The labels of relations; where no name is one, the columns may stand the other way round."""
    turned = {label: name for name, label in given.items()}
    found = ({r: way[r] for r in relations if r in way} for way in (given, turned))
    return next(filter(None, found), {})


def _typing(schema: Schema | str | Path | None, folder: Path | None, **options: Any) -> Typing:
    if str(schema) == "none":
        return Typing(None, {}, **options, heeds=False)
    if schema is None and folder is not None:
        schema = about.find_file(folder, ("schema",), SCHEMA_SUFFIXES)
    if schema is None or isinstance(schema, Schema):
        return Typing(schema, {}, **options)
    return Typing(Schema.load(schema), load_type_choices(schema), stalks=options["stalks"])

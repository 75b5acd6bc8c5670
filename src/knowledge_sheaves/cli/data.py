"""The data that a command reads, and what a user may say about them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from knowledge_sheaves.cli.output import say
from knowledge_sheaves.errors import InputError

if TYPE_CHECKING:
    from knowledge_sheaves.graph.dataset import Dataset

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A folder with train, valid and test; a file of triples (TSV, CSV, Parquet, RDF), "
        "which is then split; a BetaE folder; or the name of a PyKEEN data set.",
    ),
]
Types = Annotated[
    str | None,
    typer.Option(
        help="A table of entity and type, 'regex:...' with a group that finds the type in the "
        "name, or 'none'."
    ),
]
TypeSeparator = Annotated[
    str | None,
    typer.Option(help="What divides several types in one field of the table of types."),
]
TypeColumns = Annotated[
    str | None,
    typer.Option(help="Entity and type in the table of types, by header or number from 1."),
]
Stalks = Annotated[
    str,
    typer.Option(
        help="What types do. 'shared': they rule out, filter and ask; 'types': each has a stalk of "
        "its own, and relations have maps for every pair of them."
    ),
]
MinTypeCount = Annotated[
    int, typer.Option(min=1, help="Types of fewer entities than this do not count.")
]
MinPairCount = Annotated[
    int,
    typer.Option(
        min=1,
        help="With --stalks types: pairs of types that a relation joins less often share its maps.",
    ),
]
SchemaFile = Annotated[
    Path | None, typer.Option("--schema", metavar="FILE", help="A schema in YAML or JSON.")
]
Labels = Annotated[Path | None, typer.Option(metavar="FILE", help="A table of entity and label.")]
RelationLabels = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A table of relation and label.")
]
Lang = Annotated[
    str | None, typer.Option(help="The language of labels, where RDF has several, such as de.")
]
Delimiter = Annotated[
    str | None, typer.Option(help="What divides the columns of a text file; guessed if not given.")
]
Columns = Annotated[
    str | None,
    typer.Option(help="Head, relation and tail by header or number from 1, such as 3,1,2."),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse relations between several pairs of types.")
]

KeepUnseen = Annotated[
    bool,
    typer.Option(
        "--keep-unseen",
        help="Keep held-out facts about entities that no training fact mentions, as published "
        "results do.",
    ),
]
False_ = Annotated[
    Path | None,
    typer.Option(
        "--false", help="Triples that are known to be false: learned, and never answered."
    ),
]


@dataclass(frozen=True)
class DataOptions:
    """What the user says about the data: the options of every command that learns from them."""

    types: Types = None
    type_separator: TypeSeparator = None
    type_columns: TypeColumns = None
    stalks: Stalks = "shared"
    min_type_count: MinTypeCount = 1
    min_pair_count: MinPairCount = 1
    schema: SchemaFile = None
    labels: Labels = None
    relation_labels: RelationLabels = None
    lang: Lang = None
    false: False_ = None
    delimiter: Delimiter = None
    columns: Columns = None
    strict: Strict = False
    keep_unseen: KeepUnseen = False

    def load(self, source: str, seed: int, force: bool) -> Dataset:
        """Read the data, and tell what a careful reader of the results would want to know.

        What can hardly be meant is refused, unless ``force`` says that it is.
        """
        from knowledge_sheaves.graph.readers import TextFormat, load

        delimiter = "\t" if self.delimiter in ("\\t", "tab") else self.delimiter
        data = load(
            source,
            types=self.types,
            schema=self.schema,
            labels=self.labels,
            relation_labels=self.relation_labels,
            lang=self.lang,
            strict=self.strict,
            text=TextFormat(delimiter=delimiter, columns=_places(self.columns)),
            seed=seed,
            keep_unseen=self.keep_unseen,
            type_separator=self.type_separator,
            stalks=self.stalks,
            min_type_count=self.min_type_count,
            min_pair_count=self.min_pair_count,
            type_columns=_places(self.type_columns),
        )
        for note in data.notes:
            say(f"Note: {note}", err=True)
        _check_meant(data, force)
        if self.false is None:
            return data
        from knowledge_sheaves.graph.readers.negatives import read_false

        return data.with_false(read_false(self.false))


def about_data(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options of `DataOptions`, which it gets as ``about``."""
    own = inspect.signature(command, eval_str=True)
    kinds = get_type_hints(DataOptions, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(each.name, keyword, default=each.default, annotation=kinds[each.name])
        for each in fields(DataOptions)
    ]

    @functools.wraps(command)
    def told(**given: Any) -> None:
        about = DataOptions(**{each.name: given.pop(each.name) for each in options})
        command(**given, about=about)

    here, place = list(own.parameters.values()), list(own.parameters).index("about")
    here[place : place + 1] = options
    parameters = [each.replace(kind=keyword) for each in here]
    told.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    told.__annotations__ = {each.name: each.annotation for each in parameters}
    return told


def _check_meant(data: Dataset, force: bool) -> None:
    if data.doubt and not force:
        raise InputError(
            f"{data.source}: {data.doubt} Say with --columns which columns are head, relation and "
            "tail, or with --force that this is meant."
        )


def _places(columns: str | None) -> list[str | int] | None:
    return None if columns is None else [_place(column) for column in columns.split(",")]


def _place(column: str) -> str | int:
    text = column.strip()
    # A header may be all digits too, but none of a file's columns has so long a number.
    return int(text) if text.isdecimal() and len(text) < 10 else text

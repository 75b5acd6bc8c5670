"""The data that a command reads, and what a user may say about them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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


@dataclass(frozen=True)
class DataOptions:
    """What the user says about the data."""

    types: str | None = None
    schema: Path | None = None
    labels: Path | None = None
    delimiter: str | None = None
    columns: str | None = None
    strict: bool = False
    keep_unseen: bool = False
    relation_labels: Path | None = None
    lang: str | None = None
    type_separator: str | None = None
    stalks: str = "shared"
    min_type_count: int = 1
    min_pair_count: int = 1
    type_columns: str | None = None

    def load(self, source: str, seed: int) -> Dataset:
        """Read the data, and tell what a careful reader of the results would want to know."""
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
        return data


def check_meant(data: Dataset, force: bool) -> None:
    """Refuse to learn from what can hardly be meant, unless the user means it."""
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

"""`sheaves consistency`: how far a model is from a section of its sheaf, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowledge_sheaves.cli.models import Folder, load_model
from knowledge_sheaves.cli.output import (
    AsJson,
    Top,
    print_facts,
    print_json,
    print_table,
    without_empty,
)

if TYPE_CHECKING:
    from knowledge_sheaves.embedding.consistency import Consistency, Discord


def consistency(
    model: Folder,
    top: Top = 10,
    eigenvalues: Annotated[
        int, typer.Option(min=1, help="How many of the smallest eigenvalues above 0 to show.")
    ] = 20,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it, as .svg, .png or .pdf.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how far a model is from agreeing with all of its facts, and where it does not.

    The spectrum of the sheaf's Laplacian on the known facts, the dimensions of H⁰ and H¹, the
    relations and entities whose facts cost most, and what diffusion towards a section changes.

    \b
    Examples:
      sheaves consistency model/
      sheaves consistency model/ --top 5 --picture consistency.svg
    """
    from knowledge_sheaves.embedding.consistency import consistency as measure
    from knowledge_sheaves.embedding.consistency_picture import draw

    found = measure(load_model(model), eigenvalues)
    if picture is not None:
        draw(found, picture, top)
    if as_json:
        print_json(found.to_dict(top))
        return
    _print(found, top)


def _print(found: Consistency, top: int) -> None:
    print_facts("Consistency", _facts(found))
    print_table("Diffusion towards a section", list(_flow(found)))
    print_table("Relations with most discord", _rows("relation", found.relations[:top]))
    print_table("Entities with most discord around them", _rows("entity", found.regions[:top]))
    for note in found.notes:
        typer.echo(note)


def _facts(found: Consistency) -> Iterator[tuple[str, object]]:
    yield "facts", found.triples
    yield "mean energy of a fact", found.energy / found.triples
    yield "energy / length² of the vectors", found.rayleigh
    yield "mean eigenvalue", found.mean_eigenvalue
    yield "largest eigenvalue", found.largest
    yield "spectral gap", found.gap
    yield "smallest eigenvalues", _together(found.spectrum)
    yield "dimension of H⁰", _of(found.h0, found.vertex_dims)
    yield "dimension of H¹", _of(found.h1, found.edge_dims)


def _together(values: Sequence[float]) -> str | None:
    """Eigenvalues with how often they come, which for blocks with like maps is often."""
    counts = Counter(f"{value:.3g}" for value in values)
    return ", ".join(f"{v} ({n} times)" if n > 1 else v for v, n in counts.items()) or None


def _of(dimension: int | None, whole: int) -> str | None:
    return None if dimension is None else f"{dimension:,} of {whole:,}"


def _flow(found: Consistency) -> Iterator[dict[str, Any]]:
    for step in found.flow:
        yield {
            "time": "the end" if step.time is None else f"{step.time:.3g}",
            "mean energy": step.energy,
            "vectors moved by": step.moved,
            "length kept": step.kept,
        }


def _rows(what: str, discords: Sequence[Discord]) -> list[dict[str, Any]]:
    rows = [
        {
            f"{what} label": d.label,
            what: d.name,
            "facts": d.triples,
            "mean energy": d.energy,
            "share": d.share,
            "excess": d.excess,
            "after": d.after,
        }
        for d in discords
    ]
    return without_empty(rows)

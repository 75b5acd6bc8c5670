"""`sheaves neighbours`: the entities whose vectors are nearest."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from knowledge_sheaves.cli.models import Folder, load_model
from knowledge_sheaves.cli.output import AsJson, Top, print_json, print_table, without_empty


def neighbours(
    model: Folder,
    entity: Annotated[str, typer.Argument(help="An entity, by name or label.")],
    top: Top = 10,
    by: Annotated[
        Literal["cosine", "distance"] | None,
        typer.Option(help="What counts as near; by default what suits the model."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the entities of the same type that are nearest to one.

    \b
    Example:
      sheaves neighbours model/ virus
    """
    from knowledge_sheaves.embedding.nearest import neighbours as nearest
    from knowledge_sheaves.embedding.nearest import usual_measure
    from knowledge_sheaves.graph.names import find_entity

    loaded = load_model(model)
    measure = by or usual_measure(loaded)
    found = [each.to_dict() for each in nearest(loaded, entity, top, measure)]
    if as_json:
        name = loaded.graph.name(find_entity(loaded.graph, entity))
        about = {"entity": name, "label": name.label, "by": measure}
        print_json(about | {"neighbours": found})
        return
    found = [{"label": each["label"]} | each for each in found]
    print_table(f"Nearest to {entity}", without_empty(found), "" if found else "No others.")

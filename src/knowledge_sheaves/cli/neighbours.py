"""`sheaves neighbours`: the entities whose vectors are nearest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from knowledge_sheaves.cli.models import Folder, load_model
from knowledge_sheaves.cli.output import AsJson, Top, print_json, print_table, without_empty

if TYPE_CHECKING:
    from torch import Tensor

    from knowledge_sheaves.embedding import SheafEmbedding


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
    from knowledge_sheaves.graph.names import find_entity

    loaded = load_model(model)
    place = find_entity(loaded.graph, entity)
    # Bilinear models compare by products, so the direction of a vector says more than its place.
    measure = by or loaded.config.energy.nearness
    found = _nearest(loaded, place, measure, top)
    if as_json:
        print_json({"entity": loaded.graph.entities[place], "by": measure, "neighbours": found})
        return
    print_table(f"Nearest to {entity}", without_empty(found), "" if found else "No others.")


def _nearest(model: SheafEmbedding, entity: int, measure: str, top: int) -> list[dict[str, Any]]:
    graph = model.graph
    same = model.entities_of_type(int(graph.entity_types[entity]))
    vectors = model.entities.of_type(int(graph.entity_types[entity])).detach().flatten(1)
    mine = int((same == entity).nonzero())
    cosines, distances = _compare(model, vectors, mine)
    order = -cosines if measure == "cosine" else distances
    order[mine] = float("inf")
    best = order.topk(min(top, len(same) - 1), largest=False).indices.tolist()
    labels = graph.labels or {}
    return [
        {
            "name": graph.entities[int(same[row])],
            "label": labels.get(int(same[row])),
            "cosine": float(cosines[row]),
            "distance": float(distances[row]),
        }
        for row in best
    ]


def _compare(model: SheafEmbedding, vectors: Tensor, mine: int) -> tuple[Tensor, Tensor]:
    from torch.linalg import vector_norm
    from torch.nn.functional import cosine_similarity

    ours = vectors[mine : mine + 1]
    difference = model.config.energy.difference(vectors, ours)
    return cosine_similarity(vectors, ours), vector_norm(difference, dim=1)

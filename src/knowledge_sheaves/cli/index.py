"""`sheaves index`: let questions find the best answers without comparing all entities."""

from __future__ import annotations

from typing import Annotated

import typer

from knowledge_sheaves.cli.models import Folder, load_model
from knowledge_sheaves.cli.output import AsJson, print_json, print_table, say


def index(
    model: Folder,
    recall: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="What share of the 10 best answers a quick search is to meet."
        ),
    ] = 0.98,
    least: Annotated[
        int, typer.Option(min=1, help="Leave out types with fewer entities: all are compared.")
    ] = 1000,
    seed: Annotated[int, typer.Option(help="Draws the same clusters and questions again.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Build an index beside a model, by which the best answers are found.

    It holds the entities in 8 bits, in lists of neighbours. A quick search reads some lists and
    compares exactly whatever can win there; an exact one reads all of them and misses nothing. How
    much to read for the recall that is wanted is measured on questions of known facts, of one edge
    (1p) and of two in a row (2p), and kept with the index. From a million entities on, questions
    use it by themselves.

    \b
    Example:
      sheaves index model/ --least 100
    """
    from knowledge_sheaves.query.indexing import index as build

    found = build(load_model(model), recall=recall, least=least, seed=seed, report=say)
    if as_json:
        print_json(found)
        return
    rows = [
        {
            "type": each["name"],
            "entities": each["entities"],
            "lists": each["lists"],
            "shape": shape,
            "read": f"{said['reach'] / each['entities']:.1%}",
            "recall@10": said["recall_at_10"],
            "questions": said["queries"],
            "seconds": each["seconds"],
        }
        for each in found["types"].values()
        for shape, said in each["shapes"].items()
    ]
    print_table(f"{model}", rows, "Recall is that of quick searches; exact ones miss nothing.")

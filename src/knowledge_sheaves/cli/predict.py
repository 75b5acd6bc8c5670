"""`sheaves predict`: the likeliest tails, heads or relations, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from knowledge_sheaves.cli.models import Folder, load_model
from knowledge_sheaves.cli.output import AsJson, Top, print_json, print_table, without_empty
from knowledge_sheaves.cli.solvers import Known, Search
from knowledge_sheaves.cli.together import Sharded, taking_part

if TYPE_CHECKING:
    from knowledge_sheaves.ranking import Predictor
    from knowledge_sheaves.ranking.prediction import Predictions


def predict(
    model: Folder,
    head: Annotated[str | None, typer.Option(help="An entity, by name or label.")] = None,
    relation: Annotated[str | None, typer.Option(help="A relation.")] = None,
    tail: Annotated[str | None, typer.Option(help="An entity, by name or label.")] = None,
    top: Top = 10,
    new: Annotated[bool, typer.Option("--new", help="Leave out what is known already.")] = False,
    known: Known = "all",
    search: Search = "auto",
    sharded: Sharded = False,
    as_json: AsJson = False,
) -> None:
    """Predict what is missing: give two of --head, --relation and --tail.

    The energy is what the model ranks by, lower is better; the probability is calibrated on
    validation facts. Known facts are marked with the split that holds them.

    \b
    Examples:
      sheaves predict model/ --head virus --relation causes
      sheaves predict model/ --relation causes --tail disease_or_syndrome --new
      sheaves predict model/ --head virus --tail disease_or_syndrome
    """
    asked = {"head": head, "relation": relation, "tail": tail}
    with taking_part(sharded) as processes:
        from knowledge_sheaves.ranking import Predictor

        predictor = Predictor(load_model(model, processes), known, search)
        found = predictor.predict(**asked, top=top, new=new)
        _print(asked, found, predictor, as_json)


def _print(
    asked: dict[str, str | None], found: Predictions, predictor: Predictor, as_json: bool
) -> None:
    from knowledge_sheaves.ranking import temperature

    answers = [a.to_dict() for a in found]
    if as_json:
        print_json({"query": asked, "answers": answers, "trust": found.trust})
        return
    answers = [{"label": answer["label"]} | answer for answer in answers]
    if len(predictor.graph.type_names) == 1:
        answers = [answer | {"type": None} for answer in answers]
    title = "  ".join(word or "?" for word in asked.values())
    notes = (*temperature(predictor.model).notes, *predictor.notes) if answers else ("No answers.",)
    notes += (found.trust,) if found.trust and answers else ()
    print_table(title, without_empty(answers), " ".join(notes))

"""`sheaves density`: a model, or the unknowns of a question, as a probability density."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowledge_sheaves.cli.models import Folder, load_model
from knowledge_sheaves.cli.output import (
    AsJson,
    Top,
    named,
    print_facts,
    print_json,
    print_table,
    without_empty,
)
from knowledge_sheaves.cli.solvers import Set, make_options

if TYPE_CHECKING:
    from knowledge_sheaves.query.asking import Asker
    from knowledge_sheaves.query.pattern import Query


def density(
    model: Folder,
    text: Annotated[
        str | None,
        typer.Argument(metavar="[QUERY]", help="A question whose unknowns are looked at."),
    ] = None,
    answer: Annotated[
        list[str] | None,
        typer.Option(metavar="ENTITY", help="The answer to put in, for each target; or the best."),
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="How many completions to draw.")] = 1000,
    near: Annotated[
        str | None,
        typer.Option(metavar="ENTITY", help="How likely does an unknown lie near this one?"),
    ] = None,
    radius: Annotated[
        float | None,
        typer.Option(
            min=0, help="How near; half of the way to its nearest neighbour if not given."
        ),
    ] = None,
    told: Set = None,
    seed: Annotated[int, typer.Option(help="Where the draws start from.")] = 0,
    top: Top = 10,
    as_json: AsJson = False,
) -> None:
    """Show the density that a model's energy is the logarithm of, or that of a question's unknowns.

    Alone: the log-density of all vectors, and for every relation the mean log-potential of its
    facts and its own noise. With a question: once its answer is put in, which entities completions
    that are drawn lie nearest to, and the log-density of those. An unknown that nothing holds has
    no density: --set strength=1 gives it a prior.

    \b
    Examples:
      sheaves density model/
      sheaves density model/ 'virus causes ?y . ?x treats ?y' --set strength=1
    """
    if text is not None:
        _show_unknowns(model, text, answer, samples, near, radius, told, seed, top, as_json)
        return
    from knowledge_sheaves.embedding.density import density as measure
    from knowledge_sheaves.errors import InputError
    from knowledge_sheaves.graph.labels import Name

    if answer or near or radius is not None or told:
        raise InputError("--answer, --near, --radius and --set are for a QUERY: give one.")
    found = measure(load_model(model))
    if as_json:
        print_json(found.to_dict(top))
        return
    facts = [
        ("log-density", found.log_density),
        ("sum of the log-potentials", found.log_potential),
        ("σ², noise per dimension", found.variance),
    ]
    print_facts("Density", [(name, _short(value)) for name, value in facts])
    rows = [
        named("relation", Name(each.name, each.label))
        | {"facts": each.facts, "log ψ": each.log_potential, "noise": each.variance}
        for each in found.relations[:top]
    ]
    note = " ".join(found.notes)
    print_table("Relations whose facts are least likely", without_empty(rows), note)


def _short(value: float | None) -> str | None:
    return None if value is None else f"{value:,.6g}"


def _show_unknowns(
    folder: Any,
    text: str,
    answer: list[str] | None,
    samples: int,
    near: str | None,
    radius: float | None,
    told: list[str] | None,
    seed: int,
    top: int,
    as_json: bool,
) -> None:
    from knowledge_sheaves.errors import InputError
    from knowledge_sheaves.query.asking import Asker
    from knowledge_sheaves.query.completions import candidates, completions

    asker = Asker(load_model(folder), make_options("harmonic", told))
    query = _question(asker, text)
    given = _answers(asker, query, answer)
    found = completions(asker.model, query, given, asker.options)
    if not found.vertices:
        raise InputError("The question has no unknown beside what it asks for: nothing is drawn.")
    unknowns: list[dict[str, Any]] = []
    for variable in found.vertices:
        drawn = candidates(asker.model, found, variable, samples, seed)[:top]
        about: dict[str, Any] = {"variable": variable, "deviation": found.deviation(variable)}
        if near is not None:
            about["near"] = _near(asker, found, variable, near, radius)
        about["entities"] = [
            named("entity", asker.graph.name(each.entity))
            | {"share": each.share, "log_density": each.log_density}
            for each in drawn
        ]
        unknowns.append(about)
    if as_json:
        print_json({"answer": given, "samples": samples, "unknowns": unknowns})
        return
    _print(given, samples, unknowns)


def _print(given: dict[str, str], samples: int, unknowns: list[dict[str, Any]]) -> None:
    facts: list[tuple[str, object]] = list(given.items())
    for each in unknowns:
        facts.append((f"{each['variable']}, deviation", _short(each["deviation"])))
        if "near" in each:
            near = each["near"]
            said = f"{near['probability']:.4g} ± {near['error']:.1g} ({near['how']})"
            where = f"{each['variable']} within {near['radius']:.3g} of {near['entity']}"
            facts.append((where, said))
    print_facts("Answer, and the unknowns", facts)
    for each in unknowns:
        title = f"{each['variable']}: nearest entities of {samples:,} draws"
        print_table(title, without_empty(each["entities"]))


def _question(asker: Asker, text: str) -> Query:
    from knowledge_sheaves.errors import InputError

    query = asker.read(text).query
    if query is None:
        raise InputError("Nothing can be an answer to this question, so it has no density.")
    return query


def _answers(asker: Asker, query: Query, answer: list[str] | None) -> dict[str, str]:
    """The entities that stand for the targets: those given, or those of the best answer."""
    from knowledge_sheaves.errors import InputError
    from knowledge_sheaves.graph.names import find_entity

    if answer:
        if len(answer) != len(query.targets):
            raise InputError(
                f"The question asks for {', '.join(query.targets)}: give --answer once for each."
            )
        ids = [find_entity(asker.graph, each) for each in answer]
        names = [asker.graph.entities[place] for place in ids]
    else:
        (best,) = asker.solve([query], asker.wanted(1))
        if not len(best):
            raise InputError("The question has no answer that could be put in: give --answer.")
        names = [str(name) for name in best[0].names]
    return dict(zip(query.targets, names, strict=True))


def _near(
    asker: Asker, found: Any, variable: str, near: str, radius: float | None
) -> dict[str, Any]:
    from knowledge_sheaves.embedding.nearest import neighbours
    from knowledge_sheaves.errors import InputError
    from knowledge_sheaves.graph.names import find_entity
    from knowledge_sheaves.sheaf import Ball

    name = asker.graph.name(find_entity(asker.graph, near))
    centre = asker.model.vector(str(name))
    if centre.numel() != found.mean(variable).numel():
        raise InputError(f"{near!r} is of another type than {variable}, with another stalk.")
    if radius is None:
        closest = neighbours(asker.model, str(name), 1, "distance")
        radius = closest[0].distance / 2 if closest else 1.0
    chance = found.probability(variable, Ball(centre, radius))
    return {
        "entity": str(name),
        "radius": radius,
        "probability": float(chance.value),
        "error": float(chance.error),
        "how": chance.how,
    }

"""`sheaves synthesise`: a graph of any size that resembles a real one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowledge_sheaves.cli.data import DataOptions, Types
from knowledge_sheaves.cli.output import AsJson, print_facts, print_json, print_table
from knowledge_sheaves.cli.steps import steps

if TYPE_CHECKING:
    from knowledge_sheaves.graph.synthesis import Portrait, Synthesis


def synthesise(
    like: Annotated[str, typer.Option(metavar="DATA", help="The graph to resemble.")],
    entities: Annotated[int, typer.Option(min=2, help="How many entities to make.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder for the data.")],
    triples: Annotated[
        int | None,
        typer.Option(min=1, help="How many facts; as dense as the original if not said."),
    ] = None,
    noise: Annotated[
        float, typer.Option(min=0, max=0.99, help="The share of facts that follow no rule.")
    ] = 0.1,
    seed: Annotated[int, typer.Option(help="The same seed makes the same graph.")] = 0,
    types: Types = None,
    as_json: AsJson = False,
) -> None:
    """Make a graph of any size that resembles a real one, to measure on.

    Types, relations and how facts spread over entities are the original's; which facts hold follows
    from hidden classes, symmetric and functional relations, and relations that are walks along two
    others. What those rules reach themselves is printed beside: no model can do much better.

    \b
    Example:
      sheaves synthesise --like umls --entities 1000 --seed 1 --out made/
    """
    from knowledge_sheaves.files import check_place
    from knowledge_sheaves.graph import synthesis

    check_place(out)
    data = DataOptions(types=types, stalks="types").load(like, seed, force=True)
    portrait = synthesis.portray(data.train)
    with steps() as report:
        made = synthesis.synthesise(
            portrait, entities, triples=triples, seed=seed, noise_rate=noise, report=report
        )
        report("measuring what the rules reach", 0, 1)
        about = {
            "like": like,
            "seed": seed,
            "noise": noise,
            "entities": made.world.num_entities,
            "triples": made.num_triples,
            "relations": len({rule.part.name for rule in made.rules}),
            "walks": sum(rule.through is not None for rule in made.rules),
            "ceiling": asdict(synthesis.measure_ceiling(made)),
        }
        synthesis.write(made, out, about, report)
    if as_json:
        print_json(about)
        return
    print_facts("Made", _facts(about))
    print_table("Beside the original", _beside(portrait, made))


def _facts(about: dict[str, Any]) -> list[tuple[str, object]]:
    ceiling = about["ceiling"]
    plain = [(name, value) for name, value in about.items() if name != "ceiling"]
    return [
        *plain,
        ("MRR of the rules", ceiling["mrr"]),
        ("hits@10 of the rules", ceiling["hits_at_10"]),
        ("held-out facts ranked", ceiling["facts"]),
    ]


def _beside(portrait: Portrait, made: Synthesis) -> list[dict[str, Any]]:
    """The largest relations: their share of the facts, and tails of a head, before and after."""
    import numpy as np

    largest = sorted(made.rules, key=lambda rule: -rule.part.share)[:10]
    rows = []
    for rule in largest:
        facts, part = made.facts[rule.number], rule.part
        active = part.heads.active * float(portrait.shares[part.head_type])
        rows.append(
            {
                "relation": part.name,
                "share": len(facts) / made.num_triples,
                "original": part.share,
                "tails of a head": len(facts) / max(1, len(np.unique(facts[:, 0]))),
                "in the original": part.share * portrait.facts_per_entity / active,
            }
        )
    return rows

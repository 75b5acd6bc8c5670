"""Make a graph: all facts relation by relation, a split of them, and the files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.files import as_json, encoded, replacing
from knowledge_sheaves.graph.arrays import BoolArray, IntArray
from knowledge_sheaves.graph.synthesis.portrait import Portrait
from knowledge_sheaves.graph.synthesis.rules import (
    HEAD,
    TAIL,
    Rule,
    choose_rules,
    distinct,
    draw_facts,
    lonely_facts,
    walk_facts,
    wanted_facts,
)
from knowledge_sheaves.graph.synthesis.world import World

HELD_OUT = 0.1
MOST_HELD_OUT = 20_000
SPLITS = ("train", "valid", "test")
FILES = (*(f"{split}.parquet" for split in SPLITS), "types.parquet", "synthesis.json")
FEWEST = 2
"""Entities of each type; with one alone a relation within it would have no facts."""
Report = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Synthesis:
    """A made graph: the facts of each relation, pairs in order, and the split each belongs to."""

    world: World
    rules: list[Rule]
    facts: list[IntArray]
    split_of: list[IntArray]

    @property
    def num_triples(self) -> int:
        """How many facts there are in all."""
        return sum(map(len, self.facts))

    def of_split(self, number: int, *splits: str) -> IntArray:
        """The facts of a relation that belong to these splits."""
        wanted = [SPLITS.index(split) for split in splits]
        return self.facts[number][np.isin(self.split_of[number], wanted)]


def synthesise(
    portrait: Portrait,
    entities: int,
    *,
    triples: int | None = None,
    seed: int = 0,
    noise_rate: float = 0.1,
    class_size: int = 16,
    compositions: float = 0.1,
    report: Report = lambda what, done, total: None,
) -> Synthesis:
    """Make a graph with so many entities that resembles the one that was portrayed.

    >>> from knowledge_sheaves.graph.readers.load import read
    >>> from knowledge_sheaves.graph.synthesis.portrait import portray
    >>> made = synthesise(portray(read("nations").train), 1_000, triples=20_000)
    >>> made.world.num_entities, round(made.num_triples, -4)
    (1000, 20000)
    """
    if not 0 <= noise_rate < 1:
        raise InputError(f"The rate of the noise lies between 0 and 1, not at {noise_rate}.")
    sizes = _apportion(portrait, entities)
    world = World(portrait, sizes, class_size, noise_rate, seed)
    total = round(portrait.facts_per_entity * entities) if triples is None else triples
    rules = choose_rules(world, total, compositions)
    facts = _facts(world, rules, total, report)
    return Synthesis(world, rules, facts, _split(world, facts))


def _apportion(portrait: Portrait, entities: int) -> IntArray:
    """So many entities of each type; the shares hold, and they add up."""
    least = FEWEST * len(portrait.types)
    if entities < least:
        raise InputError(
            f"{entities:,} entities are too few for {len(portrait.types)} types: take at least "
            f"{least:,}."
        )
    exact = portrait.shares * (entities - least)
    sizes = np.floor(exact).astype(np.int64)
    most_cut = np.argsort(sizes - exact, kind="stable")
    sizes[most_cut[: entities - least - int(sizes.sum())]] += 1
    return sizes + FEWEST


def _facts(world: World, rules: list[Rule], total: int, report: Report) -> list[IntArray]:
    facts: list[IntArray] = [np.zeros((0, 2), np.int64)] * len(rules)
    # Walks go along facts, so those come first.
    for done, rule in enumerate(sorted(rules, key=lambda rule: rule.through is not None)):
        report("drawing facts", done, len(rules))
        count = wanted_facts(rule.part, total)
        rng = np.random.default_rng((world.seed, 2, rule.number))
        if rule.through is None:
            facts[rule.number] = draw_facts(world, rule, count, rng)
        else:
            first, second = rule.through
            steps = facts[first], facts[second]
            facts[rule.number] = walk_facts(world, rule, steps, count, rng)
    for number, pairs in _lonely(world, rules, facts):
        facts[number] = distinct(np.concatenate((facts[number], pairs)), world.num_entities)
    return facts


def _lonely(
    world: World, rules: list[Rule], facts: list[IntArray]
) -> Iterator[tuple[int, IntArray]]:
    """A fact for every entity that has none."""
    has_facts = np.zeros(world.num_entities, bool)
    for pairs in facts:
        has_facts[pairs.ravel()] = True
    rng = np.random.default_rng((world.seed, 3))
    for place in range(len(world.sizes)):
        start, end = world.offsets[place], world.offsets[place + 1]
        lonely = np.flatnonzero(~has_facts[start:end]) + start
        choices = _ends_of_type(rules, place)
        if not len(lonely) or not choices:
            continue
        shares = np.array([rule.part.share for rule, _ in choices])
        drawn = rng.choice(len(choices), len(lonely), p=shares / shares.sum())
        for number, (rule, side) in enumerate(choices):
            chosen = lonely[drawn == number]
            if len(chosen):
                yield rule.number, lonely_facts(world, rule, chosen, side, rng)


def _ends_of_type(rules: list[Rule], place: int) -> list[tuple[Rule, int]]:
    """Where entities of a type may stand; as tails of functional relations they need a new head."""
    heads = [(rule, HEAD) for rule in rules if rule.part.head_type == place]
    tails = [(rule, TAIL) for rule in rules if rule.part.tail_type == place]
    open_tails = [(rule, side) for rule, side in tails if not rule.part.functional]
    return heads + open_tails or tails


def _split(world: World, facts: list[IntArray]) -> list[IntArray]:
    """Hold facts out at random, such that no entity and no relation is lost from train."""
    lengths = np.array([len(pairs) for pairs in facts])
    starts = np.concatenate(([0], np.cumsum(lengths)))
    wanted = min(int(starts[-1] * HELD_OUT), MOST_HELD_OUT)
    rng = np.random.default_rng((world.seed, 4))
    # Twice as many candidates as are wanted: some of them are the last of their entity.
    candidates = rng.permutation(rng.integers(0, starts[-1], 2 * wanted))
    candidates = candidates[np.sort(np.unique(candidates, return_index=True)[1])]
    relation = np.searchsorted(starts, candidates, side="right") - 1
    kept = _spare(world, facts, lengths, relation, candidates - starts[relation], wanted)
    split_of = np.zeros(starts[-1], np.int8)
    held_out = candidates[kept]
    split_of[held_out[::2]], split_of[held_out[1::2]] = 1, 2
    return [split_of[starts[n] : starts[n + 1]] for n in range(len(facts))]


def _spare(
    world: World,
    facts: list[IntArray],
    lengths: IntArray,
    relation: IntArray,
    row: IntArray,
    wanted: int,
) -> BoolArray:
    """Which candidates train can do without, so many at most."""
    degrees = np.zeros(world.num_entities, np.int64)
    for pairs in facts:
        degrees += np.bincount(pairs.ravel(), minlength=world.num_entities)
    left = lengths.copy()
    kept = np.zeros(len(relation), bool)
    for place, (number, at) in enumerate(zip(relation.tolist(), row.tolist(), strict=True)):
        head, tail = facts[number][at]
        if wanted and left[number] > 1 and degrees[head] > 1 and degrees[tail] > 1:
            kept[place] = True
            wanted -= 1
            left[number] -= 1
            degrees[head] -= 1
            degrees[tail] -= 1
    return kept


def write(made: Synthesis, folder: Path, about: dict[str, object], report: Report) -> None:
    """Write the graph as a folder that every command reads: Parquet, and what is known of it."""
    with replacing(folder, FILES) as new:
        for done, split in enumerate(SPLITS):
            report("writing", done, len(SPLITS) + 1)
            _write_split(made, split, new / f"{split}.parquet")
        report("writing", len(SPLITS), len(SPLITS) + 1)
        _write_types(made.world, new / "types.parquet")
        (new / "synthesis.json").write_bytes(encoded(as_json(about)))


def _write_split(made: Synthesis, split: str, path: Path) -> None:
    pairs = [made.of_split(number, split).astype(np.int32) for number in range(len(made.facts))]
    relations = np.repeat(np.arange(len(pairs), dtype=np.int32), list(map(len, pairs)))
    heads, tails = np.concatenate(pairs).T if pairs else np.zeros((2, 0), np.int32)
    # Shuffled: no reader may find the classes by the order of the rows.
    order = np.random.default_rng((made.world.seed, 5, SPLITS.index(split))).permutation(len(heads))
    names = pl.DataFrame({"name": [rule.part.name for rule in made.rules]})["name"]
    ids = pl.DataFrame({"h": heads[order], "r": relations[order], "t": tails[order]})
    (
        ids.lazy()
        .select(
            head=_names(made.world, "h"),
            relation=pl.lit(names).gather(pl.col("r")),
            tail=_names(made.world, "t"),
        )
        .sink_parquet(path)
    )


def _write_types(world: World, path: Path) -> None:
    ids = pl.DataFrame({"id": np.arange(world.num_entities, dtype=np.int32)})
    kinds = np.repeat(np.arange(len(world.sizes), dtype=np.int32), world.sizes)
    types = pl.Series(world.portrait.types)
    ids = ids.with_columns(k=pl.Series(kinds))
    ids.lazy().select(
        entity=_names(world, "id"), type=pl.lit(types).gather(pl.col("k"))
    ).sink_parquet(path)


def _names(world: World, column: str) -> pl.Expr:
    """Names that say nothing of the classes: the ids, stirred."""
    stirred = (pl.col(column).cast(pl.Int64) * _STIR + 12_345) % world.num_entities
    return pl.format("e{}", stirred)


_STIR = 2_147_483_647  # a prime above every number of entities, so that no two names are alike

"""Made graphs: they resemble the original, come out the same again, and their ceiling is right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.readers.load import read
from knowledge_sheaves.graph.synthesis import Portrait, Synthesis, portray, synthesise, write
from knowledge_sheaves.graph.synthesis.ceiling import CERTAIN, Judge, measure_ceiling
from knowledge_sheaves.graph.synthesis.rules import HEAD, TAIL, end_of
from knowledge_sheaves.graph.synthesis.world import BASE


def original() -> KnowledgeGraph:
    """People and films: a symmetric, a functional, a skewed relation, and two in a row."""
    rng = np.random.default_rng(0)
    people = [f"p{i}" for i in range(300)]
    films = [f"f{i}" for i in range(150)]
    popular = np.random.default_rng(1).pareto(1.5, 150)
    rows = []
    for _ in range(1200):
        rows.append(
            (rng.choice(people), "likes", str(rng.choice(films, p=popular / popular.sum())))
        )
    for _ in range(600):
        a, b = rng.choice(people, 2)
        rows += [(a, "knows", b), (b, "knows", a)]
    for film in films:
        rows.append((film, "director", str(rng.choice(people))))
    for _ in range(400):
        rows.append((rng.choice(people), "recommends", str(rng.choice(films))))
    types = dict.fromkeys(people, "Person") | dict.fromkeys(films, "Film")
    return KnowledgeGraph.from_triples(rows, types=types)


@pytest.fixture(scope="module")
def portrait() -> Portrait:
    return portray(original())


@pytest.fixture(scope="module")
def made(portrait: Portrait) -> Synthesis:
    return synthesise(portrait, 2_000, seed=3, class_size=8, compositions=0.25)


def test_it_resembles_the_original(portrait: Portrait, made: Synthesis) -> None:
    world = made.world
    assert world.num_entities == 2_000
    assert made.num_triples == pytest.approx(portrait.facts_per_entity * 2_000, rel=0.1)
    assert world.sizes / 2_000 == pytest.approx(portrait.shares, abs=0.01)
    for rule, facts in zip(made.rules, made.facts, strict=True):
        share = len(facts) / made.num_triples
        assert share == pytest.approx(rule.part.share, rel=0.25), rule.part.name
        tails_a_head = len(facts) / len(np.unique(facts[:, 0]))
        if rule.part.functional:
            assert tails_a_head < 1.2
        else:
            before = next(p for p in portrait.parts if p.name == rule.part.name)
            expected = (
                before.share
                * portrait.facts_per_entity
                / (before.heads.active * portrait.shares[before.head_type])
            )
            assert tails_a_head == pytest.approx(expected, rel=0.5)


def test_popular_entities_stay_popular(made: Synthesis) -> None:
    (likes,) = [rule for rule in made.rules if rule.part.name == "likes"]
    (before,) = [
        np.unique(graph.triples[graph.triples[:, 1] == edge, 2], return_counts=True)[1]
        for graph in [original().by_name]
        for edge in [graph.schema.relation_names.index("likes")]
    ]
    after = np.unique(made.facts[likes.number][:, 1], return_counts=True)[1]
    assert top_share(after) == pytest.approx(top_share(before), abs=0.15)


def top_share(degrees: np.ndarray) -> float:
    """What part of the facts the most popular tenth takes."""
    ordered = np.sort(degrees)[::-1]
    return float(ordered[: max(1, len(ordered) // 10)].sum() / ordered.sum())


def test_what_was_planted_is_there(made: Synthesis) -> None:
    (knows,) = [rule for rule in made.rules if rule.part.symmetric]
    pairs = set(map(tuple, made.facts[knows.number].tolist()))
    assert pairs == {(b, a) for a, b in pairs}
    assert all(a != b for a, b in pairs)
    for rule in made.rules:
        if rule.through is None and len(rule.shift):
            assert 0.85 < in_class(made, rule.number) <= 0.98, rule.part.name


def in_class(made: Synthesis, number: int) -> float:
    """The share of facts that go from class to class as the relation moves them."""
    rule = made.rules[number]
    heads, tails = end_of(made.world, rule, HEAD), end_of(made.world, rule, TAIL)
    agree = [
        digits(int(heads.blocks(np.array([h]))[0]), rule.shift)
        == [
            int(d)
            for d in np.base_repr(int(tails.blocks(np.array([t]))[0]), BASE).zfill(len(rule.shift))
        ][-len(rule.shift) :]
        if len(rule.shift)
        else True
        for h, t in made.facts[number][:300].tolist()
    ]
    return float(np.mean(agree))


def digits(block: int, shift: np.ndarray) -> list[int]:
    """A class moved by a relation, worked out digit by digit."""
    word = np.base_repr(block, BASE).zfill(len(shift))[-len(shift) :]
    return [(int(digit) + int(move)) % BASE for digit, move in zip(word, shift, strict=True)]


def test_walks_follow_their_relations(made: Synthesis) -> None:
    walks = [rule for rule in made.rules if rule.through is not None]
    assert walks, "a quarter of the relations should be walks"
    for rule in walks:
        assert rule.through is not None
        first, second = (made.facts[number] for number in rule.through)
        reached = {(int(a), int(c)) for a, b in first for c in second[second[:, 0] == b][:, 1]}
        found = np.mean([(a, c) in reached for a, c in made.facts[rule.number].tolist()])
        assert 0.8 < found < 1


def test_every_entity_has_a_fact_in_train(made: Synthesis) -> None:
    train = np.concatenate([made.of_split(number, "train") for number in range(len(made.rules))])
    assert len(np.unique(train)) == made.world.num_entities
    held_out = sum(len(made.of_split(n, "valid", "test")) for n in range(len(made.rules)))
    assert held_out == pytest.approx(0.1 * made.num_triples, abs=2)


def test_the_same_seed_makes_the_same_graph(portrait: Portrait, made: Synthesis) -> None:
    again = synthesise(portrait, 2_000, seed=3, class_size=8, compositions=0.25)
    other = synthesise(portrait, 2_000, seed=4, class_size=8, compositions=0.25)
    assert all(map(np.array_equal, made.facts, again.facts))
    assert not all(map(np.array_equal, made.facts, other.facts))


def test_the_ranks_are_those_of_brute_force(made: Synthesis) -> None:
    for rule in made.rules:
        judge = Judge(made, rule)
        for head, tail in made.of_split(rule.number, "test")[:10].tolist():
            for side in (HEAD, TAIL):
                assert judge.rank(head, tail, side) == brute_force(
                    made, rule.number, head, tail, side
                )


def brute_force(made: Synthesis, number: int, head: int, tail: int, side: int) -> float:
    """The rank by the probability of every candidate, one by one."""
    given, answer = (head, tail) if side == TAIL else (tail, head)
    known = {pair[side] for pair in made.facts[number].tolist() if pair[1 - side] == given}
    scores = dict(probabilities(made, number, given, side))
    mine = scores[answer]
    rivals = [score for entity, score in scores.items() if entity not in known - {answer}]
    greater = sum(score > mine for score in rivals)
    equal = sum(score == mine for score in rivals)
    return greater + (equal + 1) / 2


def probabilities(
    made: Synthesis, number: int, given: int, side: int
) -> Iterator[tuple[int, float]]:
    """Every candidate with what speaks for it, from the definition."""
    rule, rate = made.rules[number], made.world.noise_rate
    ends = end_of(made.world, rule, HEAD), end_of(made.world, rule, TAIL)
    train = made.of_split(number, "train").tolist()
    taken = {h for h, _ in train} if rule.part.functional and side == HEAD else set()
    mirrored = {pair[1 - side] for pair in train if pair[side] == given}
    walks = walks_from(made, number, given, side)
    for local, weight in enumerate(ends[side].weights):
        entity = local + ends[side].start
        h, t = (given, entity) if side == TAIL else (entity, given)
        inside = same_class(ends, rule.shift, h, t)
        if entity in walks:
            yield entity, CERTAIN + walks[entity]
        elif rule.part.symmetric and entity in mirrored:
            yield entity, CERTAIN
        else:
            block = ends[TAIL].blocks(np.array([t]))[0]
            lo, hi = ends[TAIL].starts[block], ends[TAIL].starts[block + 1]
            class_weight = float(ends[TAIL].sums[hi] - ends[TAIL].sums[lo])
            anywhere = rate / ends[TAIL].total
            chance = (1 - rate) / class_weight + anywhere if inside else anywhere
            yield entity, 0.0 if entity in taken else float(weight * chance)


def same_class(ends: tuple, shift: np.ndarray, head: int, tail: int) -> bool:
    if not len(shift):
        return True
    blocks = [int(end.blocks(np.array([e]))[0]) for end, e in zip(ends, (head, tail), strict=True)]
    return digits(blocks[0], shift) == digits(blocks[1], np.zeros_like(shift))


def walks_from(made: Synthesis, number: int, given: int, side: int) -> dict[int, float]:
    """The ends of walks along facts of train, each with the chance of its last steps."""
    through = made.rules[number].through
    found: dict[int, float] = {}
    if through is None:
        return found
    first, second = (made.of_split(step, "train").tolist() for step in through)
    for h, m in first:
        onward = [t for b, t in second if b == m]
        for t in onward:
            if given == (h if side == TAIL else t):
                end = t if side == TAIL else h
                found[end] = found.get(end, 0.0) + start(made, number, h, first, side) / len(onward)
    return found


def start(made: Synthesis, number: int, head: int, first: list[list[int]], side: int) -> float:
    """How likely a walk begins with a certain fact of this head, where heads are compared."""
    if side == TAIL:
        return 1.0
    end = end_of(made.world, made.rules[number], HEAD)
    return float(end.weights[head - end.start]) / sum(h == head for h, _ in first)


def test_less_noise_raises_the_ceiling(portrait: Portrait) -> None:
    clean, noisy = (
        measure_ceiling(synthesise(portrait, 2_000, seed=3, noise_rate=rate)) for rate in (0.0, 0.9)
    )
    assert clean.mrr > noisy.mrr
    assert clean.hits_at_10 > noisy.hits_at_10 + 0.05
    assert clean.facts > 100


def test_what_is_written_is_read(made: Synthesis, tmp_path: Path) -> None:
    write(made, tmp_path / "made", {"seed": 3}, lambda what, done, total: None)
    data = read(tmp_path / "made")
    assert data.train.num_entities == 2_000
    assert sum(graph.num_triples for graph in data.splits.values()) == made.num_triples
    assert set(data.train.type_names) == {"Person", "Film"}
    assert json.loads((tmp_path / "made" / "synthesis.json").read_text()) == {"seed": 3}


def test_what_cannot_be_made_is_refused(portrait: Portrait) -> None:
    with pytest.raises(InputError, match="too few for 2 types"):
        synthesise(portrait, 3)
    with pytest.raises(InputError, match="between 0 and 1"):
        synthesise(portrait, 100, noise_rate=1.0)

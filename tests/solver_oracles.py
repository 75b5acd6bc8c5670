"""What each solver must answer, by its definition: every assignment, dense least squares, sums.

Nothing here uses a solver's own code: energies come from `SheafEmbedding.scores` or from the maps,
facts from the triples, and everything is enumerated.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import torch

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.query import Edge, Pattern, Query

EPSILON = 1e-4
Values = dict[str, int]


class Oracle(Protocol):
    """Energies and probabilities of every combination of entities for the targets."""

    def __call__(
        self, model: SheafEmbedding, query: Query, told: Mapping[str, float]
    ) -> dict[tuple[int, ...], tuple[float, float | None]]: ...


def at(term: int | str, values: Mapping[str, int]) -> int:
    return values[term] if isinstance(term, str) else int(term)


def facts_of(model: SheafEmbedding) -> set[tuple[int, int, int]]:
    graph = model.graph
    names = {name: i for i, name in enumerate(graph.schema.relation_names)}
    relations = [names[relation.name] for relation in graph.schema.relations]
    return {(int(h), relations[int(e)], int(t)) for h, e, t in graph.triples}


def assignments(variables: Sequence[str], size: int) -> Iterator[Values]:
    for chosen in itertools.product(range(size), repeat=len(variables)):
        yield dict(zip(variables, chosen, strict=True))


def allowed(pattern: Pattern, values: Mapping[str, int]) -> bool:
    """Whether VALUES and != let an assignment of all their variables through."""
    if any(at(a, values) == at(b, values) for a, b in pattern.different):
        return False
    return all(at(a, values) == at(b, values) for a, b in pattern.bindings)


def holds(pattern: Pattern, values: Values, facts: set[tuple[int, int, int]], size: int) -> bool:
    """Whether facts hold a pattern for some choice of the variables without a value."""
    free = [v for v in pattern.variables if v not in values]
    for more in assignments(free, size):
        here = values | more
        edges = ((at(e.head, here), int(e.relation), at(e.tail, here)) for e in pattern.edges)
        if not allowed(pattern, here) or not all(edge in facts for edge in edges):
            continue
        if not any(holds(inner, here, facts, size) for inner in pattern.without):
            return True
    return False


def distances(pattern: Pattern, target: str, known: Sequence[str] = ()) -> dict[str, int]:
    """Steps from the target; variables that nothing connects with it lie beyond."""
    found = {}
    for number, start in enumerate([target, *pattern.variables]):
        if start in found or start in known:
            continue
        found[start], front = 1000 * number, [start]
        while front:
            here = front.pop(0)
            for edge in pattern.edges:
                for other in edge.terms if here in edge.terms else ():
                    if isinstance(other, str) and other not in found and other not in known:
                        found[other] = found[here] + 1
                        front.append(other)
    return found


def is_inverse(edge: Edge, distance: Mapping[str, int]) -> bool:
    """Whether an edge is read against its arrow: its head is nearer to the target."""
    head, tail = (distance.get(t, 10**9) if isinstance(t, str) else 10**9 for t in edge.terms)
    return head < tail


def schema_edge(model: SheafEmbedding, edge: Edge, head: int, tail: int) -> int | None:
    schema, kinds = model.graph.schema, model.graph.entity_types
    name = schema.relation_names[edge.relation]
    for place, relation in enumerate(schema.relations):
        ends = schema.type_id(relation.head), schema.type_id(relation.tail)
        if relation.name == name and ends == (kinds[head], kinds[tail]):
            return place
    return None


def triple_energy(model: SheafEmbedding, edge: Edge, head: int, tail: int, inverse: bool) -> float:
    """The score of one edge between entities, as it is read towards the target."""
    part = schema_edge(model, edge, head, tail)
    if part is None:
        return math.inf
    turned = inverse and model.config.reciprocal
    row = [tail, part + model.num_relations, head] if turned else [head, part, tail]
    return float(model.scores([row])[0])


# Chaining.


class Chaining:
    """One assignment at a time; with ``objective`` energy, the least sum of energies."""

    def __call__(
        self, model: SheafEmbedding, query: Query, told: Mapping[str, float]
    ) -> dict[tuple[int, ...], tuple[float, float | None]]:
        self.model, self.told, self.size = model, told, model.graph.num_entities
        self.facts, self.rows = facts_of(model), dict[object, np.ndarray]()
        found = {}
        for answer in itertools.product(range(self.size), repeat=len(query.targets)):
            given = dict(zip(query.targets, answer, strict=True))
            parts = [self.best(p, query.targets[-1], given, query.targets) for p in query.patterns]
            if told.get("objective") == "energy":
                found[answer] = -max(parts), None
            else:
                misses = [math.log1p(-part) if part < 1 else -math.inf for part in parts]
                p = -math.expm1(sum(misses))  # all digits, also of what is all but impossible
                found[answer] = (-math.log(p) + 0.0 if p else math.inf), p
        return found

    def best(self, pattern: Pattern, target: str, given: Values, seen: Sequence[str] = ()) -> float:
        """The largest value over the variables without one; those of ``seen`` are variables."""
        known = [v for v in given if v != target and v not in seen]
        distance = distances(pattern, target, known)
        free = [v for v in pattern.variables if v not in given]
        values = [
            self.one(pattern, distance, target, given | m) for m in assignments(free, self.size)
        ]
        return max(values)

    def one(
        self, pattern: Pattern, distance: Mapping[str, int], target: str, values: Values
    ) -> float:
        energies = self.told.get("objective") == "energy"
        if not allowed(pattern, values):
            return -math.inf if energies else 0.0
        edges = [self.edge(edge, distance, target, values, energies) for edge in pattern.edges]
        if energies:
            return -sum(edges)
        p = math.prod(edges)
        for inner in pattern.without:
            shared = [v for v in pattern.variables if v in inner.all_variables]
            nearest = min(shared, key=distance.__getitem__, default="?none")
            denied = self.best(inner, nearest, {v: values[v] for v in shared})
            remembered = self.told.get("facts", "remembered") == "remembered"
            p *= 0.0 if denied == 1 and remembered else 1 - min(1, self.told["kappa"] * denied)
        return p

    def edge(
        self, edge: Edge, distance: Mapping[str, int], target: str, values: Values, energies: bool
    ) -> float:
        head, tail = at(edge.head, values), at(edge.tail, values)
        inverse = is_inverse(edge, distance)
        if energies:
            return triple_energy(self.model, edge, head, tail, inverse)
        source, goal = (tail, head) if inverse else (head, tail)
        term = edge.head if inverse else edge.tail
        unknown = isinstance(term, str) and term != target and term in distance
        focus = self.told.get("focus", 1.0) if unknown else 1.0
        return float(self.row(edge, source, inverse, focus)[goal])

    def row(self, edge: Edge, source: int, inverse: bool, focus: float) -> np.ndarray:
        key = edge.relation, source, inverse, focus
        if key not in self.rows:
            pairs = [(g, source) if inverse else (source, g) for g in range(self.size)]
            known = np.array([(h, int(edge.relation), t) in self.facts for h, t in pairs])
            energy = np.array([triple_energy(self.model, edge, h, t, inverse) for h, t in pairs])
            weight = np.exp(-(energy - energy.min()) * focus / self.told["tau"])
            weight[~np.isfinite(energy)] = 0.0
            p = np.minimum(1 - EPSILON, max(1, known.sum()) * weight / max(weight.sum(), 1e-300))
            remembered = self.told.get("facts", "remembered") == "remembered"
            self.rows[key] = np.where(known, 1.0, p) if remembered else p
        return self.rows[key]


# Harmonic extension.


def harmonic(
    model: SheafEmbedding, query: Query, told: Mapping[str, float]
) -> dict[tuple[int, ...], tuple[float, float | None]]:
    """Dense least squares over the unknowns, for every answer and every reading of the types."""
    targets, size = query.targets, model.graph.num_entities
    answers = list(itertools.product(range(size), repeat=len(targets)))
    energies = [_energies(model, pattern, targets, answers) for pattern in query.patterns]
    if len(targets) > 1:
        return {each: (float(e), None) for each, e in zip(answers, energies[0], strict=True)}
    chances = [_chances(model, pattern, targets, answers, told) for pattern in query.patterns]
    p = 1 - np.prod([1 - each for each in chances], axis=0)
    if len(query.patterns) == 1 and not query.patterns[0].without:
        values = energies[0]
    else:
        with np.errstate(divide="ignore"):
            values = -np.log(p)
    return {each: (float(v), float(c)) for each, v, c in zip(answers, values, p, strict=True)}


def _chances(
    model: SheafEmbedding,
    pattern: Pattern,
    targets: Sequence[str],
    answers: Sequence[tuple[int, ...]],
    told: Mapping[str, float],
) -> np.ndarray:
    bare, facts = Pattern(pattern.edges, (), pattern.different, pattern.bindings), facts_of(model)
    size = model.graph.num_entities
    count = sum(holds(bare, dict(zip(targets, a, strict=True)), facts, size) for a in answers)
    tau = told["tau"] / (1 if model.config.lifted else max(1, len(pattern.variables)))
    energies = _energies(model, pattern, targets, answers)
    weight = np.exp(-(energies - energies.min()) / tau)
    p = np.minimum(1 - EPSILON, max(1, count) * weight / weight.sum())
    for inner in pattern.without:
        try:
            denied = _chances(model, inner, targets, answers, told)
        except NoReading:
            continue
        p = p * (1 - np.minimum(1 - EPSILON, told["kappa"] * denied))
    return p


class NoReading(Exception):
    """No choice of types fits."""


def _energies(
    model: SheafEmbedding,
    pattern: Pattern,
    targets: Sequence[str],
    answers: Sequence[tuple[int, ...]],
) -> np.ndarray:
    found = []
    for answer in answers:
        values = dict(zip(targets, answer, strict=True))
        values |= {v: int(e) for v, e in pattern.bindings if v not in targets}
        conditions = Pattern((), (), pattern.different, pattern.bindings)
        if not allowed(conditions, values):
            found.append(math.inf)
            continue
        free = [v for v in pattern.variables if v not in values]
        kinds = range(len(model.graph.schema.types))
        types = itertools.product(kinds, repeat=len(free))
        each = [
            _least(model, pattern, targets, values, dict(zip(free, k, strict=True))) for k in types
        ]
        found.append(min(each))
    return np.array(found)


def _least(
    model: SheafEmbedding,
    pattern: Pattern,
    targets: Sequence[str],
    values: Values,
    types: Mapping[str, int],
) -> float:
    """min over the unknowns of Σ‖F_h x_h + z − F_t x_t‖², by one dense system."""
    graph, k = model.graph, model.config.sections
    kinds = {v: int(graph.entity_types[e]) for v, e in values.items()} | dict(types)
    start, total = {}, 0
    for variable in types:
        start[variable] = total
        total += model.n_blocks * model.widths[kinds[variable]]
    bound = {v: int(e) for v, e in pattern.bindings if v not in targets}
    distance = distances(pattern, targets[-1], list(bound))
    rows, right, constant = [], [], 0.0
    for edge in pattern.edges:
        ends = [kinds[t] if isinstance(t, str) else int(graph.entity_types[t]) for t in edge.terms]
        name = graph.schema.relation_names[edge.relation]
        parts = [
            place
            for place, relation in enumerate(graph.schema.relations)
            if relation.name == name
            and [graph.schema.type_id(relation.head), graph.schema.type_id(relation.tail)] == ends
        ]
        if not parts:
            return math.inf
        part, terms = parts[0], list(edge.terms)
        if is_inverse(edge, distance) and model.config.reciprocal:
            part, terms = part + model.num_relations, terms[::-1]
        maps = [model.maps.map(end, part).dense().detach() for end in ("head", "tail")]
        z = model.translation(torch.tensor([part]))
        height = len(maps[0])
        fixed = torch.zeros(height, k, dtype=torch.float64)
        if z is not None:
            fixed = fixed + z[0].detach()[:, : height // model.n_blocks].flatten(0, 1)
        row = torch.zeros(height, total, dtype=torch.float64)
        for side, (term, matrix) in enumerate(zip(terms, maps, strict=True)):
            sign = 1 - 2 * side
            if isinstance(term, str) and term in start:
                at_ = start[term]
                row[:, at_ : at_ + matrix.shape[1]] += sign * matrix
                continue
            entity = at(term, values)
            x = model.entities.vector(entity).detach().reshape(-1, k)
            fixed = fixed + sign * matrix @ x
            if side and model.config.lifted:
                constant += float(model.radius**2 - x.square().sum())
            if isinstance(term, str) and term in targets and model.biases is not None:
                end = "tail" if side else "head"
                constant -= float(model.bias(torch.tensor([entity]), end))
        rows.append(row)
        right.append(fixed)
    a, b = torch.cat(rows), torch.cat(right)
    if total:
        b = b - a @ (torch.linalg.pinv(a) @ b)
    return float(b.square().sum()) + constant


# The paper's baseline.


def naive(
    model: SheafEmbedding, query: Query, told: Mapping[str, float]
) -> dict[tuple[int, ...], tuple[float, float | None]]:
    """‖Σ sources ± Σ translations − x‖² − β."""
    (pattern,), (target,) = query.patterns, query.targets
    bound = {v: int(e) for v, e in pattern.bindings if v != target}
    distance = distances(pattern, target, list(bound))
    total, found = torch.zeros(model.config.dim * model.config.sections, dtype=torch.float64), {}
    for edge in pattern.edges:
        for term in edge.terms:
            if not isinstance(term, str) or term in bound:
                total = total + model.entities.vector(bound.get(term, term)).detach().flatten()
        turned = is_inverse(edge, distance)
        reciprocal = turned and model.config.reciprocal
        z = model.translation(torch.tensor([edge.relation + reciprocal * model.num_relations]))
        total = total + (-1 if turned and not reciprocal else 1) * z[0].detach().flatten()
    for entity in range(model.graph.num_entities):
        x = model.entities.vector(entity).detach().flatten()
        energy = float((total - x).square().sum())
        if model.biases is not None:
            for edge in pattern.edges:
                turned = is_inverse(edge, distance) and model.config.reciprocal
                ends = edge.terms[::-1] if turned else edge.terms
                for end, term in zip(("head", "tail"), ends, strict=True):
                    if term == target:
                        energy -= float(model.bias(torch.tensor([entity]), end))
        fits = allowed(
            Pattern((), (), pattern.different, pattern.bindings), {target: entity, **bound}
        )
        found[(entity,)] = (energy if fits else math.inf), None
    return found


ORACLES: dict[str, Oracle] = {"chaining": Chaining(), "harmonic": harmonic, "naive": naive}

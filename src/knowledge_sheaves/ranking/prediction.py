"""The likeliest answers to (head, relation, ?), (?, relation, tail) or (head, ?, tail), by name."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.known import (
    ALL,
    check_known,
    false_facts,
    known_graph,
    known_splits,
)
from knowledge_sheaves.embedding.numbers import check_scores
from knowledge_sheaves.embedding.search.ends import BestEnds, best_ends
from knowledge_sheaves.embedding.search.kept import AUTO, search_mode
from knowledge_sheaves.embedding.shards import ShardedEmbedding
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import IntArray, KnowledgeGraph, Relation
from knowledge_sheaves.graph.ends import impossible
from knowledge_sheaves.graph.labels import quoted
from knowledge_sheaves.graph.names import End, Place, find_entity, find_relation, read_relation
from knowledge_sheaves.notebook import Framed, table
from knowledge_sheaves.ranking.shards import best_of_shards
from knowledge_sheaves.ranking.shares import triple_energies
from knowledge_sheaves.ranking.temperature import temperature
from knowledge_sheaves.ranking.trust import UNMEASURED, triple_probabilities, trust_of
from knowledge_sheaves.ranking.words import said_of_relation, said_of_second


@dataclass(frozen=True)
class Prediction:
    """One answer; ``known`` is the split that holds it as a fact, None for what is new.

    ``energy`` is what the model ranks by (lower is better; entity biases included where the model
    has them), ``probability`` that of the triple by itself (`ranking.trust`), 1 for what is known.
    """

    name: str
    label: str | None
    type: str | None
    energy: float
    probability: float
    known: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


class Predictions(list[Prediction], Framed):
    """Predictions, the best first; in a notebook they are a table.

    ``trust`` says in a sentence how far to trust them.

    >>> Predictions([Prediction("Bob", None, "person", 0.5, 0.9, None)]).to_polars().columns
    ['name', 'label', 'type', 'energy', 'probability', 'known']
    """

    trust: str = ""

    def rows(self) -> list[dict[str, Any]]:
        """The fields of each."""
        return [each.to_dict() for each in self]

    def _repr_html_(self) -> str:
        return table(self.rows()) if self else "<p>No answers.</p>"


def _named(relation: Relation) -> tuple[str, str | None]:
    return relation.name, relation.label


class Predictor:
    """Asks a model for facts by name; ``known`` says which count as known (`embedding.known`).

    ``search`` says how entities are found (`embedding.search`); ``notes`` are of the last answer.

    >>> from knowledge_sheaves.embedding import model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([("Ann", "knows", "Bob"), ("Bob", "knows", "Cy")])
    >>> predictor = Predictor(SheafEmbedding(model_config("transe", dim=4), graph))
    >>> answers = predictor.predict(head="Ann", relation="knows")
    >>> sorted((answer.name, answer.known) for answer in answers)
    [('Ann', None), ('Bob', 'train'), ('Cy', None)]
    """

    def __init__(self, model: SheafEmbedding, known: str = ALL, search: str = AUTO) -> None:
        if not isinstance(model, SheafEmbedding):
            raise InputError(
                "A Predictor takes a SheafEmbedding; what `load` and `train` of knowledge_sheaves "
                "return has a predict of its own."
            )
        check_known(known)
        self.model, self.known, self.search = model, known, search
        self.graph = model.graph
        self.notes: tuple[str, ...] = ()
        self.had = False
        """Whether the facts had an answer to the last question."""

    @cached_property
    def splits(self) -> dict[str, KnowledgeGraph]:
        """The known facts by the split that holds them."""
        return known_splits(self.model, self.known)

    @property
    def facts(self) -> KnowledgeGraph:
        """The known facts of all splits."""
        return known_graph(self.model, self.known)

    @property
    def tau(self) -> float:
        """The temperature that makes energies probabilities: see `temperature`."""
        return temperature(self.model).value

    def predict(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        *,
        top: int = 10,
        new: bool = False,
    ) -> Predictions:
        """Return the best answers for the one of the three that is not given, best first.

        With ``new`` known facts are left out. What types rule out is refused; the name of an
        inverse without facts is its relation read backwards.
        """
        if relation is not None:
            name, backwards = read_relation(self.graph, relation)
            relation, head, tail = name, *((tail, head) if backwards else (head, tail))
        if head is not None and relation is not None and tail is None:
            return self._said(relation, "tail", self._entities("tail", head, relation, top, new))
        if tail is not None and relation is not None and head is None:
            return self._said(relation, "head", self._entities("head", tail, relation, top, new))
        if head is not None and tail is not None and relation is None:
            return Predictions(self._relations(head, tail, top, new))
        raise InputError("Give two of head, relation and tail; the third is what is asked for.")

    def _said(self, relation: str, side: End, answers: list[Prediction]) -> Predictions:
        """The answers with a sentence on how far to trust them, where that was measured."""
        found, trust = Predictions(answers), trust_of(self.model)
        if trust is None:
            found.trust = "" if temperature(self.model).notes else UNMEASURED
            return found
        new = [answer.probability for answer in answers if answer.known is None]
        schema = self.graph.schema
        name = schema.labelled_names[
            schema.relation_names.index(find_relation(self.graph, relation))
        ]
        found.trust = said_of_relation(trust, name, new[0] if new else None, side)
        if new and self.had:
            doubt = said_of_second(self.facts, name, side)
            found.trust = " ".join(filter(None, (found.trust, doubt)))
        return found

    @torch.no_grad()
    def _entities(
        self, target: End, given: str, relation: str, top: int, new: bool
    ) -> list[Prediction]:
        name = find_relation(self.graph, relation)
        side: End = "head" if target == "tail" else "tail"
        entity = find_entity(self.graph, given, [Place(name, side)])
        # Facts that count as known are joined for that, which takes memory.
        typed = self.graph.classes is not None
        why = impossible(self.facts, name, side, entity) if typed else None
        if why is not None:
            raise InputError(why)
        part = self._part(target, entity, name)
        false = self._false(target, entity, name)
        known = self._known(target, entity, name)
        self.had = bool(known)
        best = self._found(target, part, entity, top, false, list(known) if new else [])
        if best is not None:
            answers, self.notes = best.ids.numpy(), best.notes
        else:
            order, self.notes = self._score(target, entity, part), ()
            order[[*false, *(known if new else ())]] = torch.inf
            nearest = order.topk(min(top, len(order)), largest=False)
            answers = nearest.indices[nearest.values < torch.inf].numpy()
        triples = self._triples(target, entity, name, answers)
        energies = triple_energies(self.model, triples, backwards=target == "head")
        chances = triple_probabilities(self.model, triples)
        return [
            self._answer(answer, energy, 1.0 if answer in known else chance, known)
            for answer, energy, chance in zip(
                answers.tolist(), energies.tolist(), chances.tolist(), strict=True
            )
        ]

    def _found(
        self,
        target: End,
        edge: int,
        entity: int,
        top: int,
        false: list[int],
        unwanted: list[int],
    ) -> BestEnds | None:
        """The best answers by an index, or of all processes that have some of the entities."""
        if isinstance(self.model, ShardedEmbedding):
            return best_of_shards(self.model, target, edge, entity, top, self.tau, false, unwanted)
        mode = search_mode(self.model, self.search)
        asked_of = self.model, target, edge, [entity], top, mode
        found = best_ends(*asked_of, tau=self.tau, impossible=[false], unwanted=[unwanted])
        return None if found is None else found[0]

    def _part(self, target: End, entity: int, name: str) -> int:
        """An edge of the relation that fits the type of the given end."""
        schema, kind = self.graph.schema, int(self.graph.entity_types[entity])
        ends = schema.graph.heads if target == "tail" else schema.graph.tails
        parts = schema.edges(name)
        fitting = parts[ends[parts] == kind]
        if not len(fitting):
            side = "head" if target == "tail" else "tail"
            kinds = ", ".join(sorted({schema.types[k].said for k in ends[parts].tolist()}))
            raise InputError(
                f"{quoted(self.graph.name(entity))} is of type {schema.types[kind].said!r} and "
                f"cannot be the {side} of {quoted(name)}: that takes {kinds}."
            )
        return int(fitting[0])

    def _score(self, target: End, entity: int, edge: int) -> Tensor:
        known, edges = torch.tensor([entity]), torch.tensor([edge])
        if target == "tail":
            scores = self.model.score_tails(known, edges)[0]
        else:
            scores = self.model.score_heads(edges, known)[0]
        check_scores(self.model, scores)
        return scores

    def _known(self, target: End, entity: int, name: str) -> dict[int, str]:
        return {
            answer: split
            for split, graph in reversed(self.splits.items())
            for answer in (
                graph.tails(entity, name) if target == "tail" else graph.heads(name, entity)
            ).tolist()
        }

    def _false(self, target: End, entity: int, name: str) -> list[int]:
        """What is known to be no answer."""
        graph = false_facts(self.model)
        if graph is None:
            return []
        found = graph.tails(entity, name) if target == "tail" else graph.heads(name, entity)
        return [int(answer) for answer in found]

    def _triples(self, target: End, entity: int, name: str, answers: IntArray) -> IntArray:
        """The triples that answers are."""
        given = np.full(len(answers), entity)
        heads, tails = (given, answers) if target == "tail" else (answers, given)
        kinds = self.graph.entity_types
        edges = self.graph.schema.find_edges([name] * len(answers), kinds[heads], kinds[tails])
        return np.stack([heads, edges, tails], 1)

    def _answer(
        self, entity: int, energy: float, probability: float, known: dict[int, str]
    ) -> Prediction:
        kind = ", ".join(self.graph.types_said(entity)) or None
        name = self.graph.name(entity)
        return Prediction(str(name), name.label, kind, energy, probability, known.get(entity))

    @torch.no_grad()
    def _relations(self, head: str, tail: str, top: int, new: bool) -> list[Prediction]:
        """The relations that may hold between two entities, the likeliest first.

        Energies of different relations have different scales; probabilities can be compared.
        """
        h, t = find_entity(self.graph, head), find_entity(self.graph, tail)
        schema, kinds = self.graph.schema, self.graph.entity_types
        fits = (schema.graph.heads == kinds[h]) & (schema.graph.tails == kinds[t])
        edges = np.flatnonzero(fits)
        pair = torch.tensor([h]), torch.tensor([t])
        ruled_out = self.model.score_relations(*pair)[0].isposinf().cpu().numpy()
        edges = edges[~ruled_out[edges]]
        graph = false_facts(self.model)
        if not len(edges):
            raise InputError(
                f"The schema has no relation from {', '.join(self.graph.types_said(h))!r} to "
                f"{', '.join(self.graph.types_said(t))!r}."
            )
        triples = np.stack([np.full(len(edges), h), edges, np.full(len(edges), t)], 1)
        if graph is not None:
            possible = ~graph.contains(triples)
            edges, triples = edges[possible], triples[possible]
        energies = self.model.scores(triples).tolist()
        chances = triple_probabilities(self.model, triples).tolist()
        known = {
            int(edge): split
            for split, graph in reversed(self.splits.items())
            for edge in edges[graph.contains(triples)].tolist()
        }
        found = [
            Prediction(
                *(*_named(schema.relations[edge]), None, energy),
                *(1.0 if edge in known else chance, known.get(edge)),
            )
            for edge, energy, chance in zip(edges.tolist(), energies, chances, strict=True)
            if not (new and edge in known)
        ]
        return sorted(found, key=lambda p: (-p.probability, p.energy))[:top]

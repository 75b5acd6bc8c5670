"""Reports of link prediction: for programs as a dictionary, for people as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.evaluation.matching import matched
from knowledge_sheaves.evaluation.patterns import PATTERNS, relation_patterns
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.labels import label_of, said
from knowledge_sheaves.notebook import Framed
from knowledge_sheaves.notebook import table as html_table
from knowledge_sheaves.plain import printable
from knowledge_sheaves.ranking import RankMetrics, Ranks, Scorer, Side, rank_triples, ranked_side
from knowledge_sheaves.ranking.ranker import MEMORY_LIMIT

BySide = Mapping[Side, RankMetrics]
SHOWN_RELATIONS = 10
SIDES = {"head": "head side", "tail": "tail side", "both": "both sides"}


@dataclass(frozen=True)
class LinkPredictionReport(Framed):
    """How well true triples rank: overall, by relation and by pattern, each side apart.

    Relations go by the names that users know. ``protocol`` says in words what was measured.
    """

    overall: BySide
    by_relation: Mapping[str, BySide]
    by_pattern: Mapping[str, BySide]
    patterns: Mapping[str, Sequence[str]]
    triples: int
    entities: int
    protocol: str

    @classmethod
    def from_ranks(
        cls, ranks: Ranks, train: KnowledgeGraph, *, filtered: Sequence[str] = ("train",)
    ) -> LinkPredictionReport:
        """Sum up ranks; ``filtered`` names the splits whose facts were left out.

        >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r", "c")])
        >>> from knowledge_sheaves.ranking import SideRanks
        >>> best = SideRanks(*np.ones((2, 2), int), candidates=np.array([3, 3]))
        >>> report = LinkPredictionReport.from_ranks(Ranks(graph.triples, tail=best), graph)
        >>> report.mrr, report.protocol
        (1.0, 'filtered, realistic ranks, tail side, known facts of train filtered')
        """
        if not len(ranks.triples):
            raise InputError("There are no triples to evaluate: the split is empty.")
        found = relation_patterns(train)
        names = train.schema.labelled_names
        mine = train.schema.edge_names[ranks.triples[:, 1]]
        seen = np.unique(mine)
        patterns = {names[place]: found[place].names for place in seen.tolist()}
        members = {
            pattern: [place for place in seen.tolist() if pattern in found[place].names]
            for pattern in PATTERNS
        }
        return cls(
            overall=_measure(ranks),
            by_relation={names[place]: _measure(ranks[mine == place]) for place in seen.tolist()},
            by_pattern={
                pattern: _measure(ranks[np.isin(mine, places)])
                for pattern, places in members.items()
                if places
            },
            patterns=patterns,
            triples=len(ranks.triples),
            entities=train.num_entities,
            protocol=_protocol(list(ranks.sides)[-1], filtered),
        )

    @property
    def mrr(self) -> float:
        """The mean reciprocal rank over all sides that were ranked."""
        return list(self.overall.values())[-1].mrr

    def to_dict(self) -> dict[str, Any]:
        """Return plain dictionaries and numbers, as written to JSON."""
        return {
            "protocol": self.protocol,
            "triples": self.triples,
            "entities": self.entities,
            "overall": _plain(self.overall),
            "by_pattern": {name: _plain(sides) for name, sides in self.by_pattern.items()},
            "by_relation": {
                name: _label(name) | {"patterns": list(self.patterns[name]), **_plain(sides)}
                for name, sides in self.by_relation.items()
            },
        }

    def rows(self) -> list[dict[str, Any]]:
        """A row for all triples, for each pattern and for each relation, side by side."""
        parts = {"all": {"all": self.overall}, "pattern": self.by_pattern}
        parts["relation"] = self.by_relation
        return [
            {"by": by, "name": str(name), "label": label_of(name), "side": side, **of.to_dict()}
            for by, group in parts.items()
            for name, sides in group.items()
            for side, of in sides.items()
        ]

    def _repr_html_(self) -> str:
        total = list(self.overall)[-1]
        groups = {
            "Overall": {SIDES[side]: of for side, of in self.overall.items()},
            "By pattern": {name: of[total] for name, of in self.by_pattern.items()},
        }
        note = f"{self.triples:,} triples, {self.entities:,} entities: {self.protocol}"
        tables = [
            html_table([{"": name, **of.to_dict()} for name, of in rows.items()], title)
            for title, rows in groups.items()
        ]
        return f"{''.join(tables)}<p>{escape(note)}</p>"

    def table(self) -> Group:
        """Return tables for the terminal: overall, by pattern, and the largest relations."""
        total = list(self.overall)[-1]
        largest = sorted(self.by_relation, key=lambda name: -self.by_relation[name][total].count)
        shown = largest[:SHOWN_RELATIONS]
        relations = "By relation"
        if len(largest) > len(shown):
            relations = f"The {len(shown)} largest of {len(largest)} relations"
        return Group(
            f"{self.triples:,} triples, {self.entities:,} entities: {self.protocol}",
            _table("Overall", ((SIDES[side], of) for side, of in self.overall.items())),
            _table("By pattern", ((name, of[total]) for name, of in self.by_pattern.items())),
            _table(relations, ((name, self.by_relation[name][total]) for name in shown)),
        )


def evaluate(
    model: Scorer,
    data: Dataset,
    split: str = "test",
    side: Side | None = None,
    memory_limit: int = MEMORY_LIMIT,
) -> LinkPredictionReport:
    """Rank the triples of a split with all facts known by then filtered, and sum up.

    Without ``side`` both ends are ranked, as far as the model can: see `ranked_side`. Validation
    filters the facts of train and valid: the test split is not to be known yet. Data that number
    entities otherwise than a model does are matched by name, or refused.

    >>> import torch
    >>> class Guess:  # all answers are equally good
    ...     def score_tails(self, heads, edges):
    ...         return torch.zeros(len(heads), 3)
    ...     def score_heads(self, edges, tails):
    ...         return torch.zeros(len(tails), 3)
    >>> train = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    >>> data = Dataset(train, test=train.with_triples([("a", "r", "c")]))
    >>> evaluate(Guess(), data).overall["both"].mean_rank  # one of two is right, on either side
    1.5
    """
    if split not in data.splits:
        raise InputError(
            f"The data set {data.name!r} has no {split!r} split, only {', '.join(data.splits)}."
        )
    if isinstance(model, SheafEmbedding):
        data = matched(model.graph, data)
    side = side or ranked_side(model)
    names = list(data.splits)
    known = {name: data.splits[name] for name in names if split == "test" or name != "test"}
    ranks = rank_triples(
        model, data.splits[split].triples, list(known.values()), side, memory_limit
    )
    return LinkPredictionReport.from_ranks(ranks, data.train, filtered=list(known))


def _measure(ranks: Ranks) -> dict[Side, RankMetrics]:
    return {side: RankMetrics.of(values) for side, values in ranks.sides.items()}


def _plain(sides: BySide) -> dict[str, dict[str, int | float]]:
    return {side: metrics.to_dict() for side, metrics in sides.items()}


def _label(name: str) -> dict[str, Any]:
    label = label_of(name)
    return {} if label is None else {"label": label}


def _protocol(side: Side, filtered: Sequence[str]) -> str:
    facts = "+".join(filtered)
    return f"filtered, realistic ranks, {SIDES[side]}, known facts of {facts} filtered"


def _table(title: str, rows: Iterable[tuple[str, RankMetrics]]) -> Table:
    table = Table(title=Text(printable(title)), title_justify="left")
    table.add_column("")
    for name in ("ranks", "MRR", "Hits@1", "Hits@3", "Hits@10", "mean rank", "AMRI"):
        table.add_column(name, justify="right")
    for name, of in rows:
        shares = (of.mrr, of.hits_at_1, of.hits_at_3, of.hits_at_10)
        cells = [f"{share:.3f}" for share in shares]
        # Names are the user's, not markup.
        table.add_row(
            Text(printable(said(name))),
            f"{of.count:,}",
            *cells,
            f"{of.mean_rank:,.1f}",
            f"{of.amri:.3f}",
        )
    return table

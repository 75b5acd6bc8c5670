"""What the fit of probabilities leaves open, judged on validation facts: two tables.

python experiments/calibration.py build/codex build/fb build/hetionet

How often a first answer counts, and what counts beside its score: its place, the second new
answer's score, how well relations are found. Half of the questions are judged by a fit on the other
half: the expected calibration error of first answers and of the first ten, and the log-loss of
first answers. Nothing is written; test facts are not looked at.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _common import markdown

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.storage import dataset_of, measured
from knowledge_sheaves.evaluation.trust import ask, drawn
from knowledge_sheaves.query.questions import RISING, TOLD, WEIGHTS
from knowledge_sheaves.ranking.logistic import Logistic, calibration_error, halves, log_loss
from knowledge_sheaves.ranking.proposals import FIRST, propose
from knowledge_sheaves.ranking.shares import both_sides
from knowledge_sheaves.ranking.temperature import temperature
from knowledge_sheaves.ranking.trust import (
    FEW,
    KNOTS,
    WORK,
    in_pieces,
    least_weights,
    measure_facts,
    others,
)

Choice = tuple[int, tuple[str, ...]]
"""How often a first answer counts, and what counts beside the score and how much is known."""
PLACE, SECOND, RELATIONS = "place", "second", "relations"
OF_FACTS: tuple[Choice, ...] = (
    (1, ()),
    (11, ()),
    (15, ()),
    (9, (PLACE,)),
    (11, (PLACE,)),
    (13, (PLACE,)),
    (15, (PLACE,)),
)
OF_QUESTIONS: tuple[Choice, ...] = (
    (1, ()),
    (5, (PLACE,)),
    (11, (PLACE,)),
    (11, (PLACE, SECOND)),
    (11, (PLACE, RELATIONS)),
    (1, (PLACE, SECOND, RELATIONS)),
    (5, (PLACE, SECOND, RELATIONS)),
    (11, (PLACE, SECOND, RELATIONS)),
)


@dataclass(frozen=True)
class Examples:
    """Answers: what their probability is made of, groups, ranks, questions, and what is right.

    ``parts`` are the columns that may be left out, ``sides`` from how many ends scores are taken.
    """

    columns: Any
    parts: Mapping[str, slice]
    sides: int
    groups: Any
    least: int
    ranks: Any
    questions: Any
    right: Any

    def error(self, times: float, counting: Sequence[str]) -> str:
        """The error of first answers and of the first ten, and the log-loss of first answers.

        Each half of the questions is judged by the other.
        """
        x = self.columns.copy()
        for name, part in self.parts.items():
            x[:, part] *= name in counting
        rising = least_weights(self.sides)
        counted = np.where(self.ranks == 0, float(times), 1.0)
        half, shown = halves(self.questions), np.empty(len(x))
        for mine in (half, ~half):
            one = ~mine
            told = x[one], self.right[one], self.groups[one], self.least, rising, counted[one]
            found = Logistic.fit(*told)
            own = {group: bend for group, bend in found.groups.items() if group >= 0}
            shown[mine] = Logistic(found.weights, own)(x[mine], self.groups[mine])
        first = self.ranks == 0
        parts = (shown[first], self.right[first]), (shown, self.right)
        errors = [calibration_error(*part) for part in parts]
        return ", ".join(f"{each:.3f}" for each in (*errors, log_loss(*parts[0])))


def of_facts(judge: SheafEmbedding) -> Examples:
    """What is proposed for validation facts; relations with too few go together."""
    valid = dataset_of(judge).valid
    assert valid is not None, "a model with validation facts"
    known = judge.graph.with_triples(others(judge))
    found = propose(judge, valid, known, most=max(2 * FEW, WORK // (11 * valid.num_entities)))
    columns = in_pieces(both_sides(judge, found.triples, temperature(judge).value))
    names = judge.graph.schema.edge_names
    often = np.bincount(names[valid.triples[:, 1]], minlength=names.max() + 1) >= FEW
    mine = names[found.triples[:, 1]].astype(np.int64)
    groups = np.where(often[mine], mine, -1)
    sides = columns.shape[1] // len(KNOTS)
    start = len(least_weights(sides))
    parts = {PLACE: slice(start - 1, start)}
    return Examples(columns, parts, sides, groups, 1, found.ranks, found.questions, found.right)


def of_questions(judge: SheafEmbedding) -> Examples:
    """The first answers to questions drawn from validation facts, by shape."""
    asked = ask(judge, drawn(judge), measure_facts(judge))
    rows, right, first, questions = asked.columns
    shapes = np.unique(asked.shapes, return_inverse=True)[1]
    start = len(RISING)
    parts = {
        PLACE: slice(start - 1, start),
        SECOND: slice(start, WEIGHTS - 1 - TOLD),
        RELATIONS: slice(WEIGHTS - 1 - TOLD, None),
    }
    return Examples(rows, parts, 1, shapes, FEW * FIRST // 2, first, questions, right)


def table(models: Sequence[Path], examples: Sequence[Examples], choices: Sequence[Choice]) -> str:
    rows = [
        [str(times), ", ".join(counting), *(each.error(times, counting) for each in examples)]
        for times, counting in choices
    ]
    return markdown(["first counts", "counts too", *(folder.name for folder in models)], rows)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path, help="folders of models with both ends")
    folders = parser.parse_args(words).models
    judges = []
    for folder in folders:
        model = SheafEmbedding.load(folder)
        judges.append(measured(model))
        if model.info is not None and judges[-1].info is not None:
            judges[-1].info.calibration = dict(model.info.calibration)
    print(table(folders, [of_facts(judge) for judge in judges], OF_FACTS))
    print(table(folders, [of_questions(judge) for judge in judges], OF_QUESTIONS))


if __name__ == "__main__":
    main()

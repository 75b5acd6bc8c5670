"""What the fit of probabilities leaves open, judged on validation facts: two tables.

python experiments/calibration.py build/codex build/fb build/hetionet

How often a first answer counts, and what counts beside its score: its place; of larger questions
the second new answer's score, how well relations are found, what became of questions with the same
relations, how often known facts have the answer there, that some questions have no answer, and
weights for each shape of questions.

Of single facts half of the questions are judged by a fit on the other half: the expected
calibration error of first answers and of the first ten, and the log-loss of first answers. Larger
questions that need one half of the validation facts are judged by a fit on those that need the
other half: the error of first answers to `2p` and to `2i`, their log-loss, and the mean probability
of the first answer to questions that have none. Nothing is written; test facts are not looked at.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _common import markdown

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.storage import dataset_of, measured
from knowledge_sheaves.evaluation import trust
from knowledge_sheaves.evaluation.reliability import SAMPLE
from knowledge_sheaves.evaluation.trials import sizes, trials
from knowledge_sheaves.evaluation.trust import ask, unanswerable
from knowledge_sheaves.query.questions import RISING, TOLD, WEIGHTS
from knowledge_sheaves.ranking.logistic import (
    Additive,
    Logistic,
    calibration_error,
    halves,
    log_loss,
)
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
PLACE, SECOND, RELATIONS, ALIKE = "place", "second", "relations", "alike"
FAMILIAR, ABSURD, SHAPE = "familiar", "absurd", "shape"
OF_FACTS: tuple[Choice, ...] = (
    (1, ()),
    (11, ()),
    (15, ()),
    (9, (PLACE,)),
    (11, (PLACE,)),
    (13, (PLACE,)),
    (15, (PLACE,)),
)
EVERY = (PLACE, SECOND, RELATIONS, ALIKE, FAMILIAR, ABSURD, SHAPE)
OF_QUESTIONS: tuple[Choice, ...] = (
    (1, ()),
    *((8, EVERY[: count + 1]) for count in range(len(EVERY) - 1)),
    (5, EVERY),
    (8, EVERY),
    (12, EVERY),
)
JUDGED = "2p", "2i"


def judged(shown: Any, ranks: Any, right: Any) -> list[float]:
    """The error of first answers and of the first ten, and the log-loss of first answers."""
    first = ranks == 0
    errors = [calibration_error(p, y) for p, y in ((shown[first], right[first]), (shown, right))]
    return [*errors, log_loss(shown[first], right[first])]


@dataclass(frozen=True)
class Facts:
    """Proposed facts: what their probability is made of, groups, ranks, questions, what is right.

    ``sides`` says from how many ends scores are taken; the place is the last of the pieces.
    """

    columns: Any
    sides: int
    groups: Any
    ranks: Any
    questions: Any
    right: Any

    def error(self, times: float, counting: Sequence[str]) -> list[float]:
        """How good a choice is; each half of the questions is judged by the other."""
        x, rising = self.columns.copy(), least_weights(self.sides)
        x[:, len(rising) - 1] *= PLACE in counting
        counted = np.where(self.ranks == 0, float(times), 1.0)
        half, shown = halves(self.questions), np.empty(len(x))
        for mine in (half, ~half):
            one = ~mine
            found = Logistic.fit(x[one], self.right[one], self.groups[one], 1, rising, counted[one])
            own = {group: bend for group, bend in found.groups.items() if group >= 0}
            shown[mine] = Logistic(found.weights, own)(x[mine], self.groups[mine])
        return judged(shown, self.ranks, self.right)


@dataclass(frozen=True)
class Questions:
    """Answers to drawn questions, to some that have none, and to those that are judged by them.

    ``judged`` are groups of one type each; ``others`` have no answer either, and nothing learns
    them.
    """

    answers: trust.Examples
    absurd: trust.Examples
    judged: Sequence[trust.Examples]
    others: trust.Examples

    def error(self, times: float, counting: Sequence[str]) -> list[float]:
        """How good a choice is."""
        parts = [self.answers, *([self.absurd] if ABSURD in counting else [])]
        made = [chosen(part, counting) for part in parts]
        rows, kinds = np.concatenate([x for x, _ in made]), [k for _, ks in made for k in ks]
        right, ranks = (np.concatenate([part[place] for part in parts]) for place in (1, 2))
        counted = np.where(ranks == 0, float(times), 1.0)
        found = Additive.fit(rows, right, kinds, FIRST + 1, RISING, counted)
        shown = [found(*chosen(each, counting)) for each in (*self.judged, self.others)]
        first = [each.places == 0 for each in (*self.judged, self.others)]
        p, y = shown[:-1], [each.right for each in self.judged]
        errors = [calibration_error(p[i][first[i]], y[i][first[i]]) for i in range(len(p))]
        both = np.concatenate(first[:-1])
        loss = log_loss(np.concatenate(p)[both], np.concatenate(y)[both])
        return [*errors, loss, float(shown[-1][first[-1]].mean())]


@dataclass(frozen=True)
class Halves:
    """What is learned from questions that need one half of the facts is judged on the other."""

    both: Sequence[Questions]

    def error(self, times: float, counting: Sequence[str]) -> list[float]:
        """How good a choice is, on average."""
        return np.mean([each.error(times, counting) for each in self.both], axis=0).tolist()


def chosen(answers: trust.Examples, counting: Sequence[str]) -> tuple[Any, list[tuple[str, ...]]]:
    """What probabilities are made of where only some of it counts."""
    start, end = len(RISING), WEIGHTS - 2 - TOLD
    parts = {
        PLACE: slice(start - 1, start),
        SECOND: slice(start, end),
        RELATIONS: slice(end, -1),
        FAMILIAR: slice(-1, None),
    }
    x = answers.rows.copy()
    for name, part in parts.items():
        x[:, part] *= name in counting
    # The first of the kinds has weights of its own.
    one = () if SHAPE in counting else ("any shape",)
    return x, [one + (kinds if ALIKE in counting else kinds[:1]) for kinds in answers.kinds]


def of_facts(judge: SheafEmbedding) -> Facts:
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
    return Facts(columns, sides, groups, found.ranks, found.questions, found.right)


def of_questions(judge: SheafEmbedding) -> Halves:
    """What half of the validation facts tells of questions, and what the other half says to it."""
    info, found = judge.info, []
    assert info is not None, "a model with validation facts"
    held_out = dict(info.held_out)
    rows = held_out["valid"]
    half = halves(np.arange(len(rows)))
    for mine in (half, ~half):
        info.held_out = {"valid": rows[mine], "test": rows[~mine]}
        facts, groups = measure_facts(judge), trials(judge, sizes(judge))
        judged = [trials(judge, {name: SAMPLE}, "test", seed=1) for name in JUDGED]
        absurd, unlearned = (
            ask(judge, unanswerable(judge, each), facts).examples
            for each in (groups, [group for each in judged for group in each])
        )
        asked = [ask(judge, each, facts).examples for each in (groups, *judged)]
        found.append(Questions(asked[0], absurd, asked[1:], unlearned))
    info.held_out = held_out
    return Halves(found)


def table(
    models: Sequence[Path], examples: Sequence[Facts | Halves], choices: Sequence[Choice]
) -> str:
    rows = [
        [
            str(times),
            ", ".join(counting),
            *(", ".join(f"{n:.3f}" for n in each.error(times, counting)) for each in examples),
        ]
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

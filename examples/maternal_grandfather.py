"""The paper's second example: who is a person's maternal grandfather, and the other three?

A query is a small graph: the person has a parent of one gender, who has a parent of another. The
parent in the middle is unknown. Reducing the query once (a Schur complement) leaves a quadratic
form in the person, the two genders and the grandparent; four choices of genders give the four
grandparents, without another reduction.

The second part asks such questions of ten real families, with vectors that are learned. A third of
the parents are hidden, and only questions are asked whose answers need one of them.

Run: python examples/maternal_grandfather.py
(for the second part with KNOWLEDGE_SHEAVES_DATA the folder that holds family/dl-family)
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from knowledge_sheaves.embedding import KnowledgeSheaf, SheafEmbedding, consistent, model_config
from knowledge_sheaves.evaluation.queries import AnswerRanks, rank_answers
from knowledge_sheaves.graph import GraphMorphism, KnowledgeGraph, Multigraph, Relation, Schema
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.query import Options, Query, scores
from knowledge_sheaves.query.facts.symbolic import SymbolicAnswers, answers
from knowledge_sheaves.ranking import fit_temperature
from knowledge_sheaves.sheaf import QuadraticForm, schur_complement
from knowledge_sheaves.training import TrainingConfig, train

SCHEMA = Schema(
    ["Person", "Gender"],
    [Relation("has parent", "Person", "Person"), Relation("has gender", "Person", "Gender")],
)
GENERATIONS = 3
GENDERS = {"female": [1.0], "male": [-1.0]}


def pedigree() -> dict[str, list[float]]:
    """A person and two generations of ancestors, written out as vectors.

    Coordinate g of the vector of an ancestor n generations up says by whom that ancestor descends:
    (gender, the child's gender, the grandchild's gender), +1 for female and −1 for male.
    """
    people = {"Ada": [1.0, 0.0, 0.0]}
    for own in GENDERS:
        parent = {"female": "mother", "male": "father"}[own]
        people[parent] = [*GENDERS[own], *people["Ada"][:-1]]
        for older in GENDERS:
            side = {"mother": "maternal", "father": "paternal"}[parent]
            name = f"{side} {'grandmother' if older == 'female' else 'grandfather'}"
            people[name] = [*GENDERS[older], *people[parent][:-1]]
    return people


def facts() -> list[tuple[str, str, str]]:
    rows = [("Ada", "has parent", "mother"), ("Ada", "has parent", "father")]
    for side, parent in (("maternal", "mother"), ("paternal", "father")):
        rows += [(parent, "has parent", f"{side} grand{p}") for p in ("mother", "father")]
    female = {"Ada", "mother", "maternal grandmother", "paternal grandmother"}
    people = dict.fromkeys(name for row in rows for name in (row[0], row[2]))
    rows += [(p, "has gender", "female" if p in female else "male") for p in people]
    return rows


def embed() -> SheafEmbedding:
    """A parent's vector is the child's, shifted by one place, with the own gender in front."""
    shift_child = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    drop_own = [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    sheaf = KnowledgeSheaf.from_maps(
        SCHEMA,
        {"Person": GENERATIONS, "Gender": 1},
        {"has parent": (shift_child, drop_own), "has gender": ([[1.0, 0.0, 0.0]], [[1.0]])},
    )
    people = pedigree()
    types = dict.fromkeys(people, "Person") | dict.fromkeys(GENDERS, "Gender")
    graph = KnowledgeGraph.from_triples(facts(), types=types, schema=SCHEMA)
    return SheafEmbedding.from_vectors(sheaf, graph, {**people, **GENDERS})


PERSON, PARENT, GRANDPARENT, PARENT_GENDER, GRANDPARENT_GENDER = range(5)


def reduce_query(embedding: SheafEmbedding) -> QuadraticForm:
    """The query graph over the schema, with the parent in the middle eliminated."""
    edges = [
        (PERSON, PARENT),
        (PARENT, GRANDPARENT),
        (PARENT, PARENT_GENDER),
        (GRANDPARENT, GRANDPARENT_GENDER),
    ]
    query = Multigraph.from_edges(5, edges)
    person, gender = SCHEMA.type_id("Person"), SCHEMA.type_id("Gender")
    typing = GraphMorphism(
        query, SCHEMA.graph, [person, person, person, gender, gender], [0, 0, 1, 1]
    )
    sheaf, translation = embedding.knowledge_sheaf().on(typing)
    known = [PERSON, GRANDPARENT, PARENT_GENDER, GRANDPARENT_GENDER]
    return schur_complement(sheaf, known, translation)


def rank(embedding: SheafEmbedding, form: QuadraticForm, parent: str, grandparent: str) -> Tensor:
    """The energy of every person as the grandparent of Ada on the chosen line."""
    sources = {
        PERSON: embedding.vector("Ada"),
        PARENT_GENDER: embedding.vector(parent),
        GRANDPARENT_GENDER: embedding.vector(grandparent),
    }
    people = torch.stack([embedding.vector(name) for name in pedigree()])
    return form.fix(sources).evaluate(people)


# The second part: real families, and vectors that are learned.

Fact = tuple[str, str, str]
QUESTIONS = {
    "maternal grandfather": ("mother", "father"),
    "maternal grandmother": ("mother", "mother"),
    "paternal grandfather": ("father", "father"),
    "paternal grandmother": ("father", "mother"),
    "maternal uncle": ("mother", "brother"),
    "paternal aunt": ("father", "sister"),
}
SOLVERS = ("harmonic", "chaining")
MODELS = {"transe": 0.0, "rotate": 0.0, "complex": 0.1}
"""What is tried, with the weight of its N3 regulariser; validation questions choose."""
VALID, ASKED = 0.15, 0.2
EPOCHS = 100


def family_folder() -> Path | None:
    """Where the families are, if they are on this machine."""
    folder = Path(os.environ.get("KNOWLEDGE_SHEAVES_DATA", ""), "family", "dl-family")
    return folder if (folder / "types.tsv").is_file() else None


def read_families(folder: Path) -> tuple[list[Fact], dict[str, str]]:
    """The facts and everyone's gender.

    A parent is a mother or a father by gender, which is the parent's type. What the children of a
    person are says the same as who the parents are, and would give away the hidden ones.
    """

    def rows(name: str) -> list[list[str]]:
        return [line.split("\t") for line in (folder / name).read_text().splitlines()]

    gender = {person: kind for person, kind in rows("types.tsv") if kind in ("Female", "Male")}
    words = {
        "hasParent": {"Female": "mother", "Male": "father"},
        "hasSibling": {"Female": "sister", "Male": "brother"},
        "married": dict.fromkeys(("Female", "Male"), "spouse"),
    }
    facts = [(h, words[r][gender[t]], t) for h, r, t in rows("triples.tsv") if r in words]
    return facts, gender


def hide_parents(facts: list[Fact], gender: dict[str, str], seed: int = 0) -> Dataset:
    """Facts to learn from, parents to choose a model by, and parents to ask about."""
    # A mother is found alike for sons and for daughters: their maps are shared.
    graph = KnowledgeGraph.from_triples(facts, types=gender, min_pair_count=len(facts))
    parents = [n for n, (_, relation, _) in enumerate(facts) if relation in ("mother", "father")]
    order = np.random.default_rng(seed).permutation(parents)
    cuts = [int(ASKED * len(order)), int((ASKED + VALID) * len(order))]
    asked, valid, _ = np.split(order, cuts)
    hidden = {*asked.tolist(), *valid.tolist()}

    def part(places: Iterable[int]) -> KnowledgeGraph:
        return graph.with_triples([facts[n] for n in places])

    known = part(n for n in range(len(facts)) if n not in hidden)
    return Dataset(known, part(valid), part(asked), name="families")


@dataclass(frozen=True)
class Questions:
    """One question about many people: those with an answer that what is known does not give."""

    queries: list[Query]
    easy: SymbolicAnswers
    hard: SymbolicAnswers

    @classmethod
    def all(cls, known: KnowledgeGraph, hidden: KnowledgeGraph) -> dict[str, Questions]:
        """Ask everyone everything, and keep what needs a hidden fact."""
        found = {name: cls.about(path, known, hidden) for name, path in QUESTIONS.items()}
        return {name: questions for name, questions in found.items() if questions.queries}

    @classmethod
    def about(
        cls, path: tuple[str, str], known: KnowledgeGraph, hidden: KnowledgeGraph
    ) -> Questions:
        whole = _together(known, hidden)
        rows = [[(person, path[0], "?y"), ("?y", path[1], "?x")] for person in known.entities]
        queries = [Query.from_triples(row, "?x", known) for row in rows]
        new = answers(whole, queries).minus(answers(known, queries)).counts
        queries = [query for query, count in zip(queries, new, strict=True) if count]
        easy = answers(known, queries)
        return cls(queries, easy, answers(whole, queries).minus(easy))

    def energies(self, model: SheafEmbedding, options: Options) -> Tensor:
        """The energies of everyone as the answer, those left out whom the facts give already."""
        found = scores(model, self.queries, options)[0].clone()
        for row, known in enumerate(self.easy):
            found[row, known] = torch.inf
        return found

    def ranks(self, model: SheafEmbedding, options: Options) -> AnswerRanks:
        return rank_answers(self.energies(model, options), self.easy, self.hard)


def _together(*graphs: KnowledgeGraph) -> KnowledgeGraph:
    return graphs[0].with_triples(np.concatenate([graph.triples for graph in graphs]))


@dataclass(frozen=True)
class Learned:
    """A model, how each solver is to use it, and how well that went on validation questions."""

    model: SheafEmbedding
    options: dict[str, Options]
    mrr: dict[str, float]


def learn(data: Dataset, name: str) -> Learned:
    """Train on what is known, and ask about the parents hidden for validation."""
    assert data.valid is not None
    training = TrainingConfig(
        epochs=EPOCHS, batch_size=512, negatives=None, n3=MODELS[name], threads=1
    )
    model = train(Dataset(data.train), model_config(name, dim=64), training).requires_grad_(False)
    tau = fit_temperature(model, data.valid, data.train)
    asked = Questions.all(data.train, data.valid).values()
    options = {solver: Options(solver=solver, tau=tau) for solver in SOLVERS}
    mrr = {s: measures([q.ranks(model, options[s]) for q in asked])[-1] for s in SOLVERS}
    return Learned(model, options, mrr)


def questions_to_ask(data: Dataset) -> dict[str, Questions]:
    """The questions that are reported: neither training nor validation facts answer them."""
    assert data.valid is not None
    assert data.test is not None
    return Questions.all(_together(data.train, data.valid), data.test)


def chance(graph: KnowledgeGraph, relation: str) -> list[float]:
    """Hits@1, Hits@3 and MRR of a guess among all people of the right gender."""
    (edge, *_) = graph.schema.edges(relation)
    people = len(graph.entities_of_type(graph.schema.relations[edge].tail))
    return [1 / people, 3 / people, float((1 / np.arange(1, people + 1)).mean())]


def measures(ranks: list[AnswerRanks]) -> list[float]:
    """Hits@1, Hits@3 and MRR over all questions."""
    parts = [(r.hits(1), r.hits(3), r.reciprocal) for r in ranks]
    return [float(np.concatenate(part).mean()) for part in zip(*parts, strict=True)]


@torch.no_grad()
def hit_rates(learned: Learned, asked: dict[str, Questions]) -> Table:
    """Hits@1, Hits@3 and MRR by question and solver."""
    table = Table(title="Hits@1, Hits@3 and MRR")
    for column in ("whose", "questions", "by chance", *SOLVERS):
        table.add_column(column)
    model = learned.model
    guesses = {name: chance(model.graph, QUESTIONS[name][1]) for name in asked}
    ranks = {
        solver: {name: q.ranks(model, learned.options[solver]) for name, q in asked.items()}
        for solver in SOLVERS
    }
    for name, questions in asked.items():
        cells = [guesses[name], *(measures([ranks[solver][name]]) for solver in SOLVERS)]
        table.add_row(name, str(len(questions.queries)), *map(_numbers, cells))
    counts = [len(questions.queries) for questions in asked.values()]
    guess = np.average(list(guesses.values()), axis=0, weights=counts).tolist()
    cells = [guess, *(measures(list(ranks[solver].values())) for solver in SOLVERS)]
    table.add_row("all", str(sum(counts)), *map(_numbers, cells))
    return table


def _numbers(values: Iterable[float]) -> str:
    return " ".join(f"{value:.2f}".removeprefix("0") for value in values)


@torch.no_grad()
def some_answers(learned: Learned, asked: dict[str, Questions], count: int = 1) -> Table:
    """A few questions with their answers, and what each solver puts first."""
    table = Table(title="Some of the questions")
    for column in ("who is …", "answer", *(f"{solver} says" for solver in SOLVERS)):
        table.add_column(column)
    names = learned.model.graph.entities
    for name, questions in asked.items():
        firsts = [
            questions.energies(learned.model, learned.options[solver]).argmin(1)
            for solver in SOLVERS
        ]
        for row, query in enumerate(questions.queries[:count]):
            person = names[int(query.patterns[0].edges[0].head)]
            right = names.names(questions.hard[row].tolist())
            said = names.names([int(first[row]) for first in firsts])
            table.add_row(f"{person}'s {name}", " or ".join(right), *said)
    return table


def ask_families(console: Console, folder: Path) -> None:
    """Learn, choose on validation questions, and report on the others."""
    data = hide_parents(*read_families(folder))
    asked = questions_to_ask(data)
    console.print(f"\n{data.train.num_entities} people of ten families: {data!r}.")
    tried = {name: learn(data, name) for name in MODELS}
    for name, learned in tried.items():
        found = ", ".join(f"{solver} {mrr:.2f}" for solver, mrr in learned.mrr.items())
        console.print(f"MRR of {name} on validation questions: {found}.")
    best = max(tried, key=lambda name: sum(tried[name].mrr.values()))
    console.print(f"Asking {best} what no fact it knows answers:")
    console.print(hit_rates(tried[best], asked))
    console.print(some_answers(tried[best], asked))


def main() -> None:
    console = Console()
    embedding = embed()
    console.print(f"Ada's pedigree as a sheaf embedding, {consistent(embedding)}.")
    form = reduce_query(embedding)
    table = Table(title="One Schur complement, four questions")
    for column in ("Ada's …", "first", "energy", "second", "energy"):
        table.add_column(column)
    names = list(pedigree())
    for parent in GENDERS:
        for grandparent in GENDERS:
            question = f"{'mother' if parent == 'female' else 'father'}'s "
            question += "mother" if grandparent == "female" else "father"
            energies = rank(embedding, form, parent, grandparent)
            first, second, *_ = energies.argsort().tolist()
            row = [f"{x:.3g}" for x in energies[[first, second]].clamp(min=0)]
            table.add_row(question, names[first], row[0], names[second], row[1])
    console.print(table)
    folder = family_folder()
    if folder is None:
        console.print("The second part needs family/dl-family below KNOWLEDGE_SHEAVES_DATA.")
    else:
        ask_families(console, folder)


if __name__ == "__main__":
    main()

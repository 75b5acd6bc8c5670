"""The paper's second example: who is a person's maternal grandfather, and the other three?

A query is a small graph: the person has a parent of one gender, who has a parent of another. The
parent in the middle is unknown. Reducing the query once (a Schur complement) leaves a quadratic
form in the person, the two genders and the grandparent; four choices of genders give the four
grandparents, without another reduction.

Run: python examples/maternal_grandfather.py
"""

from __future__ import annotations

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from knowledge_sheaves.embedding import KnowledgeSheaf, SheafEmbedding, consistent
from knowledge_sheaves.graph import GraphMorphism, KnowledgeGraph, Multigraph, Relation, Schema
from knowledge_sheaves.sheaf import QuadraticForm, schur_complement

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


if __name__ == "__main__":
    main()

"""The paper's first example: persons, films, and an embedding in which every fact fits exactly.

Run: python examples/person_film.py
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from knowledge_sheaves.embedding import KnowledgeSheaf, SheafEmbedding, consistent
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph, Relation, Schema

SCHEMA = Schema(
    ["Person", "Film"],
    [Relation("friends", "Person", "Person"), Relation("favorite movie", "Person", "Film")],
)
SHEAF = KnowledgeSheaf.from_maps(
    SCHEMA,
    {"Person": 3, "Film": 2},
    {
        "friends": ([[0, 1, 0]], [[0, 1, 0]]),  # friends share their second coordinate
        "favorite movie": ([[1, 0, 0], [0, 0, 1]], [[1, 0], [0, 1]]),
    },
)
FACTS = [
    ("Julia", "favorite movie", "Fargo"),
    ("Sachin", "favorite movie", "Star Wars"),
    ("Anja", "favorite movie", "Primer"),
    ("Julia", "friends", "Sachin"),
    ("Sachin", "friends", "Anja"),
]
VECTORS = {
    "Julia": [1, 1, 0],
    "Sachin": [0, 1, -1],
    "Anja": [1, 1, 1],
    "Fargo": [1, 0],
    "Star Wars": [0, -1],
    "Primer": [1, 1],
}
TYPES = {name: "Person" if len(vector) == 3 else "Film" for name, vector in VECTORS.items()}


def embed() -> SheafEmbedding:
    """The six entities and five facts, with the vectors above."""
    graph = KnowledgeGraph.from_triples(FACTS, types=TYPES, schema=SCHEMA)
    return SheafEmbedding.from_vectors(SHEAF, graph, VECTORS)


def main() -> None:
    console = Console()
    embedding = embed()
    graph = embedding.graph
    table = Table(title="Every fact fits: its energy is zero")
    for column in ("head", "relation", "tail", "energy"):
        table.add_column(column)
    for (head, relation, tail), energy in zip(
        graph.decode(graph.triples), embedding.energies(), strict=True
    ):
        table.add_row(head, relation, tail, f"{float(energy):g}")
    console.print(table)
    console.print(f"{consistent(embedding)}; total energy {float(embedding.energy()):g}")
    try:
        KnowledgeGraph.from_triples(
            [*FACTS, ("Primer", "favorite movie", "Fargo")], types=TYPES, schema=SCHEMA
        )
    except InputError as error:
        console.print(f"\nA fact that the schema does not allow is refused:\n  {error}")


if __name__ == "__main__":
    main()

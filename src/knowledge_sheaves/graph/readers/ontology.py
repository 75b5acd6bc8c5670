"""What RDFS and OWL say of classes and properties: schema, and no facts to learn.

`rdfs:subClassOf`, `rdfs:domain` and `rdfs:range` are about types, `owl:inverseOf`,
`rdfs:subPropertyOf` and classes such as `owl:SymmetricProperty` about relations. Whatever else
these vocabularies say, of restrictions or versions, is left out; `owl:sameAs` is a fact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

NAMESPACES = {
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#": "rdf",
    "http://www.w3.org/2000/01/rdf-schema#": "rdfs",
    "http://www.w3.org/2002/07/owl#": "owl",
}
RDF, RDFS, OWL = NAMESPACES
TYPE, SUBCLASS = f"{RDF}type", f"{RDFS}subClassOf"
SAME = f"{OWL}sameAs"
# Classes such as owl:NamedIndividual and rdf:Property say what a thing is to RDF, not what it is in
# the world.
META = r"^http://www\.w3\.org/(?:1999/02/22-rdf-syntax-ns|2000/01/rdf-schema|2002/07/owl)#"
OTHER_VALUES = ("_:", *NAMESPACES, "http://www.w3.org/2001/XMLSchema#")
FLAGS = {
    f"{OWL}SymmetricProperty": "symmetric",
    f"{OWL}FunctionalProperty": "functional",
    f"{OWL}InverseFunctionalProperty": "inverse_functional",
    f"{OWL}AsymmetricProperty": "antisymmetric",
}
ENDS = {f"{RDFS}domain": "heads", f"{RDFS}range": "tails"}
PAIRS = {f"{OWL}inverseOf": "inverse_of", f"{RDFS}subPropertyOf": "subproperty_of"}
USED = (SUBCLASS, *ENDS, *PAIRS)

Names = Mapping[str, list[str]]


@dataclass(frozen=True)
class Ontology:
    """What was taken: of types, and by relation the fields of `Relation` that it sets."""

    types: Names = field(default_factory=dict)
    subclass_of: Names = field(default_factory=dict)
    heads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tails: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    says: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_ontology(links: pl.DataFrame) -> tuple[Ontology, pl.Expr]:
    """Return what statements say of types and relations, and which of them are facts.

    In a file whose entities have no types `rdfs:subClassOf` is a fact: it may be a taxonomy.
    """
    relation, tail = pl.col("relation"), pl.col("tail")
    types = links.filter((relation == TYPE) & ~tail.str.contains(META))
    facts = [SAME] if len(types) else [SAME, SUBCLASS]
    is_fact = ~relation.str.contains(META) | relation.is_in(facts)
    schema = links.filter(~is_fact | (relation == SUBCLASS))
    says: dict[str, dict[str, Any]] = {}
    flags = schema.filter((relation == TYPE) & tail.is_in(list(FLAGS)))
    for name, _, kind in flags.iter_rows():
        says.setdefault(name, {})[FLAGS[kind]] = True
    ends: dict[str, dict[str, tuple[str, ...]]] = {"heads": {}, "tails": {}}
    for name, said, value in schema.filter(relation.is_in(list(ENDS))).iter_rows():
        if not value.startswith(OTHER_VALUES):
            known = ends[ENDS[said]]
            known[name] = (*known.get(name, ()), value)
    for name, said, value in schema.filter(relation.is_in(list(PAIRS))).iter_rows():
        if name != value and not value.startswith(OTHER_VALUES):
            says.setdefault(name, {}).setdefault(PAIRS[said], value)
    found = Ontology(
        grouped(types),
        grouped(schema.filter((relation == SUBCLASS) & ~tail.str.starts_with("_:"))),
        **ends,
        says=says,
        notes=tuple(_notes(links.filter(~is_fact), flags)),
    )
    return found, is_fact


def _notes(schema: pl.DataFrame, flags: pl.DataFrame) -> Iterator[str]:
    counts = Counter(schema.filter(pl.col("relation") != TYPE)["relation"].to_list())
    taken = {name: count for name, count in counts.items() if name in USED}
    taken |= Counter(flags["tail"].to_list())
    if taken:
        yield f"Taken as schema, not as facts: {_listed(taken)}."
    left = {name: count for name, count in counts.items() if name not in USED}
    if left:
        yield f"Left out, as no facts: {_listed(left)}."


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{_short(name)} ({count})" for name, count in sorted(counts.items()))


def _short(name: str) -> str:
    space, mark, rest = name.rpartition("#")
    return f"{NAMESPACES.get(space + mark, space)}:{rest}"


def grouped(links: pl.DataFrame) -> dict[str, list[str]]:
    """Return the tails of each head, in the order of the file."""
    return dict(links.group_by("head", maintain_order=True).agg("tail").iter_rows())

"""What a schema says of a relation, as constraints on its maps: honoured, or refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from knowledge_sheaves.embedding.config import TIED, SheafConfig
from knowledge_sheaves.embedding.constraints import ANTISYMMETRIC, CONSTRAINTS, SYMMETRIC
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import Relation
from knowledge_sheaves.graph.schema import FLAGS


def map_rules(
    config: SheafConfig,
    relation: Relation,
    size: tuple[int, int, int],
    tail_rule: str,
    backwards: bool,
) -> tuple[str, str]:
    """The constraints on the head map and the tail map, and whether they are of its reciprocal.

    ``size`` has the rows of the blocks, and the widths of the head's and of the tail's;
    ``tail_rule`` may say that the two are tied.
    """
    rows, wide, narrow = size
    _check_dimension(config, relation, rows, tail_rule)
    head_rule = config.head
    if relation.symmetric and not config.energy.ties_symmetric:
        head_rule = _symmetric(config, relation)
    if relation.antisymmetric:
        head_rule = _antisymmetric(config, relation, rows)
    # Its tails are the heads of the relation read backwards.
    for said, end in (("functional", "tail"), ("inverse_functional", "head")):
        if not getattr(relation, said):
            continue
        at_tail = (end == "tail") != backwards
        if at_tail and tail_rule != TIED:
            tail_rule = _injective(relation, tail_rule, rows, narrow, end)
        elif not (backwards and tail_rule == "identity" and rows < wide):
            # (There no choice of a dimension would leave the reciprocal room for it.)
            head_rule = _injective(relation, head_rule, rows, narrow if at_tail else wide, end)
    return head_rule, tail_rule


def inverse_pairs(relations: Sequence[Relation]) -> list[tuple[int, int]]:
    """Edges (r, s) of a schema of which s is r read backwards: s has no maps of its own.

    The one that comes first keeps its maps.
    """
    place = {(each.name, each.head, each.tail): edge for edge, each in enumerate(relations)}
    pairs: dict[int, int] = {}
    for edge, each in enumerate(relations):
        if each.inverse_of is None:
            continue
        other = place[each.inverse_of, each.tail, each.head]
        for one, two in ((edge, other), (other, edge)):
            if pairs.setdefault(one, two) != two:
                raise InputError(
                    f"The relation {relations[one].name!r} is said to be the inverse of "
                    f"{relations[pairs[one]].name!r} and of {relations[two].name!r}: drop one."
                )
    return [(one, two) for one, two in sorted(pairs.items()) if one < two]


def implications(config: SheafConfig, relations: Sequence[Relation]) -> list[tuple[int, int]]:
    """Edges (r, s) where r implies s, and s can have the maps of r with another behind them.

    That takes maps that are free at both ends, and an s of which nothing else is said. What follows
    from several, or from what follows itself, is left to the penalty of training.
    """
    if config.lifted or config.head != "free" or config.tail not in ("free", TIED):
        return []
    if config.type_dim:  # r may see classes that s does not
        return []
    place = {(each.name, each.head, each.tail): edge for edge, each in enumerate(relations)}
    pairs = [
        (edge, place[each.subproperty_of, each.head, each.tail])
        for edge, each in enumerate(relations)
        if each.subproperty_of is not None
    ]
    often = Counter(implied for _, implied in pairs)
    spoken = {edge for pair in inverse_pairs(relations) for edge in pair}
    plain = [
        edge not in spoken
        and not each.shared
        and each.dim is None
        and not any(getattr(each, flag) for flag in FLAGS)
        for edge, each in enumerate(relations)
    ]
    return [
        (edge, implied)
        for edge, implied in pairs
        if plain[edge] and plain[implied] and often[implied] == 1 and edge not in often
    ]


def _check_dimension(config: SheafConfig, relation: Relation, rows: int, tail_rule: str) -> None:
    dim = config.n_blocks * rows
    if tail_rule == "identity" and relation.dim not in (None, dim):
        raise InputError(
            f"The relation {relation.name!r} has dimension {relation.dim}, but a tail map that is "
            f"the identity leaves it that of {relation.tail!r}, {dim}: choose a model with a tail "
            f"map of its own, or leave the relation's dim out."
        )


def _symmetric(config: SheafConfig, relation: Relation) -> str:
    """The score ⟨R x, y⟩ of a lifted model is symmetric where R = Rᵀ."""
    if config.head not in SYMMETRIC:
        raise InputError(
            f"The relation {relation.name!r} is symmetric, and a {config.head} map is not its own "
            f"transpose: choose head: {' or '.join(sorted(SYMMETRIC))}, or drop symmetric."
        )
    return SYMMETRIC[config.head]


def _antisymmetric(config: SheafConfig, relation: Relation, rows: int) -> str:
    """The score ⟨R x, y⟩ of a lifted model changes its sign with its ends where R = −Rᵀ."""
    about = f"The relation {relation.name!r} is antisymmetric, and"
    if config.energy.ties_symmetric:
        raise InputError(
            f"{about} no maps make a distance so: choose a lifted model, such as complex, or drop "
            "antisymmetric."
        )
    if config.head not in ANTISYMMETRIC or rows == 1:
        raise InputError(
            f"{about} a {config.head} map with blocks of size {rows} is never its transpose's "
            "negative but for 0: choose complex, quate or rescal, or drop antisymmetric."
        )
    return ANTISYMMETRIC[config.head]


def _injective(relation: Relation, rule: str, rows: int, cols: int, end: str) -> str:
    """At most one tail (or head): no two may look alike to the relation."""
    said = "functional" if end == "tail" else "inverse_functional"
    about = f"The {said} relation {relation.name!r} needs an injective {end} map"
    if rows < cols:
        raise InputError(
            f"{about}, so its dimension cannot be below that of {getattr(relation, end)!r}."
        )
    if rule == "free":
        return "orthogonal"  # orthonormal columns: injective, and well so
    if not CONSTRAINTS[rule].injective:
        raise InputError(f"{about}, and a {rule} map is not: choose another model, or drop {said}.")
    return rule

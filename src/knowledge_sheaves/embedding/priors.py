"""What a schema says of a relation, as constraints on its maps: honoured, or refused."""

from __future__ import annotations

from knowledge_sheaves.embedding.config import TIED, SheafConfig
from knowledge_sheaves.embedding.constraints import CONSTRAINTS, SYMMETRIC
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import Relation


def map_rules(
    config: SheafConfig, relation: Relation, rows: int, narrow: int, tail_rule: str
) -> tuple[str, str]:
    """The constraints on the head map and the tail map, with blocks of ``rows`` rows.

    ``narrow`` is the width of the tail's blocks; ``tail_rule`` may say that the two are tied.
    """
    _check_dimension(config, relation, rows, tail_rule)
    head_rule = config.head
    if relation.symmetric and not config.energy.ties_symmetric:
        head_rule = _symmetric(config, relation)
    if relation.functional:
        if tail_rule == TIED:
            head_rule = _injective(relation, head_rule, rows, narrow)
        else:
            tail_rule = _injective(relation, tail_rule, rows, narrow)
    return head_rule, tail_rule


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


def _injective(relation: Relation, rule: str, rows: int, cols: int) -> str:
    """At most one tail: no two tails may look alike to the relation."""
    if rows < cols:
        raise InputError(
            f"The functional relation {relation.name!r} needs an injective tail map, so "
            f"its dimension cannot be below that of {relation.tail!r}."
        )
    if rule == "free":
        return "orthogonal"  # orthonormal columns: injective, and well so
    if not CONSTRAINTS[rule].injective:
        raise InputError(
            f"The functional relation {relation.name!r} needs an injective tail map, and a {rule} "
            f"map is not: choose another model, or drop functional."
        )
    return rule

"""Classes with coordinates of their own, against direct sums that are written by hand."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.embedding.consistency import consistency
from knowledge_sheaves.embedding.hierarchy import unfold
from knowledge_sheaves.embedding.sums import direct_sum
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.classes import Classes
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.query import Options, Query, scores
from knowledge_sheaves.training import TrainingConfig, train

# Two ways lead from Illustrator up to Person; nothing is about Place.
SUBCLASS_OF = {
    "Person": ("Agent",),
    "Company": ("Agent",),
    "Artist": ("Person",),
    "Worker": ("Person",),
    "Illustrator": ("Artist", "Worker"),
}
TYPES = {
    **{f"a{i}": "Artist" for i in range(3)},
    **{f"w{i}": "Worker" for i in range(3)},
    **{f"i{i}": "Illustrator" for i in range(2)},
    **{f"c{i}": "Company" for i in range(2)},
    **{f"b{i}": "Work" for i in range(4)},
    "p0": "Place",
}
ABOUT = {
    "knows": ("Person", "Person"),
    "pays": ("Agent", "Worker"),
    "made": ("Artist", "Work"),
}
UP = {
    "Artist": {"Artist", "Person", "Agent"},
    "Worker": {"Worker", "Person", "Agent"},
    "Illustrator": {"Artist", "Worker", "Person", "Agent"},
    "Company": {"Agent"},
    "Person": {"Person", "Agent"},
    "Agent": {"Agent"},
    "Work": {"Work"},
    "Place": set[str](),
}
SHARED, OWN = 4, 2
KINDS = {
    "rescal": {"block": 2},
    "se": {"block": 2},
    "pairre": {},
    "transr": {"block": None, "type_dim": 3},
    "translational": {"block": 2, "relation_dim": 2},
}


def hierarchy() -> KnowledgeGraph:
    """Random facts, each between such as its relation is about; `near` joins everything."""
    rng = np.random.default_rng(0)
    rows = []
    for relation, (head, tail) in {**ABOUT, "near": (None, None)}.items():
        ends = [
            [e for e, kind in TYPES.items() if end is None or end == kind or end in UP[kind]]
            for end in (head, tail)
        ]
        rows += [(str(rng.choice(ends[0])), relation, str(rng.choice(ends[1]))) for _ in range(20)]
    graph = KnowledgeGraph.from_triples(rows, entities=list(TYPES))
    ends = [{name: (about[i],) for name, about in ABOUT.items()} for i in (0, 1)]
    classes = Classes.of(list(TYPES), TYPES, subclass_of=SUBCLASS_OF, heads=ends[0], tails=ends[1])
    return graph.shared(classes)


def made(name: str, **options: object) -> SheafEmbedding:
    given = {"dim": SHARED, "type_dim": OWN, **KINDS[name], **options}
    if given.get("block", 1) == 1:
        given["type_dim"] = SHARED
    model = SheafEmbedding(model_config(name, **given), hierarchy()).double()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.4 * torch.randn(parameter.shape, generator=generator).double())
    model.refresh()
    return model


def columns(model: SheafEmbedding, classes: set[str]) -> list[int]:
    """Where the shared coordinates and those of some classes stand in a whole stalk, by hand."""
    names, shared = model.graph.ancestry.names, SHARED // model.n_blocks
    own = int(model.config.type_dim or 0) // model.n_blocks
    width = shared + own * len(names)
    in_block = [*range(shared)] + [
        shared + own * place + i
        for place, name in enumerate(names)
        if name in classes
        for i in range(own)
    ]
    return [block * width + place for block in range(model.n_blocks) for place in in_block]


def classes_of(entity: int) -> set[str]:
    return UP[list(TYPES.values())[entity]]


def energy_by_hand(model: SheafEmbedding, head: int, relation: str, tail: int) -> float:
    """The energy of a fact from the summands of its entities and the free part of the maps."""
    edge = model.graph.schema.relation_names.index(relation)
    about = [UP[end] if end else set[str]() for end in ABOUT.get(relation, ("", ""))]
    ends = []
    for end, entity, seen in zip(("head", "tail"), (head, tail), about, strict=True):
        x = model.entities.vector(entity)
        if model.config.lifted and end == "tail":
            ends.append((x, seen))
            continue
        # (F | 0): of what the entity has, F sees what the relation is about.
        f = model.maps.map(end, edge).dense()[:, columns(model, seen)]
        ends.append((f @ x[columns(model, seen)], seen))
    (left, _), (right, seen) = ends
    if model.config.lifted:
        kept = torch.zeros_like(left)
        kept[columns(model, seen)] = left[columns(model, seen)]
        own = right[columns(model, classes_of(tail))]
        product = kept[columns(model, classes_of(tail))] @ own
        return float(kept @ kept + model.radius**2 - 2 * product)
    z = model.translation(torch.tensor([edge]))
    moved = left if z is None else left + z[0].flatten()
    return float((moved - right).square().sum())


@pytest.mark.parametrize("reciprocal", [True, "tied", False])
@pytest.mark.parametrize("name", KINDS)
def test_energies_are_those_of_the_direct_sum(name: str, reciprocal: object) -> None:
    model = made(name, reciprocal=reciprocal)
    graph = model.graph
    names = graph.schema.relation_names
    with torch.no_grad():
        found = model.energies(graph.triples)
        expected = [energy_by_hand(model, h, names[r], t) for h, r, t in graph.triples.tolist()]
        assert torch.allclose(found, torch.tensor(expected, dtype=found.dtype))
        heads, edges, _ = torch.from_numpy(graph.triples.astype(np.int64)).T
        tails = model.score_tails(heads, edges)
        place = torch.arange(len(heads)), torch.from_numpy(graph.triples[:, 2].astype(np.int64))
        assert torch.allclose(tails[place], found)


@pytest.mark.parametrize("name", KINDS)
def test_an_entity_has_the_coordinates_of_all_its_ancestors_once(name: str) -> None:
    model = made(name)
    assert set(model.graph.ancestry.names) == {"Agent", "Person", "Artist", "Worker", "Work"}
    for entity in range(len(TYPES)):
        x = model.entities.vector(entity)
        mine = columns(model, classes_of(entity))
        assert (x[mine] != 0).all()
        assert (
            x.count_nonzero()
            == len(mine)
            == SHARED
            + model.config.type_dim * len(classes_of(entity) & set(model.graph.ancestry.names))
        )


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["se", "rescal"]))
def test_so_they_are_on_any_hierarchy(seed: int, name: str) -> None:
    """Parts by class, F x = Σ F_c x_c over what the relation is about and the entity has."""
    rng = np.random.default_rng(seed)
    kinds = [f"k{i}" for i in range(6)]
    # Parents have smaller numbers: no cycles, and often two ways up.
    parents = {
        kind: tuple(str(p) for p in rng.choice(kinds[:i], min(i, int(rng.integers(3))), False))
        for i, kind in enumerate(kinds)
    }
    up: dict[str, set[str]] = {}
    for kind in kinds:
        up[kind] = {kind}.union(*(up[parent] for parent in parents[kind]))
    entities = [f"e{i}" for i in range(8)]
    types = {e: [str(k) for k in rng.choice(kinds, rng.integers(3), False)] for e in entities}
    about = {r: [str(rng.choice(kinds)) for _ in "ht"] for r in "rst"}
    rows = [
        (str(rng.choice(entities)), str(rng.choice([*"rst"])), str(rng.choice(entities)))
        for _ in range(12)
    ]
    graph = KnowledgeGraph.from_triples(rows, entities=entities).shared(
        Classes.of(
            entities,
            types,
            subclass_of=parents,
            heads={r: (ends[0],) for r, ends in about.items()},
            tails={r: (ends[1],) for r, ends in about.items()},
        )
    )
    config = model_config(name, dim=2, block=None, type_dim=1)
    model = SheafEmbedding(config, graph, seed).double()
    own = graph.ancestry.names
    place = {"": [0, 1]} | {kind: [2 + i] for i, kind in enumerate(own)}
    for head, edge, tail in graph.triples.tolist():
        ends = []
        for end, entity, said in zip(
            ("head", "tail"), (head, tail), about[graph.schema.relation_names[edge]], strict=True
        ):
            x, has = (
                model.entities.vector(entity),
                {""}.union(*(up[kind] for kind in types[entities[entity]])),
            )
            f = model.maps.map(end, edge).dense()
            sees = {"", *up[said]} if name == "se" or end == "head" else {"", *own}
            parts = [f[:, place[c]] @ x[place[c]] for c in has & sees & place.keys()]
            ends.append(torch.stack(parts).sum(0))
            assert x.count_nonzero() == sum(len(place[c]) for c in has & place.keys())
        wanted = (ends[0] - ends[1]).square().sum()
        if name == "rescal":
            wanted = wanted + model.radius**2 - ends[1].square().sum()
        assert torch.allclose(model.energies([[head, edge, tail]])[0], wanted)


@pytest.mark.parametrize("sections", [1, 2])
@pytest.mark.parametrize("name", KINDS)
def test_unfolded_it_is_a_sheaf_with_a_stalk_for_every_set_of_classes(
    name: str, sections: int
) -> None:
    model = made(name, sections=sections)
    found = unfold(model)
    sheaf, z = found.sheaf.on(found.typing)
    with torch.no_grad():
        assert torch.allclose(sheaf.edge_energies(found.cochain, z), model.energies())
    lifted = int(model.config.lifted)
    sizes = {
        kind.name: int(dim) - lifted
        for kind, dim in zip(found.sheaf.schema.types, found.sheaf.sheaf.vertex_dims, strict=True)
    }
    own = int(model.config.type_dim or 0)
    (most,) = (size for name, size in sizes.items() if name.count("+") == 3)
    assert most == SHARED + 4 * own  # of an illustrator, each once
    assert sizes["entity"] == SHARED


@pytest.mark.parametrize("name", ["rescal", "se", "pairre"])
def test_consistency_is_that_of_the_sheaf_without_the_zeros(name: str) -> None:
    model = made(name)
    parts = unfold(model)
    sheaf, _ = parts.sheaf.on(parts.typing)
    delta = sheaf.coboundary().to_dense()
    rank = int(torch.linalg.matrix_rank(delta))
    found = consistency(model)
    assert (found.vertex_dims, found.edge_dims) == (delta.shape[1], delta.shape[0])
    assert (found.h0, found.h1) == (delta.shape[1] - rank, delta.shape[0] - rank)
    assert found.energy == pytest.approx(model.energy().item())


@pytest.mark.parametrize("name", ["se", "translational", "transr", "pairre"])
def test_harmonic_extension_is_least_squares_over_the_summands(name: str) -> None:
    model = made(name, reciprocal=False)
    graph, names = model.graph, model.graph.schema.relation_names
    query = Query.from_triples([("c0", "pays", "?y"), ("?y", "made", "?x")], "?x", graph)
    found, _ = scores(model, [query], Options(solver="harmonic", tau=1.0))
    f, g, z = {}, {}, {}
    for relation in ("pays", "made"):
        edge = names.index(relation)
        f[relation], g[relation] = (model.maps.map(e, edge).dense() for e in ("head", "tail"))
        moved = model.translation(torch.tensor([edge]))
        z[relation] = 0.0 if moved is None else moved[0].flatten()
    # The unknown pays for nothing but the coordinates of workers and of artists.
    unknown = columns(model, UP["Worker"] | UP["Artist"])
    start = f["pays"] @ model.vector("c0") + z["pays"]
    design = torch.cat([-g["pays"][:, unknown], f["made"][:, unknown]])
    for book in ("b0", "b3"):
        there = g["made"] @ model.vector(book) - z["made"]
        wanted = torch.cat([-start, there])
        y = torch.linalg.pinv(design) @ wanted
        energy = (design @ y - wanted).square().sum()
        assert float(found[0, graph.entities.id(book)]) == pytest.approx(energy.item(), abs=1e-6)


def spread_out(model: SheafEmbedding) -> SheafEmbedding:
    """The same with one stalk for all and maps that are free: the zeros are written in."""
    height, width = model.maps.rows * model.n_blocks, model.widths[0]
    config = model.config.with_options(
        type_dim=None,
        dim=width * model.n_blocks,
        block=width,
        relation_dim=None if model.config.lifted else height,
    )
    flat = SheafEmbedding(config, model.graph).double()
    edges = torch.arange(len(model.edge_types))
    with torch.no_grad():
        for table, given in zip(flat.entities.tables, model.entities.tables, strict=True):
            table.copy_(given)
        for e, end in enumerate(("head", "tail")):
            for edge, (group, row, _) in enumerate(flat.maps.index[e].T.tolist()):
                if flat.maps.groups[group][0].name == "free":
                    blocks = model.maps.blocks(end, edges[edge : edge + 1])[0]
                    flat.maps.parameters_of[group][row] = blocks.flatten(1)
    flat.refresh()
    return flat


@pytest.mark.parametrize("solver", ["harmonic", "chaining"])
@pytest.mark.parametrize("name", ["rescal", "se", "pairre"])
def test_solvers_answer_as_with_the_zeros_written_in(name: str, solver: str) -> None:
    model = made(name)
    flat = spread_out(model)
    rows = [("c0", "pays", "?y"), ("?y", "made", "?x"), ("?x", "near", "b1")]
    query = Query.from_triples(rows, "?x", model.graph)
    options = Options(solver=solver, tau=1.0)
    (found, _), (wanted, _) = (scores(each, [query], options) for each in (model, flat))
    works = torch.from_numpy(model.graph.is_of_type("Work"))
    assert found[0, works].isfinite().all()
    assert torch.allclose(found, wanted)


@pytest.mark.parametrize("name", KINDS)
def test_zeros_stay_zeros_in_training_and_nothing_else_does(name: str) -> None:
    graph = hierarchy()
    options = {"dim": SHARED, "type_dim": OWN, **KINDS[name]}
    if options.get("block", 1) == 1:
        options["type_dim"] = SHARED
    how = TrainingConfig(epochs=3, batch_size=16, learning_rate=0.1, seed=1, n3=0.01)
    model = train(Dataset(graph), model_config(name, **options), how)
    start = SheafEmbedding(model.config, graph, seed=1)
    assert model.num_parameters == start.num_parameters
    (table,) = model.entities.tables
    zero = torch.ones(table.shape, dtype=torch.bool)
    for entity in range(len(TYPES)):
        zero[entity, columns(model, classes_of(entity))] = False
    assert torch.equal(table == 0, zero)
    learned = model.maps.learned()
    for parameters, kept in zip(model.maps.parameters_of, learned, strict=True):
        assert (parameters[~kept.unsqueeze(1).expand_as(parameters)] == 0).all()
    counted = (
        int((~zero).sum())
        + sum(int(kept.sum()) * model.n_blocks for kept in learned)
        + (0 if model.translations is None else model.translations.numel())
    )
    assert model.num_parameters == counted


@pytest.mark.parametrize("name", ["rescal", "translational"])
def test_it_comes_back_from_its_folder(name: str, tmp_path: Path) -> None:
    model = made(name)
    model.save(tmp_path / "model")
    again = SheafEmbedding.load(tmp_path / "model")
    with torch.no_grad():
        assert torch.equal(again.energies(), model.energies())
    assert again.num_parameters == model.num_parameters


def test_what_is_not_said_is_read_off_the_facts() -> None:
    rows = [(f"p{i}", "likes", f"f{(i * step) % 60}") for i in range(60) for step in (1, 7)]
    rows += [(f"p{i}", "knows", f"p{i + 1}") for i in range(3)]
    graph = KnowledgeGraph.from_triples(rows)
    types = {e: "Person" if e[0] == "p" else "Film" for e in graph.entities}
    found = graph.shared(Classes.of(list(graph.entities), types)).ancestry
    likes, knows = (graph.schema.relation_names.index(name) for name in ("likes", "knows"))
    person, film = (found.names.index(name) for name in ("Person", "Film"))
    assert found.ends["head"][likes, [person, film]].tolist() == [True, False]
    assert found.ends["tail"][likes, [person, film]].tolist() == [False, True]
    assert not found.ends["head"][knows].any()  # three facts tell nothing


@pytest.mark.parametrize("name", ["complex", "rotate", "transe", "mure", "toruse", "transh"])
def test_maps_that_cannot_see_them_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="with type_dim choose"):
        model_config(name, type_dim=120)


def test_other_refusals() -> None:
    with pytest.raises(InputError, match="multiple of 16"):
        model_config("rescal", dim=32, block=2, type_dim=8)
    with pytest.raises(InputError, match="give the graph types"):
        SheafEmbedding(
            model_config("se", dim=4, type_dim=2), KnowledgeGraph.from_triples([tuple("arb")])
        )
    with pytest.raises(InputError, match="train them without type_dim"):
        direct_sum([made("rescal"), made("rescal")])

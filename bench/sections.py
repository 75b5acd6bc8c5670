"""What a training step of the paper's figures takes, by model, dimension and number of sections.

    python bench/sections.py                    the largest cell of each model, and smaller ones
    python bench/sections.py --models se --dims 64 --sections 1 32

Processor time of one thread, so that other work on the machine counts little: the mean of three
steps of 2,048 triples and as many corrupted ones, on a random graph of the size of FB15k-237, with
sections that are to be orthogonal (α = 1).
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from pathlib import Path
from time import process_time

import numpy as np
import torch

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.graph import KnowledgeGraph, Schema
from knowledge_sheaves.memory import keeping_freed
from knowledge_sheaves.training.batches import Batches
from knowledge_sheaves.training.objective import Objective
from knowledge_sheaves.training.optimisers import OPTIMISERS
from knowledge_sheaves.training.settings import make_settings

PAPER = Path(__file__).parents[1] / "experiments" / "paper"
MODELS = ("se", "se-orthogonal", "translational", "transe")
ENTITIES, RELATIONS, TRIPLES = 14_505, 474, 20_000
STEPS = 3


def graph() -> KnowledgeGraph:
    """Triples whose relations are as uneven as those of a knowledge graph."""
    rng = np.random.default_rng(0)
    heads, tails = rng.integers(0, ENTITIES, (2, TRIPLES))
    relations = rng.zipf(1.3, TRIPLES) % RELATIONS
    schema = Schema.single([f"r{i}" for i in range(RELATIONS)])
    return KnowledgeGraph.from_arrays(heads, relations, tails, schema=schema, num_entities=ENTITIES)


def seconds(name: str, dim: int, sections: int) -> float:
    """Processor time of a step, the first one left out."""
    own = {} if name == "transe" else {"relation_dim": dim}
    chosen = {"dim": dim, "sections": sections, "section_weight": 1.0, **own}
    config, training = make_settings(PAPER / f"{name}.yaml", chosen, None)
    facts = graph()
    model = SheafEmbedding(config, facts)
    objective = Objective(model, facts, training)
    optimiser = OPTIMISERS[training.optimiser]([p for p in model.parameters() if p.numel()], 1e-3)
    started = 0.0
    batches = Batches(model, facts, training).epoch(0)
    for number, batch in enumerate(itertools.islice(batches, STEPS + 1)):
        if number == 1:
            started = process_time()
        optimiser.zero_grad()
        objective(batch).backward()
        optimiser.step()
    return (process_time() - started) / STEPS


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Seconds of a step by model, stalk and sections.")
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--dims", nargs="+", type=int, default=[32, 64])
    parser.add_argument("--sections", nargs="+", type=int, default=[1, 16, 32])
    given = parser.parse_args(words)
    torch.set_num_threads(1)
    for name, dim, sections in itertools.product(given.models, given.dims, given.sections):
        with keeping_freed():  # as the trainer does where tensors are large
            took = seconds(name, dim, sections)
        print(f"{name:14} d = {dim:3}, {sections:2} sections: {took:.2f} s")


if __name__ == "__main__":
    main()

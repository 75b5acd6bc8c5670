"""Four questions about UMLS that no single fact answers, in words and with reasons.

Training never sees a question, only facts, and some facts were held back from it. The questions
here were chosen so that such facts matter: every answer shown is new to the model, and where a
reason is one of the facts held back, the answer can be seen to be right.

Run it with the folder of a model of UMLS, or without, to train one first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import knowledge_sheaves as ks
from knowledge_sheaves.graph.labels import words
from knowledge_sheaves.query.explanation import Explanation

QUESTIONS = {
    "What prevents that which results from a disease or syndrome?": (
        "?y result_of disease_or_syndrome . ?x prevents ?y"
    ),
    "What treats mental or behavioral dysfunctions and prevents diseases as well?": (
        "?x treats mental_or_behavioral_dysfunction . ?x prevents disease_or_syndrome"
    ),
    "What is caused by things that both enzymes and poisons interact with?": (
        "enzyme interacts_with ?y . hazardous_or_poisonous_substance interacts_with ?y"
        " . ?y causes ?x"
    ),
    "What does an antibiotic affect without disrupting it?": (
        "antibiotic affects ?x . not antibiotic disrupts ?x"
    ),
}
# Only training's facts count as known here, so that facts held back can show what was found.
KNOWN = ks.Options(known="train")

Fact = tuple[str, str, str]


def model_of_umls() -> ks.Model:
    """Train for a few seconds."""
    print("Training on UMLS; give the folder of a model to skip this.")
    training = ks.TrainingConfig(epochs=8, batch_size=256, negatives=None, n3=0.01, threads=1)
    model = ks.train("umls", "complex", training, dim=256)
    model.options = KNOWN
    return model


def facts_held_back(model: ks.Model) -> set[Fact]:
    """The facts that training did not see."""
    splits = [graph for name, graph in model.facts.splits.items() if name != "train"]
    return {(h, r, t) for graph in splits for h, r, t in graph.decode(graph.triples)}


def because(explanation: Explanation, held_back: set[Fact]) -> Iterator[str]:
    """The reasons for an answer, and which of them are facts that training did not see."""
    facts = [(reason.head, reason.relation, reason.tail) for reason in explanation.reasons]
    for place, sentence in enumerate(explanation.sentences()):  # what speaks against it comes last
        held = place < len(facts) and facts[place] in held_back
        yield f"{sentence}, and a fact that was held back" if held else sentence


def main() -> None:
    model = ks.load(sys.argv[1], KNOWN) if len(sys.argv) > 1 else model_of_umls()
    held_back = facts_held_back(model)
    for question, query in QUESTIONS.items():
        everything = model.answer(query, top=model.graph.num_entities)
        known = [words(answer.names[0]) for answer in everything if answer.known]
        print(f"\n{question}\n  asked as: {query}")
        print(f"  known already: {', '.join(known[:4]) or 'nothing'}{' …' * (len(known) > 4)}")
        new = model.answer(query, top=2, new=True, explain=True)
        for answer, explanation in zip(new, new.explanation, strict=True):
            print(f"  new: {words(answer.names[0])}, probability {answer.probability:.2f}, because")
            for reason in because(explanation, held_back):
                print(f"    - {reason}")


if __name__ == "__main__":
    main()

"""A triple has one probability, and says how far it can be trusted."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from knowledge_sheaves.cli.app import app
from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.embedding.check import check_model
from knowledge_sheaves.embedding.search.kept import index
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.evaluation import trials
from knowledge_sheaves.evaluation.query_calibration import drawn_queries
from knowledge_sheaves.evaluation.reliability import Reliability, reliability
from knowledge_sheaves.evaluation.trust import ask, measure_questions, measure_trust, unanswerable
from knowledge_sheaves.graph.labels import words
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.query import Answers
from knowledge_sheaves.query.answers import Wanted
from knowledge_sheaves.query.asking import Asker
from knowledge_sheaves.query.asking import answer as solved
from knowledge_sheaves.query.drawing import draw
from knowledge_sheaves.query.options import Options
from knowledge_sheaves.query.questions import (
    QuestionTrust,
    familiar,
    features,
    kinds,
    log_scores,
    question_trust,
    told,
)
from knowledge_sheaves.ranking import Predictor
from knowledge_sheaves.ranking.shares import AHEAD, both_sides
from knowledge_sheaves.ranking.trust import (
    UNMEASURED,
    Record,
    Trust,
    measure_facts,
    triple_probabilities,
    trust_of,
)
from knowledge_sheaves.ranking.words import said_of_relation
from knowledge_sheaves.training import TrainingConfig, train


@pytest.fixture(scope="module")
def model() -> SheafEmbedding:
    config = TrainingConfig(epochs=4, batch_size=256, negatives=None)
    trained = train(load("umls"), model_config("complex", dim=16), config)
    measured = measure_facts(trained)
    assert trained.info is not None
    assert measured is not None
    trained.info.trust = {"facts": measured.to_dict()}
    return trained


@pytest.mark.parametrize("solver", ["chaining", "harmonic"])
def test_a_triple_has_one_probability_whichever_way_it_is_asked_for(
    model: SheafEmbedding, solver: str
) -> None:
    asker, predictor = Asker(model, Options(solver, known="train")), Predictor(model, "train")
    tails = asker.answer("virus causes ?x", top=6, new=True)
    assert tails.probabilities is not None
    assert UNMEASURED not in tails.notes
    for answer in tails:
        (name,) = answer.names
        asked = asker.decide(f"ASK {{ :virus :causes :{name} }}").probability
        heads = asker.answer(f"?x causes {name}", top=200)
        (back,) = (each for each in heads if each.names == ("virus",))
        both = asker.answer("SELECT ?x ?y { ?x :causes ?y }", top=3000)
        (pair,) = (each for each in both if each.names == ("virus", name))
        relations = predictor.predict(head="virus", tail=name, top=100)
        (named,) = (each for each in relations if each.name == "causes")
        ahead = predictor.predict(head="virus", relation="causes", top=200)
        (told,) = (each for each in ahead if each.name == name)
        seen = [asked, back.probability, named.probability, told.probability]
        if solver == "chaining":
            seen.append(pair.probability)
        assert seen == pytest.approx([answer.probability] * len(seen), rel=1e-4)
        # Either goes by V; chaining by −log of its score, which answers stand in the order of.
        raw = told.energy if solver == "harmonic" else -math.log(answer_score(tails, name))
        assert answer.energy == pytest.approx(raw, rel=1e-4)
    assert (tails.energies.diff() >= 0).all()


def answer_score(answers: Answers, name: str) -> float:
    assert answers.scores is not None
    return float(answers.scores[[each.names for each in answers].index((name,))])


def test_probabilities_are_for_showing_and_never_reorder(model: SheafEmbedding) -> None:
    found = Asker(model).answer("virus causes ?x", top=100, new=True)
    assert found.scores is not None
    assert found.probabilities is not None
    assert (found.scores.diff() <= 0).all()
    assert not (found.probabilities.diff() <= 0).all()


def test_what_is_known_is_certain_everywhere(model: SheafEmbedding) -> None:
    known = [each for each in Predictor(model).predict("virus", "causes", top=100) if each.known]
    assert known
    assert all(each.probability == 1 for each in known)
    told = {each.names[0]: each for each in Asker(model).answer("virus causes ?x", top=100)}
    assert all(told[each.name].probability == 1 for each in known)


def test_an_unmeasured_model_says_so_and_has_one_probability_too() -> None:
    data = load("umls")
    plain = SheafEmbedding(model_config("complex", dim=4), data.train)
    asker = Asker(plain)
    found = asker.answer("virus causes ?x", top=1, new=True)
    assert "No temperature was fitted" in found.notes[0]
    assert trust_of(plain) is None
    verdict = asker.decide(f"ASK {{ :virus :causes :{found[0].names[0]} }}")
    assert verdict.probability == pytest.approx(found[0].probability)


def test_what_was_measured_survives_being_plain_data(model: SheafEmbedding) -> None:
    kept = trust_of(model)
    assert kept is not None
    assert Trust.from_dict(kept.to_dict()) == kept
    assert 0.5 < kept.overall.found(10) <= 1
    half, most = kept.overall.size(0.5), kept.overall.size(0.9)
    assert half is not None
    assert most is not None
    assert half < most


def test_a_sentence_says_how_far_to_trust_answers(model: SheafEmbedding) -> None:
    asker = Asker(model)
    found = asker.answer("virus causes ?x", top=100)
    said = Predictor(model).predict("virus", "causes", top=100).trust
    assert "missing facts of `causes` are found among the first ten" in found.trust
    assert "at this probability" in found.trust
    assert found.trust == said
    few = next(name for name in model.graph.schema.relation_names if trust_few(model, name))
    assert f"Too few facts of `{words(few)}`" in asker.answer(f"virus {few} ?x", top=5).trust


def trust_few(model: SheafEmbedding, relation: str) -> bool:
    kept = trust_of(model)
    assert kept is not None
    return kept.record(relation) is None


def test_a_relation_that_could_not_be_learned_is_called_so(model: SheafEmbedding) -> None:
    kept = trust_of(model)
    assert kept is not None
    lost = Record(50, ranks={"tail": (1,) + (80,) * 49, "head": (90,) * 50})
    worse = replace(kept, relations={"causes": lost})
    told = said_of_relation(worse, "causes", 0.5, "tail")
    assert told.startswith("`causes` could not be learned: 2 of 100 missing facts")


def test_a_set_covers_what_it_promises_on_facts_that_nothing_has_seen(
    model: SheafEmbedding,
) -> None:
    cover = Asker(model).cover(Asker(model).read("virus causes ?x").query, 0.9)
    assert cover.size is not None
    assert "9 times in 10" in str(cover)
    with pytest.raises(InputError, match="between 0 and 1"):
        Asker(model).cover(Asker(model).read("virus causes ?x").query, 1.5)
    report = reliability(model)
    for each in report.covered:
        assert each.reached > each.coverage - 0.04  # half of all may well be first
    assert report.covered[-1].reached < 1


def test_probabilities_are_better_than_those_of_one_temperature(model: SheafEmbedding) -> None:
    for each in reliability(model).answers:
        assert each.error < 0.1
        assert each.loss < each.common_loss


def test_questions_are_calibrated_and_say_so(model: SheafEmbedding) -> None:
    assert model.info is not None
    before = dict(model.info.trust)
    measure_trust(model)
    found = Asker(model).answer("virus causes ?y . ?x treats ?y", top=3, new=True, explain=True)
    assert UNMEASURED not in found.notes
    assert "questions like this" in found.trust
    for place, reason in enumerate(found.explanation or ()):
        assert reason.score == pytest.approx(float(found.scores[place]), rel=1e-3)
        assert reason.probability == found[place].probability
        last = draw(reason).splitlines()[-1]
        assert last == f"together: score {reason.score:.4f}, probability {reason.probability:.4f}"
    # What was fitted for one way to answer says nothing of another.
    other = Asker(model, Options(k=3)).answer("virus causes ?y . ?x treats ?y", top=3)
    assert UNMEASURED in other.notes
    same = Asker(model, Options(search="full")).answer("virus causes ?y . ?x treats ?y", top=3)
    assert UNMEASURED not in same.notes
    model.info.trust = before


def test_the_second_new_answer_is_the_same_however_many_are_asked_for(
    model: SheafEmbedding,
) -> None:
    measured = measure_trust(model)
    assert "questions" in measured
    query = Asker(model).read("virus causes ?y . ?x treats ?y").query
    assert query is not None
    (table,) = solved(model, [query], wanted=Wanted(top=135))
    assert table.known is not None
    assert table.probabilities is not None
    second = float(table.probabilities[~table.known][1])
    allowed = frozenset(table.ids[-3:, 0].tolist())
    for wanted in (Wanted(top=1), Wanted(top=40, only_new=True), Wanted(allow=allowed)):
        (found,) = solved(model, [query], wanted=wanted)
        assert found.second == pytest.approx(second, rel=1e-6)
        (table,) = solved(model, [query], wanted=Wanted(top=135))
        places = [table.ids.tolist().index(row) for row in found.ids.tolist()]
        assert table.ahead is not None
        assert found.ahead is not None
        assert found.ahead.tolist() == table.ahead[places].tolist()


def test_probabilities_are_the_same_by_an_index(model: SheafEmbedding, tmp_path: Path) -> None:
    """What is not shown counts as well where not all entities are compared."""
    measure_trust(model)
    model.save(tmp_path / "model")
    indexed = SheafEmbedding.load(tmp_path / "model")
    index(indexed, least=1)
    full, exact = (Asker(indexed, Options(search=search)) for search in ("full", "exact"))
    query = full.read("virus causes ?y . ?x treats ?y").query
    assert query is not None
    (table,) = full.solve([query], Wanted(top=135))
    assert table.known is not None
    new = table.ids[~table.known, 0].tolist()
    for wanted in (  # known answers are equally certain, and come in any order
        Wanted(top=1, only_new=True),
        Wanted(top=5, only_new=True),
        Wanted(allow=frozenset([new[5]])),
        Wanted(allow=frozenset(new[-3:])),
        Wanted(top=2, only_new=True, deny=frozenset(new[:1])),
    ):
        (one,), (other,) = (asker.solve([query], wanted) for asker in (full, exact))
        assert [each.names for each in one] == [each.names for each in other]
        assert one.ahead is not None
        assert other.ahead is not None
        assert one.ahead.tolist() == other.ahead.tolist()
        # An index passes over paths of little weight, so that scores differ a little.
        assert other.second == pytest.approx(one.second, rel=0.02)
        shown = [each.probability for each in one]
        assert [each.probability for each in other] == pytest.approx(shown, rel=0.05)
        # Of its own scores it makes what the fit makes of them, counting those that are not shown.
        assert other.scores is not None
        logs, second = log_scores(other.scores.double().numpy()), log_scores(other.second)
        facts = told(trust_of(indexed), indexed.graph.schema, query)
        there = familiar(indexed.graph, query, other.ids.numpy())
        rows = features(logs, one.ahead.numpy(), second, facts, there)
        fitted = question_trust(exact.options.start(indexed))
        assert fitted is not None
        own = fitted(rows, [kinds(query, indexed.graph.schema)] * len(rows))
        assert [each.probability for each in other] == pytest.approx(own.tolist(), abs=1e-6)


def test_who_stands_alone_does_not_lead_by_far(model: SheafEmbedding) -> None:
    """Nor does the best of answers that are all absurd: it is not likely because there is none."""
    measure_trust(model)
    asker, rng = Asker(model), np.random.default_rng(0)
    names, relations = list(model.graph.entities), model.graph.schema.relation_names
    lone, yes = [], 0
    for _ in range(60):
        one, two, three = (names[place] for place in rng.integers(0, len(names), 3).tolist())
        r, s = (relations[place] for place in rng.integers(0, len(relations), 2).tolist())
        text = f"SELECT ?x {{ VALUES ?x {{ :{three} }} :{one} :{r} ?y . ?x :{s} ?y }}"
        found = asker.answer(text)
        lone += [each.probability for each in found if not each.known]
        verdict = asker.decide(f"ASK {{ :{one} :{r} ?x . :{two} :{s} ?x }}")
        yes += verdict.holds and not verdict.known
    assert len(lone) > 20
    assert np.mean(lone) < 0.3
    assert yes < 15


def test_the_place_of_a_triple_is_the_better_of_both_ends(model: SheafEmbedding) -> None:
    graph, rows = model.graph, np.random.default_rng(0).integers(0, [135, 46, 135], (20, 3))
    found = both_sides(model, rows, tau=1.0)[:, 2]
    for (head, relation, tail), place in zip(rows.tolist(), found.tolist(), strict=True):
        ahead = []
        for side, answer in (("tail", tail), ("head", head)):
            asked, edge = torch.tensor([tail if side == "head" else head]), torch.tensor([relation])
            if side == "tail":
                energies, known = model.score_tails(asked, edge)[0], graph.tails(head, relation)
            else:
                energies, known = model.score_heads(edge, asked)[0], graph.heads(relation, tail)
            own = float(energies[answer])
            energies[torch.from_numpy(known.astype(np.int64))] = torch.inf
            ahead.append(min(int((energies < own).sum()), AHEAD))
        assert place == pytest.approx(-math.log1p(min(ahead)))


def test_an_answer_is_as_likely_by_itself_as_among_all(model: SheafEmbedding) -> None:
    """Whoever asks for one answer of a larger question reads what the table of all says."""
    assert model.info is not None
    before = dict(model.info.trust)
    measure_trust(model)
    asker = Asker(model)
    query = asker.read("virus causes ?y . ?x treats ?y").query
    assert query is not None
    (table,) = asker.solve([query], Wanted(top=30))
    assert table.known is not None
    assert len(set(table.known.tolist())) == 2, "known answers are passed over in counting"
    for place, each in enumerate(table):
        if each.known:
            continue
        (alone,) = asker.solve([query], Wanted(allow=frozenset([int(table.ids[place, 0])])))
        assert alone[0].probability == pytest.approx(each.probability, rel=1e-3)
    for few in (Wanted(top=1), Wanted(top=1, only_new=True)):
        (best,) = asker.solve([query], few)
        (same,) = (each for each in table if each.names == best[0].names)
        assert best[0].probability == pytest.approx(same.probability, rel=1e-6)
    shown = [each.probability for each in table if not each.known]
    assert shown == sorted(shown, reverse=True), "neither a score nor a place is worse than a later"
    model.info.trust = before


def test_what_chance_leaves_of_the_error_shrinks_with_answers(model: SheafEmbedding) -> None:
    first, ten = reliability(model).answers
    assert 0 < ten.chance < first.chance < 0.1


def test_what_was_measured_is_kept_in_the_folder(model: SheafEmbedding, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    model.save(folder)
    assert trust_of(SheafEmbedding.load(folder)) == trust_of(model)
    assert "trust.json" in {finding.file for finding in check_model(folder)}
    assert not any(finding.problem for finding in check_model(folder))
    (folder / "trust.json").write_text((folder / "trust.json").read_text().replace("0", "1", 1))
    with pytest.raises(InputError, match=r"trust\.json"):
        SheafEmbedding.load(folder)
    (folder / "trust.json").unlink()
    assert trust_of(SheafEmbedding.load(folder)) is None


def test_what_another_version_fitted_counts_as_not_measured(model: SheafEmbedding) -> None:
    assert model.info is not None
    before = dict(model.info.trust)
    kept = before["facts"]
    model.info.trust = {"facts": {**kept, "weights": kept["weights"][:-2]}}
    assert trust_of(model) is None
    assert UNMEASURED in Asker(model).answer("virus causes ?x", top=2, new=True).notes
    model.info.trust = before


@pytest.fixture
def few_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measuring takes a second where it does not matter how well."""
    for name in trials.DRAWN:
        monkeypatch.setitem(trials.DRAWN, name, 120)


@pytest.mark.usefixtures("few_questions")
def test_what_another_version_fitted_of_questions_is_measured_again(
    model: SheafEmbedding, tmp_path: Path
) -> None:
    text = "virus causes ?y . ?x treats ?y"
    assert model.info is not None
    before, found = dict(model.info.trust), measure_trust(model)
    ((solver, kept),) = found["questions"].items()
    assert QuestionTrust.from_dict(kept).to_dict() == kept
    for number, other in enumerate(
        (  # one that knew less, one that bent by shape, and two that were damaged
            {**kept, "weights": kept["weights"][:-2]},
            {name: each for name, each in kept.items() if name != "shifts"} | {"bends": {}},
            {**kept, "weights": 3},
            [1],
        )
    ):
        model.info.trust = {**found, "questions": {solver: other}}
        assert UNMEASURED in Asker(model).answer(text, top=2, new=True).notes
        folder = tmp_path / str(number)
        model.save(folder)
        assert CliRunner().invoke(app, ["evaluate", str(folder)]).exit_code == 0
        again = Asker.load(folder).answer(text, top=2, new=True)
        assert again.trust
        assert UNMEASURED not in again.notes
    model.info.trust = before


def test_nonsense_looks_less_likely_for_questions_without_an_answer(
    model: SheafEmbedding, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = unanswerable(model, drawn_queries(model, 300, seed=1, types=["2p", "2i"]))
    rows, _, places, kinds = ask(model, others, trust_of(model)).examples
    facts = trust_of(model)
    with_them = measure_questions(model, facts)
    monkeypatch.setattr("knowledge_sheaves.evaluation.trust.unanswerable", lambda *_: [])
    without = measure_questions(model, facts)
    assert with_them is not None
    assert without is not None
    first = places == 0
    assert with_them(rows, kinds)[first].mean() < 0.9 * without(rows, kinds)[first].mean()


def test_first_answers_count_more(model: SheafEmbedding, monkeypatch: pytest.MonkeyPatch) -> None:
    assert model.info is not None
    before = dict(model.info.trust)
    alike = first_answers(model)
    monkeypatch.setattr("knowledge_sheaves.ranking.trust.FIRST_COUNTS", 1.0)
    measured = measure_facts(model)
    assert measured is not None
    model.info.trust = {"facts": measured.to_dict()}
    assert first_answers(model).error > alike.error, "they are right more often than the others"
    model.info.trust = before


def first_answers(model: SheafEmbedding) -> Reliability:
    return reliability(model).answers[0]


def test_what_the_facts_answer_is_certain_where_something_must_not_hold(
    model: SheafEmbedding,
) -> None:
    measure_trust(model)
    asked = "virus causes ?x . not ?x isa virus"
    found = [each for each in Asker(model).answer(asked, top=30) if each.known]
    assert found
    assert all(each.probability == 1 for each in found)
    ignoring = Asker(model, Options("chaining", facts="ignored")).answer(asked, top=30)
    assert any(each.probability < 1 for each in ignoring if each.known)


def test_no_triple_is_told_to_be_less_likely_than_so_many_judged_ones_can_tell(
    model: SheafEmbedding,
) -> None:
    trust = trust_of(model)
    assert trust is not None
    steep = replace(trust, weights=(-200.0, *trust.weights[1:]))
    assert model.info is not None
    before = dict(model.info.trust)
    model.info.trust = {"facts": steep.to_dict()}
    triples = model.graph.with_triples(model.info.held_out["test"]).triples[:20]
    shown = triple_probabilities(model, triples)
    assert shown.tolist() == pytest.approx([trust.least] * 20)
    assert 1e-6 < trust.least < 1e-3
    model.info.trust = before

"""Recipes: what the rule chooses, that what is given wins, that the clock is kept, and tuning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import knowledge_sheaves as ks
from knowledge_sheaves.embedding import model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.graph.splits import split
from knowledge_sheaves.training import Progress, TrainingConfig, train
from knowledge_sheaves.training.recipes import (
    MOST,
    Size,
    epoch_seconds,
    machine_speed,
    plan,
    settings_for,
    settle,
)
from knowledge_sheaves.training.settings import configs
from knowledge_sheaves.training.tuning import TriedSettings, tune

SPEED = 1e10
SIZES = [Size(n, 20, 10 * n) for n in (100, 2_000, 20_000, 200_000, 2_000_000)]


@pytest.fixture(scope="module")
def nations() -> Dataset:
    return load("nations")


def dims(size: Size, *budgets: tuple[float, float]) -> list[int]:
    return [settings_for(size, seconds, speed)["dim"] for seconds, speed in budgets]


@pytest.mark.parametrize("size", SIZES)
def test_more_time_or_a_faster_machine_never_make_a_model_narrower(size: Size) -> None:
    by_time = dims(size, *((seconds, SPEED) for seconds in (5, 60, 600, 6000)))
    by_speed = dims(size, *((60, SPEED * times) for times in (0.1, 1, 10, 100)))
    assert by_time == sorted(by_time)
    assert by_speed == sorted(by_speed)
    assert by_speed[-1] == dims(size, (6000, SPEED))[0], "twice as fast is twice as long"


def test_a_larger_graph_gets_no_wider_model() -> None:
    found = [dims(size, (120, SPEED))[0] for size in SIZES]
    assert found == sorted(found, reverse=True)
    assert found[0] > found[-1]


def test_a_model_fits_into_the_memory() -> None:
    size = SIZES[1]
    wide, narrow = (settings_for(size, 1e5, SPEED, room)["dim"] for room in (1e9, 1e6))
    assert wide > narrow


@pytest.mark.parametrize("size", SIZES)
def test_an_epoch_takes_longer_with_more_of_anything(size: Size) -> None:
    def seconds(of: Size = size, **settings: Any) -> float:
        given = {"dim": 128, "batch_size": 256, "negatives": 64} | settings
        return epoch_seconds(of, *configs(given), SPEED)

    more = size._replace(triples=2 * size.triples)
    assert seconds(more) > seconds()
    assert seconds(dim=256) > seconds()
    assert seconds(negatives=None) >= seconds(negatives=80) >= seconds()
    assert seconds(batch_size=128) > seconds()
    assert seconds(reciprocal=False) < seconds()
    assert seconds(relation_weight=0.1) > seconds()


def ring(size: int = 40) -> KnowledgeGraph:
    return KnowledgeGraph.from_triples(
        [(f"s{n}", "next", f"s{(n + 1) % size}") for n in range(size)]
    )


def test_the_time_is_that_of_the_recipe_and_both_runs_share_it(nations: Dataset) -> None:
    slow = 1e7  # of all that is chosen the epochs alone are left to give way
    once = plan(nations, "good", speed=slow)
    assert once.seconds is not None
    assert 0.7 < once.seconds / (20 * 60) < 1.3
    assert once.training.minutes == 20
    drawn = Dataset(nations.train, nations.valid, nations.test, drawn=True)
    twice = plan(drawn, "good", speed=slow)
    assert twice.training.minutes == 10
    assert twice.training.epochs < once.training.epochs
    whole = plan(drawn, "good", {"refit": False}, speed=slow).training
    assert whole == replace(once.training, refit=False)
    assert "about 20 minutes" in str(once)
    assert plan(nations, speed=SPEED).training.epochs == MOST


def test_what_is_given_wins(nations: Dataset) -> None:
    made = plan(nations, "quick", {"dim": 8, "n3": 0.3, "batch_size": 99}, speed=SPEED)
    assert (made.model.dim, made.training.n3, made.training.batch_size) == (8, 0.3, 99)
    counted = plan(nations, "quick", {"epochs": 7}, speed=SPEED).training
    assert (counted.epochs, counted.minutes) == (7, None)
    both = plan(nations, "quick", {"epochs": 7, "minutes": 1}, speed=SPEED).training
    assert (both.epochs, both.minutes) == (7, 1)
    other = plan(nations, "quick", {"model": "rotate"}, speed=SPEED)
    assert other.model == model_config("rotate")
    assert other.training.n3 == 0, "distances need none"
    for own in ({"model": "distmult"}, {"loss": "logistic"}, {"optimiser": "adam"}):
        mine = plan(nations, "quick", own, speed=SPEED).training
        assert mine.relation_weight == 0
        assert mine.learning_rate == TrainingConfig().learning_rate
    named = settle(nations, {"model": "complex"})
    assert (named.model, named.training) == (model_config("complex"), TrainingConfig())


def test_relations_are_told_from_one_another_where_all_entities_are_candidates() -> None:
    few, many = (settings_for(size, 120, SPEED) for size in (SIZES[0], SIZES[2]))
    assert few["negatives"] is None
    assert few["relation_weight"] > 0
    assert "relation_weight" not in many
    rows = [(f"s{n}", "next", f"s{n + 1}") for n in range(40)]
    kinds = {f"s{n}": "even" if n % 2 == 0 else "odd" for n in range(41)}
    plain, typed = (KnowledgeGraph.from_triples(rows, **more) for more in ({}, {"types": kinds}))
    assert plan(Dataset(plain), speed=SPEED).training.relation_weight > 0
    assert plan(Dataset(typed), speed=SPEED).training.relation_weight == 0, "it would be slow"


def test_steps_are_larger_where_entities_have_few_facts() -> None:
    rates = [
        settings_for(Size(40_000, 11, facts), seconds, 13e9)["learning_rate"]
        for facts in (87_000, 150_000)
        for seconds in (120, 1200)
    ]
    assert rates == [0.25, 0.25, 0.1, 0.1]


def test_a_recipe_that_is_not_there_or_has_no_time_is_refused(nations: Dataset) -> None:
    with pytest.raises(InputError, match="quick"):
        plan(nations, "quik", speed=SPEED)
    with pytest.raises(InputError, match="minutes"):
        plan(nations, "best", speed=SPEED)
    assert plan(nations, "best", {"minutes": 5}, speed=SPEED).training.minutes == 5
    with pytest.raises(InputError, match="by name"):
        ks.train(nations, training=TrainingConfig(), recipe="quick")


def test_the_machine_is_measured_once() -> None:
    assert machine_speed(1) == machine_speed(1) > 1e6


def test_the_clock_ends_a_run_with_a_validated_model(nations: Dataset) -> None:
    seen: list[Progress] = []
    training = TrainingConfig(epochs=500, minutes=1e-6, validate_every=100, batch_size=512)
    model = train(nations, model_config("complex", dim=8), training, on_progress=seen.append)
    assert model.info is not None
    assert model.info.training["epochs_run"] == 1
    assert "validation_mrr" in model.info.metrics
    assert seen[-1].metrics["mrr"] == model.info.metrics["validation_mrr"]


def test_the_second_run_has_the_epochs_of_the_first_whatever_the_clock_says() -> None:
    data = split(ring())
    drawn = Dataset(data.train, data.valid, data.test, drawn=True)
    training = TrainingConfig(epochs=500, minutes=1e-6)
    model = train(drawn, model_config("complex", dim=8), training)
    assert model.info is not None
    assert model.graph.num_triples == 40
    assert model.info.training["epochs_run"] == 1


def test_a_resumed_run_keeps_what_the_recipe_chose(nations: Dataset, tmp_path: Path) -> None:
    def stop(progress: Progress) -> None:
        if progress.metrics and progress.epoch == 1:
            raise KeyboardInterrupt

    first = plan(nations, "quick", {"dim": 8, "batch_size": 300}, speed=SPEED)
    out = tmp_path / "model"
    train(nations, first.model, first.training, out=out, on_progress=stop)
    again = settle(nations, {}, resumed=out)
    assert (again.model, again.training) == (first.model, first.training)
    assert settle(nations, {"epochs": 3}, resumed=out).training.epochs == 3
    model = ks.train(nations, out=out, resume=True, epochs=3)
    assert model.describe()["training"]["epochs_run"] == 3
    other = settle(nations, {"model": "rotate"}, resumed=out)
    assert other.model.name == "rotate", "what is said counts, and is then refused"


def test_quick_reaches_a_floor_in_seconds(nations: Dataset) -> None:
    model = ks.train(nations, recipe="quick", epochs=12, threads=1, seed=1)
    assert model.evaluate().mrr > 0.7
    before = ks.train(nations, "complex", epochs=12, threads=1, seed=1)
    assert model.evaluate().mrr > before.evaluate().mrr, "settings that nobody has chosen"


def test_tuning_starts_from_the_recipe_and_never_ends_below(
    nations: Dataset, tmp_path: Path
) -> None:
    made = plan(nations, "quick", {"epochs": 2, "dim": 8, "threads": 1}, speed=SPEED)
    trained = train(nations, made.model, made.training)
    assert trained.info is not None
    mrr = trained.info.metrics["validation_mrr"]
    seen: list[TriedSettings] = []

    def search(trials: int) -> float:
        return tune(
            nations,
            made.model,
            made.training,
            fixed=["epochs", "dim", "threads"],
            study=tmp_path / "study.db",
            trials=trials,
            report=seen.append,
        ).mrr

    assert search(1) == seen[0].mrr == mrr
    assert seen[0].drawn == {}
    assert search(2) >= mrr
    assert all(trial.drawn for trial in seen[1:]), "the start is tried once"
    assert {"n3", "learning_rate", "batch_size"} <= seen[1].drawn.keys()
    assert "dim" not in seen[1].drawn


def test_a_study_that_goes_on_draws_anew(nations: Dataset, tmp_path: Path) -> None:
    seen: list[TriedSettings] = []
    for _ in range(3):
        training = TrainingConfig(epochs=1, threads=1)
        model = model_config("complex", dim=4)
        study = tmp_path / "study.db"
        tune(nations, model, training, study=study, trials=2, report=seen.append)
    drawn = [trial.drawn for trial in seen[1:]]
    assert all(one not in drawn[:place] for place, one in enumerate(drawn))


def test_the_clock_of_a_trial_becomes_a_number_of_epochs(nations: Dataset) -> None:
    training = TrainingConfig(epochs=50, minutes=1e-6, batch_size=512, threads=1)
    found = tune(nations, model_config("complex", dim=8), training, trials=1)
    assert found.settings["epochs"] == 1
    assert "minutes" not in found.settings

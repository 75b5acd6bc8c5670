"""A trained model as a user meets it: train it or load it, then ask it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from knowledge_sheaves.embedding import Pairs, Scoring, SheafConfig, SheafEmbedding
from knowledge_sheaves.embedding.about import describe
from knowledge_sheaves.embedding.folder import TRUST
from knowledge_sheaves.embedding.known import ALL
from knowledge_sheaves.embedding.nearest import Neighbour, neighbours
from knowledge_sheaves.embedding.search.kept import AUTO
from knowledge_sheaves.embedding.storage import dataset_of, measured, save_metrics
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.evaluation import LinkPredictionReport, evaluate
from knowledge_sheaves.evaluation.trust import measure_trust
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers.load import read
from knowledge_sheaves.graph.readers.negatives import read_false
from knowledge_sheaves.notebook import facts, folded
from knowledge_sheaves.query.asking import Asker
from knowledge_sheaves.query.full import Result, Sparql
from knowledge_sheaves.query.options import Options
from knowledge_sheaves.ranking import Predictions, Predictor, Side
from knowledge_sheaves.training import Progress, TrainingConfig
from knowledge_sheaves.training import train as run
from knowledge_sheaves.training.contrast import total_score
from knowledge_sheaves.training.recipes import settle
from knowledge_sheaves.training.settings import DEFAULT_MODEL, configs


class Model(Asker):
    """A model that can be asked, judged and saved; `train` and `load` return one.

    ``answer`` takes questions over several steps, ``decide`` those that are true or false,
    ``predict`` single facts, ``sparql`` all of SPARQL over facts and predictions. ``embedding``
    holds the vectors and the maps, ``options`` are the defaults of questions.

    >>> import knowledge_sheaves as ks
    >>> facts = [("Ann", "knows", "Bob"), ("Bob", "likes", "Fargo"), ("Cy", "likes", "Fargo")]
    >>> model = ks.train(ks.KnowledgeGraph.from_triples(facts), dim=8, epochs=5)
    >>> model.answer("Ann knows ?y . ?y likes ?x", top=1)[0].names
    ('Fargo',)
    >>> print(model.decide("ASK { :Ann :knows :Bob }"))
    yes: the facts hold it
    >>> len(model.predict(head="Cy", relation="knows", new=True))
    4
    """

    @property
    def embedding(self) -> SheafEmbedding:
        """The vectors of the entities and the maps of the relations."""
        return self.model

    @cached_property
    def facts(self) -> Dataset:
        """The facts that the model knows of, by split."""
        return dataset_of(self.model)

    def predict(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        *,
        top: int = 10,
        new: bool = False,
    ) -> Predictions:
        """The likeliest heads, relations or tails: give two of the three, get the third.

        With ``new`` known facts are left out.
        """
        told = self.options.settings.get("search", AUTO)
        predictor = Predictor(self.model, self.options.known or ALL, told)
        return predictor.predict(head, relation, tail, top=top, new=new)

    def sparql(self, query: str, form: str | None = None, *, facts_only: bool = False) -> Result:
        """Answer all of SPARQL from the facts, and blocks ``SERVICE ks:predict`` from predictions.

        ``form`` is how the result is to be written, if it is: json, xml, csv or tsv, and ttl, nt or
        jsonld for a graph. With ``facts_only`` blocks are refused.

        >>> import knowledge_sheaves as ks
        >>> model = ks.train(ks.KnowledgeGraph.from_triples([("Ann", "knows", "Bob")]), epochs=1)
        >>> list(model.sparql("SELECT ?o { ?s ?p ?o }").rows())
        [{'?o': 'Bob'}]
        """
        return Sparql(self).run(query, form, facts_only=facts_only)

    def neighbours(self, entity: str, top: int = 10) -> list[Neighbour]:
        """The entities of the same type whose vectors are nearest to that of one."""
        return neighbours(self.model, entity, top)

    def evaluate(self, split: str = "test", side: Side | None = None) -> LinkPredictionReport:
        """How well the facts of a split rank among all that could stand in their place.

        A model that has learned them all is judged by the one that was trained without them.
        """
        judge = measured(self.model)
        return evaluate(judge, dataset_of(judge), split, side)

    def describe(self) -> dict[str, dict[str, Any]]:
        """What the model is, what it was trained on and how, and how good it is."""
        return describe(self.model)

    def save(self, folder: str | Path) -> None:
        """Write the model to a folder, all or nothing."""
        self.model.save(folder)

    def _repr_html_(self) -> str:
        known = self.describe()
        if memory := known["training"].get("peak_memory"):
            known["training"]["peak_memory"] = f"{memory / 2**20:,.0f} MB"
        parts = [
            folded(topic.capitalize(), facts(said), opened=topic == "quality")
            for topic, said in known.items()
            if said
        ]
        return "\n".join([f"<p>{escape(repr(self))}</p>", *parts])

    def __repr__(self) -> str:
        config, graph = self.model.config, self.graph
        return (
            f"Model({config.name!r}, {config.dim} dimensions: {graph.num_entities} entities, "
            f"{len(graph.schema.relation_names)} relations, {graph.num_triples} facts)"
        )


def train(
    data: Dataset | KnowledgeGraph | str | Path,
    model: SheafConfig | str | None = None,
    training: TrainingConfig | None = None,
    *,
    recipe: str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    false: Sequence[tuple[str, str, str]] | str | Path | None = None,
    pairs: Pairs | None = None,
    scoring: Scoring | None = None,
    **settings: Any,
) -> Model:
    """Train a model and return the best one met, by validation MRR, ready to be asked.

    Of a file, which has no split, some facts are held out to choose and to measure by; then the
    model is trained on all of them for as many epochs (``refit=False`` leaves that out).

    ``data`` is what `read` takes or returns, or a graph, all of which is then trained on. ``model``
    is a name of the catalogue, a YAML file that describes a model, or a `model_config`; every
    option of it and of `TrainingConfig` may be given by name as well. With neither model nor
    training a ``recipe`` chooses them by the size of the graph and the speed of the machine:
    "quick" for two minutes, "good" for twenty, "best" for as many ``minutes`` as you give. With
    ``out`` the model is saved there during the run, along with a checkpoint from which ``resume``
    goes on. Ctrl-C ends the run early and keeps the best model so far.

    ``false`` are triples, or a file of them, that are known to be false: they are learned, and
    never answered. ``pairs`` of true and false subgraphs are learned from as well, by the function
    ``scoring`` on them (the sum of their triples' scores).

    >>> import knowledge_sheaves as ks
    >>> model = ks.train(ks.read("nations"), "rotate", dim=16, epochs=2, batch_size=256)
    >>> model
    Model('rotate', 16 dimensions: 14 entities, 55 relations, 1592 facts)
    >>> report = model.evaluate("test")
    >>> 0 < report.mrr < 1
    True
    """
    given = _given(model, training, settings, recipe)
    dataset = _dataset(data, configs(given)[1].seed)
    if false is not None:
        named = read_false(false) if isinstance(false, str | Path) else false
        dataset = dataset.with_false(named)
    plan = settle(dataset, given, recipe, resumed=out if resume else None)
    trained = run(
        *(dataset, plan.model, plan.training),
        out=out,
        resume=resume,
        on_progress=on_progress,
        pairs=pairs,
        scoring=scoring or total_score,
    )
    found = measure_trust(trained, questions=False)
    if found and out is not None and trained.info is not None:
        save_metrics(found, Path(out), trained.info.generation, TRUST)
    return Model(trained)


def load(folder: str | Path, options: Options | None = None) -> Model:
    """Read a model from its folder, ready to be asked; ``options`` are the defaults of questions.

    >>> import tempfile
    >>> import knowledge_sheaves as ks
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = ks.train("nations", dim=8, epochs=1, out=f"{folder}/model")
    ...     model = ks.load(f"{folder}/model", ks.Options(solver="harmonic"))
    >>> model.answer("usa embassy ?x", top=2).solver
    'harmonic'
    """
    return Model(SheafEmbedding.load(folder), options)


def _dataset(data: Dataset | KnowledgeGraph | str | Path, seed: int) -> Dataset:
    if isinstance(data, KnowledgeGraph):
        return Dataset(data)
    return data if isinstance(data, Dataset) else read(data, seed=seed)


def _given(
    model: SheafConfig | str | None,
    training: TrainingConfig | None,
    settings: dict[str, Any],
    recipe: str | None,
) -> dict[str, Any]:
    """All that is given, by name."""
    if isinstance(model, TrainingConfig):
        raise InputError("Give the settings of the training as training=TrainingConfig(...).")
    if training is not None and recipe is not None:
        raise InputError("A recipe chooses what is not given: give settings by name, not training.")
    if model is None and training is not None:
        model = DEFAULT_MODEL
    if isinstance(model, SheafConfig):
        start = {"model": DEFAULT_MODEL, **model.to_dict()}
    else:
        start = {} if model is None else {"model": model}
    return start | ({} if training is None else training.to_dict()) | settings

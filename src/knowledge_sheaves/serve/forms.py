"""What goes into the JSON interface and what comes out, for its OpenAPI description."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from knowledge_sheaves.serve.settings import MOST_ANSWERS

Text = Annotated[str, Field(min_length=1, max_length=1000)]


class Problem(BaseModel):
    """What went wrong, in one sentence."""

    error: str


class Question(BaseModel):
    """A query in SPARQL or in the short form, and what to show of its answers."""

    model_config = ConfigDict(extra="forbid")

    query: Annotated[str, Field(min_length=1, max_length=100_000)]
    top: Annotated[int, Field(ge=1, le=MOST_ANSWERS)] | None = None
    solver: Text | None = None
    new: bool = False
    type: Text | None = None
    explain: bool = False


class Explained(BaseModel):
    """A query and one of its answers, a name for each variable."""

    model_config = ConfigDict(extra="forbid")

    query: Annotated[str, Field(min_length=1, max_length=100_000)]
    answer: Annotated[list[Text], Field(min_length=1, max_length=20)]
    solver: Text | None = None


class Thing(BaseModel):
    """An entity by name, with what people call it."""

    name: str
    label: str | None


class FoundName(Thing):
    """A name that was looked for."""

    kind: Literal["entity", "relation", "type"]
    types: list[str]


class FoundNames(BaseModel):
    """Names, the best first."""

    found: list[FoundName]


class Fact(BaseModel):
    """A fact by name."""

    head: str
    relation: str
    tail: str


class LikelyFact(Fact):
    """A fact that the graph does not hold, and for which of its ends it was found."""

    probability: float
    asked: Literal["head", "tail"]


class EntityPage(Thing):
    """An entity, what is known of it, and what is most likely missing."""

    types: list[str]
    facts: list[Fact]
    likely: list[LikelyFact]
    labels: dict[str, str]


class Answer(BaseModel):
    """One answer."""

    rank: int
    values: dict[str, Thing]
    energy: float | None
    probability: float | None
    known: bool | None


class Verdict(BaseModel):
    """Whether something holds, and by what."""

    holds: bool
    known: bool
    probability: float | None


class AnswerList(BaseModel):
    """The answers to a SELECT with how far to trust them, or the verdict on an ASK."""

    form: Literal["select", "ask"]
    variables: list[str] = []
    answers: list[Answer] = []
    solver: str | None = None
    notes: list[str] = []
    trust: str = ""
    explanations: list[dict[str, Any]] = []
    verdict: Verdict | None = None


class Reasons(BaseModel):
    """The reasons for an answer, in words and in numbers."""

    text: str
    explanation: dict[str, Any]


class TypeCount(BaseModel):
    """A type and how many entities it has."""

    name: str
    label: str | None
    entities: int


class RelationCount(BaseModel):
    """A relation, the types at its ends, and how many facts it has."""

    name: str
    label: str | None
    heads: list[str]
    tails: list[str]
    facts: int


class SchemaPage(BaseModel):
    """Types and relations."""

    types: list[TypeCount]
    relations: list[RelationCount]


class FactAsked(BaseModel):
    """A fact by names, and which of its ends was asked for."""

    model_config = ConfigDict(extra="forbid")

    head: Text
    relation: Text
    tail: Text
    asked: Literal["head", "tail"] = "tail"


class Edge(Fact):
    """A fact or a prediction, with labels and what it costs."""

    head_label: str | None
    relation_label: str | None
    tail_label: str | None
    energy: float | None
    probability: float | None
    known: bool


class Step(BaseModel):
    """One step of a path: a relation, and whether it is walked in its direction."""

    relation: str
    label: str | None
    forwards: bool


class PathGroup(BaseModel):
    """Known paths that take the same steps: the best, and how many pairs have such a path."""

    steps: list[Step]
    count: int
    facts_with: int
    others_with: int
    paths: list[list[Edge]]


class FactReasons(BaseModel):
    """A fact, and the paths between its ends; ``facts`` and ``others`` pairs were looked at."""

    fact: Edge
    facts: int
    others: int
    groups: list[PathGroup]


class Drawn(BaseModel):
    """A query to draw."""

    model_config = ConfigDict(extra="forbid")

    query: Annotated[str, Field(min_length=1, max_length=100_000)]


class DrawnNode(BaseModel):
    """A variable, with the type that it must have, or an entity with its types."""

    variable: str | None
    name: str | None
    label: str | None
    types: list[str]


class DrawnEdge(BaseModel):
    """An edge between two nodes, by their places."""

    head: int
    relation: str
    tail: int
    negated: bool


class Drawing(BaseModel):
    """A question as a small graph."""

    targets: list[str]
    limit: int | None
    nodes: list[DrawnNode]
    edges: list[DrawnEdge]

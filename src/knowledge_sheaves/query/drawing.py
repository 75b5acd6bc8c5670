"""Explanations as pictures: a tree of lines for the terminal, boxes and arrows for a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.files import writing
from knowledge_sheaves.graph.labels import said
from knowledge_sheaves.plain import printable
from knowledge_sheaves.query.explanation import SEEN, Explanation, Reason, Witness
from knowledge_sheaves.query.pattern import Variable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

KNOWN, PREDICTED, NEGATED, PAPER = "#1b7f5c", "#2f5fb3", "#b3362f", "#ffffff"
FORMATS = (".svg", ".png", ".pdf")
# A dollar sign in a name begins no formula.
PLAIN: dict[str, Any] = {"ha": "center", "va": "center", "parse_math": False}
CERTAIN = 0.999999
CHARACTER, ROW, MARGIN = 0.088, 0.95, 0.6


def vertex_label(variable: str, name: str) -> str:
    """What a drawing calls a variable: the middle of a path has no name of its own.

    >>> vertex_label("?y", "Ann"), vertex_label("?.1", "Ann")
    ('?y = Ann', '? = Ann')
    """
    return f"{variable if Variable(variable).is_named else '?'} = {said(name)}"


# For the terminal: the target on top, its edges below it, every edge with what it costs.


def draw(explanation: Explanation) -> str:
    """Draw the query as a tree from its target; an arrow's point says which way a relation goes.

    >>> from knowledge_sheaves.query.pattern import Edge
    >>> fact = Reason(Edge(0, 0, "?x"), "Ann", "knows", "Bob", 0.25, 1.0, known=True)
    >>> print(draw(Explanation("?x", "harmonic", {"?x": "Bob"}, (fact,))))
    ?x = Bob
    └◂─ knows ── Ann   energy 0.2500   known
    """
    lines = [_Line(printable(text), note) for text, note in _tree(explanation)]
    width = max(len(line.text) for line in lines)
    drawn = [f"{line.text:<{width}}   {line.note}".rstrip() for line in lines]
    below = map(printable, (*_unknowns(explanation), *_beyond_edges(explanation)))
    return "\n".join([*drawn, *below])


class _Line(NamedTuple):
    text: str
    note: str = ""


def _tree(explanation: Explanation) -> Iterator[_Line]:
    target, drawn = explanation.target, set[int]()
    yield _Line(vertex_label(target, explanation.entities[target]))
    yield from _below(explanation, target, "", drawn, {target})
    yield from _apart(explanation, "", drawn)


def _below(
    explanation: Explanation, vertex: str, indent: str, drawn: set[int], seen: set[str]
) -> Iterator[_Line]:
    """The edges at a vertex that are not drawn yet, each with what hangs on its other end."""
    mine = [i for i, r in enumerate(explanation.reasons) if vertex in r.edge.terms]
    mine = [i for i in mine if i not in drawn]
    against = [each.part for each in explanation.against]
    parts = [part for part in against if _hangs_on(part, explanation) == vertex]
    drawn.update(mine)
    for count, place in enumerate(mine, 1):
        last = count == len(mine) + len(parts)
        reason = explanation.reasons[place]
        other = reason.edge.head if reason.edge.tail == vertex else reason.edge.tail
        again = other in seen and isinstance(other, str)
        text = f"{indent}{'└' if last else '├'}{_edge(reason, vertex)}"
        yield _Line(text + (" ↑" if again else ""), _note(reason))
        if isinstance(other, str) and not again:
            seen.add(other)
            yield from _below(explanation, other, indent + ("   " if last else "│  "), drawn, seen)
    for count, part in enumerate(parts, 1):
        last = count == len(parts)
        chance = part.branch_probability
        note = "" if chance is None else f"probability {chance:.4f} at most"
        yield _Line(f"{indent}{'└' if last else '├'}─ not:", note)
        deeper, inner = indent + ("   " if last else "│  "), set[int]()
        if part.target == vertex:
            yield from _below(part, vertex, deeper, inner, {vertex})
        yield from _apart(part, deeper, inner)


def _hangs_on(part: Explanation, outer: Explanation) -> str:
    """Where a negated part is drawn: one that shares no variable says something of the whole."""
    return part.target if part.target in outer.entities else outer.target


def _apart(explanation: Explanation, indent: str, drawn: set[int]) -> Iterator[_Line]:
    """The edges that nothing connects with the target."""
    for place, reason in enumerate(explanation.reasons):
        if place not in drawn:
            head, tail = (
                vertex_label(term, name) if isinstance(term, str) else said(name)
                for term, name in zip(reason.edge.terms, (reason.head, reason.tail), strict=True)
            )
            yield _Line(f"{indent}{head} ── {said(reason.relation)} ─▸ {tail}", _note(reason))


def _edge(reason: Reason, vertex: str) -> str:
    forwards = reason.edge.head == vertex
    other, name = (reason.edge.tail, reason.tail) if forwards else (reason.edge.head, reason.head)
    label = vertex_label(other, name) if isinstance(other, str) else said(name)
    relation = said(reason.relation)
    return f"── {relation} ─▸ {label}" if forwards else f"◂─ {relation} ── {label}"


def _note(reason: Reason) -> str:
    words = ["known"] if reason.known else []
    for name, chance in (("weight", reason.weight), ("probability", reason.probability)):
        if chance is not None and (not reason.known or chance < CERTAIN):  # known, but ignored
            words.append(f"{name} {chance:.4f}")
    if reason.backwards:
        words.append("read backwards")
    energy = "" if reason.energy is None else f"energy {reason.energy:.4f}   "
    return f"{energy}{', '.join(words)}"


def _unknowns(explanation: Explanation) -> Iterator[str]:
    for witness in explanation.witnesses:
        if witness.others:
            others = ", ".join(_candidate(witness))
            spread = "" if witness.spread is None else f"; spread {witness.spread:.3g}"
            all_of_them = f"; all together × {witness.together:.3g}"
            more = all_of_them if witness.together != 1 else ""
            yield f"{_name(witness)} may also be {others}{spread}{more}"


def _name(witness: Witness) -> str:
    return witness.variable if witness.variable.is_named else "?"


def _beyond_edges(explanation: Explanation) -> Iterator[str]:
    """What the answer has besides its edges: energies, and the other branches of a union."""
    pull = sum(witness.pull for witness in explanation.witnesses)
    for what, energy in {"prior on the unknowns": pull, **explanation.beyond}.items():
        if abs(energy) > SEEN:
            yield f"{what}: energy {energy:.4f}"
    if any(explanation.alternatives):
        others = ", ".join(f"{chance:.4f}" for chance in explanation.alternatives)
        yield f"other branches of the union: probability {others}"
    if explanation.shown is not None and explanation.score is not None:
        yield f"together: score {explanation.score:.4f}, probability {explanation.shown:.4f}"


def _candidate(witness: Witness) -> Iterator[str]:
    for other in witness.others:
        if other.probability is not None:
            yield f"{said(other.name)} (weight {other.probability:.3g})"
        else:
            yield f"{said(other.name)} (energy {other.energy:.3g})"


# For a file: the target on the right, what is known on the left. A unit is an inch.


@dataclass(frozen=True)
class _Arrow:
    start: str
    end: str
    reason: Reason
    negated: bool

    @property
    def label(self) -> str:
        """The relation, and its cost on a line below."""
        reason = self.reason
        chance = reason.probability if reason.weight is None else reason.weight
        words = [] if reason.energy is None else [f"energy {reason.energy:.3g}"]
        if reason.known:
            words.append("known")
        elif chance is not None:
            words.append(f"p {chance:.2f}")
        word = "not " if self.negated else ""
        return f"{word}{printable(said(reason.relation))}\n{', '.join(words)}"


def plot(explanation: Explanation, path: str | Path) -> None:
    """Draw the query as boxes and arrows into an SVG, PNG or PDF file.

    Known facts are drawn through, predicted ones dashed, what must not hold is red.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: pictures are written as {', '.join(FORMATS)}.")
    from matplotlib.figure import Figure

    arrows = list(_arrows(explanation, "", False))
    labels = dict(pair for arrow in arrows for pair in _labels(arrow))
    places = _layout(explanation.target, arrows, labels)
    width, height = (max(place[i] for place in places.values()) for i in (0, 1))
    right = width + CHARACTER * len(labels[explanation.target]) / 2
    figure = Figure(figsize=(right + MARGIN, height + 2 * MARGIN))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, right + MARGIN))
    axes.set_ylim(height + MARGIN, -MARGIN)
    axes.set_axis_off()
    boxes = {key: _box(axes, labels[key], *places[key]) for key in places}
    boxes[explanation.target].get_bbox_patch().set_linewidth(2)  # type: ignore[union-attr]
    # Boxes know their size once they are drawn, and arrows end at them.
    figure.draw_without_rendering()
    for arrow in arrows:
        _draw_arrow(axes, arrow, boxes, _bend(arrow, arrows))
    with writing(path) as beside:
        figure.savefig(beside, dpi=150)


def _arrows(explanation: Explanation, scope: str, negated: bool) -> Iterator[_Arrow]:
    """All edges; every known entity is a vertex of its own."""
    for place, reason in enumerate(explanation.reasons):
        ends = [
            term if isinstance(term, str) else f"{scope}{place}.{side}"
            for side, term in enumerate(reason.edge.terms)
        ]
        yield _Arrow(ends[0], ends[1], reason, negated)
    for number, against in enumerate(explanation.against):
        yield from _arrows(against.part, f"{scope}not {number}.", not negated)


def _labels(arrow: _Arrow) -> Iterator[tuple[str, str]]:
    for key, name in ((arrow.start, arrow.reason.head), (arrow.end, arrow.reason.tail)):
        yield key, printable(vertex_label(key, name) if key.startswith("?") else said(name))


def _layout(
    target: str, arrows: list[_Arrow], labels: dict[str, str]
) -> dict[str, tuple[float, float]]:
    """Columns by the number of edges to the target; a vertex stands amid those behind it."""
    column: dict[str, int] = {}
    behind: dict[str, list[str]] = {}
    rows: dict[str, float] = {}

    def explore(first: str) -> None:
        column[first], behind[first], waiting = 0, [], [first]
        while waiting:
            near = waiting.pop(0)
            for arrow in arrows:
                for one, other in ((arrow.start, arrow.end), (arrow.end, arrow.start)):
                    if one == near and other not in column:
                        column[other], behind[other] = column[near] + 1, []
                        behind[near].append(other)
                        waiting.append(other)

    def settle(vertex: str, first: float) -> float:
        """Place a vertex and all behind it from a row on; return the next free row."""
        free = first
        for other in behind[vertex]:
            free = settle(other, free)
        far = [rows[other] for other in behind[vertex]]
        rows[vertex] = (far[0] + far[-1]) / 2 if far else first
        return max(free, first + ROW)

    free = 0.0
    for vertex in (target, *labels):  # what nothing connects with the target stands below
        if vertex not in column:
            explore(vertex)
            free = settle(vertex, free)
    longest = max(len(line) for arrow in arrows for line in arrow.label.splitlines())
    x, centre = MARGIN, dict[int, float]()
    for number in range(max(column.values()), -1, -1):
        half = CHARACTER * max(len(labels[v]) for v in column if column[v] == number) / 2
        centre[number] = x + half
        x += 2 * half + 0.8 * CHARACTER * longest + 0.6
    return {vertex: (centre[column[vertex]], rows[vertex]) for vertex in column}


def _box(axes: Axes, label: str, x: float, y: float) -> Text:
    frame = {"boxstyle": "round,pad=0.4", "facecolor": PAPER, "edgecolor": "#444444"}
    return axes.text(x, y, label, fontsize=10, zorder=3, bbox=frame, **PLAIN)


def _bend(arrow: _Arrow, arrows: list[_Arrow]) -> float:
    """Parallel edges part ways, to either side."""
    ends = {arrow.start, arrow.end}
    parallel = [other for other in arrows if {other.start, other.end} == ends]
    side = 0.3 * (parallel.index(arrow) - (len(parallel) - 1) / 2)
    return side if arrow.start < arrow.end else -side


def _draw_arrow(axes: Axes, arrow: _Arrow, boxes: dict[str, Text], bend: float) -> None:
    start, end = boxes[arrow.start], boxes[arrow.end]
    colour = NEGATED if arrow.negated else KNOWN if arrow.reason.known else PREDICTED
    style = {"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0}
    style |= {"linestyle": "-" if arrow.reason.known else "--"}
    (x0, y0), (x1, y1) = start.get_position(), end.get_position()
    if start is end:  # a loop stands above its box
        style |= {"connectionstyle": "arc3,rad=-1.2"}
        ends = (x0 + 0.3, y0 - 0.16), (x0 - 0.3, y0 - 0.16)
        middle = x0, y0 - 0.55
    else:
        style |= {"connectionstyle": f"arc3,rad={bend}"}
        style |= {"patchA": start.get_bbox_patch(), "patchB": end.get_bbox_patch()}
        ends = (x1, y1), (x0, y0)
        # The axes' y grows downwards, and so does the bend of an arrow to the right.
        middle = _between(axes, start, end), (y0 + y1) / 2 + bend * (x1 - x0) / 2
    axes.annotate("", xy=ends[0], xytext=ends[1], arrowprops=style)
    frame = {"boxstyle": "square,pad=0.1", "facecolor": PAPER, "edgecolor": "none", "alpha": 0.85}
    axes.text(*middle, arrow.label, fontsize=8, color=colour, bbox=frame, **PLAIN)


def _between(axes: Axes, one: Text, other: Text) -> float:
    """The middle of the gap between two boxes, or of the boxes where one is above the other."""
    (left, right) = sorted((one.get_window_extent(), other.get_window_extent()), key=_centre)
    if left.x1 >= right.x0:
        return (one.get_position()[0] + other.get_position()[0]) / 2
    return float(axes.transData.inverted().transform(((left.x1 + right.x0) / 2, 0))[0])


def _centre(box: Bbox) -> float:
    return box.x0 + box.x1

"""A picture of consistency: the spectrum, the flow, and the relations that carry the discord."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.files import writing
from knowledge_sheaves.plain import for_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from knowledge_sheaves.embedding.consistency import Consistency

ENDINGS = (".svg", ".png", ".pdf")
BEFORE, AFTER = "#31688e", "#b5c9d6"


def draw(found: Consistency, path: str | Path, top: int = 10) -> None:
    """Write the picture; the ending of the file says in which format."""
    from matplotlib.figure import Figure

    path = Path(path)
    if path.suffix not in ENDINGS:
        raise InputError(f"{path}: a picture ends in {', '.join(ENDINGS)}.")
    shown = found.relations[:top]
    figure = Figure(figsize=(13, max(3.2, 0.3 * len(shown) + 1.6)), layout="constrained")
    spectrum, flow, relations = figure.subplots(1, 3, width_ratios=[1, 1, 1.2])
    _spectrum(spectrum, found)
    _flow(flow, found)
    _relations(relations, found, top)
    with writing(path) as beside:
        figure.savefig(beside, dpi=150)


def _spectrum(axes: Axes, found: Consistency) -> None:
    """How many eigenvalues lie below a value, and where the embedding lies among them."""
    values = found.eigenvalues if found.eigenvalues is not None else np.array(found.spectrum)
    axes.set_title("Spectrum of the Laplacian", loc="left")
    if not len(values):
        axes.text(0.5, 0.5, "too large to compute", ha="center", transform=axes.transAxes)
        return
    floor = max(found.largest, 1.0) * 1e-12
    nonzero = np.sort(values[values > floor])
    below = len(values) - len(nonzero) + np.arange(1, len(nonzero) + 1)
    axes.step(nonzero, below, where="post", color=BEFORE)
    axes.set_xscale("log")
    axes.set_ylim(0, None)
    axes.set_xlabel("eigenvalue")
    axes.set_ylabel("eigenvalues up to it")
    if len(nonzero) and found.rayleigh > floor:
        axes.axvline(found.rayleigh, color="black", linestyle=":")
        axes.text(
            found.rayleigh, 0.02, " V(x) / ‖x‖²", transform=axes.get_xaxis_transform(), va="bottom"
        )


def _flow(axes: Axes, found: Consistency) -> None:
    """The energy that is left, over time; the end is a line."""
    axes.set_title("Diffusion towards a section", loc="left")
    steps = [s for s in found.flow if s.time]
    times = [s.time * found.mean_eigenvalue for s in steps if s.time]
    axes.plot(times, [s.energy for s in steps], "o-", color=BEFORE, label="during the flow")
    axes.axhline(found.flow[0].energy, color="black", linestyle=":", label="now")
    if found.flow[-1].time is None:
        axes.axhline(found.flow[-1].energy, color=BEFORE, linestyle="--", label="in the end")
    axes.set_xscale("log")
    axes.set_ylim(0, None)
    axes.set_xlabel("time × mean eigenvalue")
    axes.set_ylabel("mean energy of a triple")
    axes.legend(frameon=False)


def _relations(axes: Axes, found: Consistency, top: int) -> None:
    """The mean energy of the relations with the largest excess, before and after."""
    axes.set_title("Relations with most discord", loc="left")
    shown = found.relations[:top][::-1]
    rows = np.arange(len(shown))
    axes.barh(rows + 0.2, [d.energy for d in shown], 0.4, color=BEFORE, label="now")
    axes.barh(
        rows - 0.2, [d.after for d in shown], 0.4, color=AFTER, label="after the time 1 of the flow"
    )
    names = [d.said if len(d.said) < 40 else d.said[:38] + "…" for d in shown]
    axes.set_yticks(rows, list(map(for_matplotlib, names)))
    axes.axvline(found.energy / found.triples, color="black", linestyle=":", label="all triples")
    axes.set_xlabel("mean energy of a triple")
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.4, -0.16), ncols=3)

"""Which format an answer has: what the client's Accept header likes best, and never a refusal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """A format by its short name; the first of its media types is sent, all are understood."""

    name: str
    media: tuple[str, ...]
    charset: bool = False

    @property
    def content_type(self) -> str:
        """What the header Content-Type says."""
        return self.media[0] + ("; charset=utf-8" if self.charset else "")


HTML = Format("html", ("text/html", "application/xhtml+xml"), charset=True)
RESULTS = (
    Format("json", ("application/sparql-results+json", "application/json", "text/json")),
    Format("xml", ("application/sparql-results+xml", "application/xml", "text/xml")),
    Format("csv", ("text/csv",), charset=True),
    Format("tsv", ("text/tab-separated-values",), charset=True),
    HTML,
)
"""Formats of solutions and of yes or no, the default first."""
GRAPHS = (
    Format("ttl", ("text/turtle", "application/x-turtle"), charset=True),
    Format("nt", ("application/n-triples", "text/plain"), charset=True),
    Format("jsonld", ("application/ld+json", "application/json")),
    HTML,
)
"""Formats of graphs, the default first."""


def choose(accept: str, offers: Sequence[Format], output: str = "") -> Format:
    """The offer that the client likes best; ``output`` is a name that some clients send instead.

    Of what it likes alike, what it says first. HTML is for those who name it before anything else.

    >>> choose("text/csv;q=0.5, application/sparql-results+xml", RESULTS).name
    'xml'
    >>> choose("image/png", RESULTS).name, choose("", RESULTS, output="csv").name
    ('json', 'csv')
    >>> choose("text/html,*/*;q=0.8", RESULTS).name, choose("*/*, text/html", RESULTS).name
    ('html', 'json')
    """
    for offer in offers:
        if output and (output == offer.name or output in offer.media):
            return offer
    best, most = offers[0], 0.0
    for media, quality in _ranges(accept):
        found = next((offer for offer in offers if _fits(media, offer)), None)
        if found is not None and quality > most and not _refused(found, accept):
            best, most = found, quality
    return best


def _ranges(accept: str) -> list[tuple[str, float]]:
    """The media ranges in their order, each with how much it is liked.

    >>> _ranges("text/csv; q=0.5, */*;q=x,")
    [('text/csv', 0.5), ('*/*', 1.0)]
    """
    found = []
    for part in accept.lower().split(",")[:100]:
        media, *parameters = (piece.strip() for piece in part.split(";"))
        if media:
            found.append((media, _quality(parameters)))
    return found


def _quality(parameters: Sequence[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return min(1.0, max(0.0, float(value)))
            except ValueError:
                return 1.0
    return 1.0


def _fits(media: str, offer: Format) -> bool:
    if media in offer.media:
        return True
    kind, _, rest = media.partition("/")
    if rest != "*" or offer is HTML:
        return False
    return kind == "*" or offer.media[0].startswith(f"{kind}/")


def _refused(offer: Format, accept: str) -> bool:
    """Whether the client says outright that it does not want this, though a wildcard fits."""
    return (offer.media[0], 0.0) in _ranges(accept)

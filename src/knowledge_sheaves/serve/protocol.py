"""The SPARQL 1.1 Protocol: what a request asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl

FORM = "application/x-www-form-urlencoded"
QUERY, UPDATE = "application/sparql-query", "application/sparql-update"
MOST_PARAMETERS = 100


class BadRequest(Exception):
    """The request is none of the protocol; ``status`` is the answer's."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class Asked:
    """A query, the graphs that it is asked of, and how the client would like its answer.

    ``query`` is None where the request has none: it wants to know what there is.
    """

    query: str | None
    default_graphs: tuple[str, ...] = ()
    named_graphs: tuple[str, ...] = ()
    accept: str = ""
    output: str = ""


def asked(method: str, headers: Mapping[str, str], url_query: bytes, body: bytes = b"") -> Asked:
    """Read a request; ``headers`` have small letters.

    >>> asked("GET", {}, b"query=ASK%20%7B%7D&default-graph-uri=urn:g").default_graphs
    ('urn:g',)
    >>> asked("POST", {"content-type": "application/sparql-query"}, b"", b"ASK {}").query
    'ASK {}'
    """
    parameters = _parameters(url_query)
    texts = [value for name, value in parameters if name == "query"]
    if method == "POST":
        media = headers.get("content-type", "").partition(";")[0].strip().lower()
        _check_media(media, headers)
        if media == FORM:
            parameters += _parameters(body)
            texts = [value for name, value in parameters if name == "query"]
        else:
            texts.append(_text(body))
    if any(name == "update" for name, _ in parameters):
        raise BadRequest("Updates are not taken here: a model is trained, not written to.")
    if len(texts) > 1:
        raise BadRequest("The request has several queries: send one.")
    if method == "POST" and not texts:
        raise BadRequest("The form has no field 'query'.")
    return Asked(
        texts[0] if texts else None,
        tuple(value for name, value in parameters if name == "default-graph-uri"),
        tuple(value for name, value in parameters if name == "named-graph-uri"),
        headers.get("accept", ""),
        _output(parameters),
    )


def _check_media(media: str, headers: Mapping[str, str]) -> None:
    if media == UPDATE:
        raise BadRequest("Updates are not taken here: a model is trained, not written to.")
    if media not in (FORM, QUERY):
        raise BadRequest(f"A query is posted as {FORM} or as {QUERY}.", status=415)
    charset = headers.get("content-type", "").lower().partition("charset=")[2].strip(' "')
    if charset and charset.partition(";")[0] not in ("utf-8", "utf8", "us-ascii"):
        raise BadRequest("A query is text in UTF-8.", status=415)


def _parameters(text: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            text.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_PARAMETERS,
        )
    except UnicodeDecodeError:
        raise BadRequest("The parameters are not percent-encoded UTF-8.") from None
    except ValueError:
        raise BadRequest(f"The request has more than {MOST_PARAMETERS} parameters.") from None


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadRequest("The query is not text in UTF-8.") from None


def _output(parameters: Sequence[tuple[str, str]]) -> str:
    """The format by name: not of the protocol, but what several clients send."""
    said = dict(parameters)
    return (said.get("output") or said.get("format") or "").lower()

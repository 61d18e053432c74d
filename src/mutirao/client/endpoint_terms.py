"""The parameters of `app.endpoints.put` and `put_many`, and the endpoint made of them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, Required, TypedDict

from mutirao.errors import InvalidEndpoint
from mutirao.model.jobs.job import MAX_KEY
from mutirao.model.webhooks.endpoints import Body, Endpoint
from mutirao.tasks.options import Duration, refuse_unknown
from mutirao.tasks.topics.topics import Topic
from mutirao.tasks.validation import check_text

Topics = str | Topic[Any] | Iterable[str | Topic[Any]]


class EndpointTerms(TypedDict, total=False):
    """The parameters of `app.endpoints.put`, besides the first three; see `Endpoint`.

    Parameters:
        secret: `whsec_…` or `whsk_…`; None sends unsigned. If left out, an endpoint keeps its own.
        method, headers, body: the parts of the request.
        signer: the name of a signer of the application, instead of a secret.
        connect, first_byte, whole: timeouts in seconds.
        redirects: how many are followed.
        accepts_3xx: whether an answer of 3xx is success, too.
        rate, concurrency: deliveries that start in any second at most; at once, less than 50.
        tenant, group, filter: which publications; if left out, all on the topics.
        order_by: a field of publications: equal values are delivered one after another.
        when_dead: `"stop"` unless given: a dead delivery stops those of its value that come after
            it, until it is redriven; `"continue"`: they are delivered.
        retry: seconds (or `timedelta`s) between the attempts, of which there is one more; if left
            out, as Standard Webhooks advises. It holds for deliveries that are made from now on.
    """

    secret: str | None
    method: str
    headers: Mapping[str, str]
    body: Body
    signer: str | None
    connect: float
    first_byte: float
    whole: float
    redirects: int
    accepts_3xx: bool
    rate: float | None
    concurrency: int | None
    tenant: str | None
    group: str | None
    filter: Mapping[str, Any] | None
    order_by: str | None
    when_dead: Literal["stop", "continue"] | None
    retry: Iterable[Duration] | None


class PutEndpoint(EndpointTerms, total=False):
    """One of the endpoints of `put_many`: the parameters of `put`, by name."""

    id: Required[str]
    url: Required[str]
    topics: Required[Topics]


class EndpointChange(EndpointTerms, total=False):
    """The parameters of `app.endpoints.change`: those of `put`, by name; the others stay."""

    url: str
    topics: Topics


def changed_endpoint(was: Endpoint, given: EndpointChange) -> tuple[Endpoint, bool]:
    """Return an endpoint with new values, checked, and whether it keeps its secrets."""
    refuse_unknown("app.endpoints.change", given, EndpointChange)
    _check_whose(given)
    terms: dict[str, Any] = {**given}
    if "topics" in terms:
        terms["topics"] = _topics(terms["topics"])
    keeps = not {"secret", "signer"} & given.keys()
    if not keeps:
        terms = {"secret": None, "signer": None, **terms}
        terms |= {"previous_secret": None, "previous_until": None}
        _check_one_signs(was.id, terms)
    return replace(was, **terms), keeps


def endpoint_of(given: PutEndpoint) -> tuple[Endpoint, bool]:
    """Return an endpoint, checked, and whether an existing one keeps its secret."""
    refuse_unknown("app.endpoints.put", given, PutEndpoint)
    _check_whose(given)
    _check_one_signs(given["id"], given)
    terms: Any = {"url": None, **given, "topics": _topics(given.get("topics"))}
    endpoint = Endpoint(**terms)
    return endpoint, "secret" not in given and endpoint.signer is None


def _check_whose(given: Mapping[str, Any]) -> None:
    for what in ("tenant", "group"):
        if (whose := given.get(what)) is not None:
            check_text(what, whose, MAX_KEY)


def _check_one_signs(id: object, given: Mapping[str, Any]) -> None:
    if given.get("secret") is not None and given.get("signer") is not None:
        raise InvalidEndpoint(
            f"endpoint {str(id)[:100]!r} was given a secret and a signer; give one of them"
        )


def _topics(given: object) -> Any:
    """Return topics by their names; other values are left for `Endpoint` to refuse."""
    if isinstance(given, str | Topic) or not isinstance(given, Iterable):
        given = (given,)
    return tuple(each.topic if isinstance(each, Topic) else each for each in given)

"""Endpoints: where webhooks go. Each is a row, and its deliveries are jobs of `mutirao.webhook`.

`Endpoint` is a request for one, checked; `EndpointRecord` is what people see of it, without
secrets.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, NamedTuple

from mutirao.errors import InvalidEndpoint, InvalidSecret
from mutirao.model.jobs.job import MAX_KEY
from mutirao.model.jobs.waits import is_number, waits_in
from mutirao.model.limits.limit_values import MAX_VALUE
from mutirao.model.limits.limits import Limit, Rule, name_about, pace_of
from mutirao.model.topics.payload_filter import check_field, check_filter
from mutirao.model.topics.subscriptions import WhenDead
from mutirao.model.topics.topics import check_pattern
from mutirao.model.webhooks.webhook_names import (
    OF_ENDPOINT as OF_ENDPOINT,
    PROBE_TASK as PROBE_TASK,
    WEBHOOK_QUEUE as WEBHOOK_QUEUE,
    WEBHOOK_TASK as WEBHOOK_TASK,
)
from mutirao.model.webhooks.webhook_rules import (
    MOST_REDIRECTS,
    PUBLIC,
    check_headers,
    check_method,
    host_of,
    secret_parts,
)

DISABLED_TOPIC = "mutirao.endpoint.disabled"
TEST_TOPIC = "mutirao.test"  # of what `endpoints test` sends
FAIR_BY = "endpoint"  # deliveries take turns by it
FIRST = -100  # the priority of samples and probes, which wait for no delivery
# Of one endpoint, in the whole fleet: one that answers slowly leaves slots to the others. So many
# are claimed, and completed, in one batch: with 20 the same took a seventh more of a processor.
USUAL_CONCURRENCY = 50
# Until it has answered, and again when its breaker has opened: silent ones hold few slots.
CONCURRENCY_AT_FIRST = 5
USUAL_LIMIT = replace(
    Limit(USUAL_CONCURRENCY, by="endpoint").on(task=WEBHOOK_TASK), start=CONCURRENCY_AT_FIRST
)
MAX_TOPICS = 50
MAX_HEADERS = 32_000  # characters of JSON

_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")  # it is part of the webhook's id, without a full stop

Body = Literal["event", "payload"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A request for an endpoint. Its repr has neither headers nor secrets.

    Parameters:
        id: its name, which is the key: 1 to 100 letters, digits, `_` and `-`.
        url: where it goes: `https://…`, or `http://…` where the workers' guard admits that.
        topics: topics and patterns; what is published on one of them goes there once.
        method: POST, PUT, PATCH, GET or DELETE.
        headers: sent besides ours; as secret as the secret.
        secret: `whsec_…` or `whsk_…`, which signs; None leaves it unsigned.
        previous_secret: the one before, which signs as well until `previous_until`.
        previous_until: an aware datetime.
        signer: the name of a signer of the application, which signs instead.
        body: what is sent: "event", an object of `type`, `timestamp` and `data`, as Standard
            Webhooks advises; "payload", what was published alone.
        connect, first_byte, whole: timeouts in seconds; see `mutirao.webhooks.Timeouts`.
        redirects: how many are followed, 0 to 5.
        accepts_3xx: whether an answer of 3xx is success, as 2xx is.
        rate: deliveries that start in any second at most, evenly; None: as many as there are.
        concurrency: deliveries at once, in the whole fleet; less than the 50 that any has.
        tenant, group: only what is published for them; None: for any, and for none.
        filter: only publications with such fields.
        order_by: the field of publications whose equal values are delivered one after another.
        when_dead: what happens to the later ones if one is dead; None without `order_by`.
        retry: seconds between the attempts, of which there is one more; None: those that Standard
            Webhooks advises.

    Raises:
        InvalidEndpoint, InvalidSecret, InvalidTopic, InvalidSubscription: one of these cannot be;
            the message says which, and has neither a secret nor the value of a header.
    """

    id: str
    url: str = field(repr=False)
    topics: tuple[str, ...]
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret: str | None = field(default=None, repr=False)
    previous_secret: str | None = field(default=None, repr=False)
    previous_until: datetime | None = None
    signer: str | None = None
    body: Body = "event"
    connect: float = 5.0
    first_byte: float = 15.0
    whole: float = 30.0
    redirects: int = 0
    accepts_3xx: bool = False
    rate: float | None = None
    concurrency: int | None = None
    tenant: str | None = None
    group: str | None = None
    filter: Mapping[str, Any] | None = None
    order_by: str | None = None
    when_dead: WhenDead | None = None
    retry: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_id(self.id)
        host_of(self.url)
        object.__setattr__(self, "method", check_method(self.method))
        object.__setattr__(self, "topics", _topics(self.id, self.topics))
        check_headers(self.headers)
        if self.filter is not None:
            check_filter(self.filter)
        if len(json.dumps(dict(self.headers))) > MAX_HEADERS:
            raise InvalidEndpoint(f"the headers are longer than {MAX_HEADERS:,} characters of JSON")
        for each in (self.secret, self.previous_secret):
            _check_secret(each)
        if (self.previous_secret is None) != (self.previous_until is None):
            raise InvalidEndpoint(
                "of previous_secret and previous_until one is given; give both, or neither"
            )
        if self.previous_until is not None and self.previous_until.tzinfo is None:
            raise InvalidEndpoint(
                f"previous_until is {self.previous_until}; give a datetime with a time zone"
            )
        self._check_numbers()
        self._check_order()
        if self.retry is not None:
            object.__setattr__(self, "retry", waits_in(self.retry, InvalidEndpoint))

    @property
    def max_attempts(self) -> int | None:
        """How often a delivery is tried; None: as often as Standard Webhooks advises."""
        return None if self.retry is None else len(self.retry) + 1

    @property
    def host(self) -> str:
        """The host of its URL, without the port: breakers of hosts use it."""
        return host_of(self.url)[:MAX_VALUE]

    @property
    def rules(self) -> dict[str, Rule | None]:
        """Its own limits by their names, None for a missing one: of deliveries at once, of a rate.

        They are in addition to `USUAL_CONCURRENCY`, which all have.
        """
        most, rate = self.concurrency, self.rate
        names = limit_name("endpoint", self.id), limit_name("endpoint", self.id, "rate")
        where: dict[str, Any] = {"task": WEBHOOK_TASK, "by": "endpoint", "key": self.id}
        slots = None if most is None else Rule(name=names[0], most=most, **where)
        pace = None
        if rate is not None:
            pace = Rule(name=names[1], most=1, **pace_of(rate)._asdict(), **where)
        return {names[0]: slots, names[1]: pace}

    def _check_order(self) -> None:
        """Check the order; set what a dead delivery does to later ones."""
        if self.order_by is None and self.when_dead is None:
            return
        if self.order_by is None:
            raise InvalidEndpoint(
                f"when_dead is {self.when_dead!r}, and order_by is not given, so no delivery comes"
                " after another; give both, or leave it out"
            )
        check_field(self.order_by, "order_by")
        if len(self.order_by) > MAX_KEY or len(self.topics) > 1:
            raise InvalidEndpoint(
                f"endpoint {self.id!r} has an order by {self.order_by[:MAX_KEY]!r} and"
                f" {len(self.topics)} topics; give a field of up to {MAX_KEY} characters, and one"
                " topic or pattern, such as order.*: publications are delivered in order for one"
            )
        if self.when_dead is not None and self.when_dead not in [*WhenDead]:
            raise InvalidEndpoint(f"when_dead is {self.when_dead!r}; give 'stop' or 'continue'")
        object.__setattr__(self, "when_dead", WhenDead(self.when_dead or WhenDead.STOP))

    def _check_numbers(self) -> None:
        for name in ("connect", "first_byte", "whole", "rate"):
            value = getattr(self, name)
            if value is None and name == "rate":
                continue
            if not (is_number(value) and 0 < value <= 1e6):
                raise InvalidEndpoint(f"{name} is {value!r}; give a number above 0, up to 1e6")
        if not (_is_whole(self.redirects) and 0 <= self.redirects <= MOST_REDIRECTS):
            raise InvalidEndpoint(f"redirects is {self.redirects!r}; give 0 to {MOST_REDIRECTS}")
        most = self.concurrency
        if most is not None and not (_is_whole(most) and most >= 1):
            raise InvalidEndpoint(f"concurrency is {most!r}; give a whole number of 1 or more")
        if self.body not in ("event", "payload"):
            raise InvalidEndpoint(f'body is {self.body!r}; give "event" or "payload"')
        if self.accepts_3xx not in (True, False) or not _is_name(self.signer):
            raise InvalidEndpoint(
                f"accepts_3xx is {self.accepts_3xx!r:.40} and signer {self.signer!r:.40}; give True"
                f" or False, and the name of an @app.signer, of up to {MAX_VALUE} characters"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRecord:
    """An endpoint as people see it; the fields are columns of the view `mutirao_endpoints`.

    `held`: deliveries that wait for a limit, a pause or a breaker. `breaker`: `closed`, `open` or
    `half_open`. `signed`: how: `standard`, a signer's name, or None. `previous_until`:
    until when the previous secret signs as well; None: there is none. `last_failure`: the result of
    the last attempt that failed, however long ago. The URL is shown by its host.
    """

    id: str
    host: str
    method: str
    topics: tuple[str, ...]
    tenant: str | None
    group: str | None
    filter: Mapping[str, Any] | None
    body: Body
    signed: str | None
    previous_until: datetime | None
    order_by: str | None
    when_dead: WhenDead | None
    retry: tuple[float, ...] | None
    rate: float | None
    concurrency: int | None
    connect: float
    first_byte: float
    whole: float
    redirects: int
    accepts_3xx: bool
    active: bool
    paused: bool
    disabled_reason: str | None
    disabled_at: datetime | None
    breaker: str
    probe_at: datetime | None
    failing_since: datetime | None
    last_failure: str | None
    failed_at: datetime | None
    held: int
    created_at: datetime
    changed_at: datetime


class UnreadableEndpoint(NamedTuple):
    """An endpoint whose row was changed by hand, so that nothing can be sent."""

    id: str
    reason: str


def check_id(id: object) -> str:
    """Return the id of an endpoint; raise InvalidEndpoint if it cannot be one."""
    if isinstance(id, str) and _ID.fullmatch(id):
        return id
    raise InvalidEndpoint(
        f"the endpoint's id is {str(id)[:100]!r}; give 1 to 100 letters, digits, _ and -"
    )


def subscription_of(id: str) -> str:
    """Return the id of the subscription by which deliveries to an endpoint are made."""
    return OF_ENDPOINT + id


def without_secret(ids: Sequence[str]) -> InvalidEndpoint:
    """Return the error that there are no such endpoints whose secrets could be kept."""
    return InvalidEndpoint(
        f"there is no endpoint {' or '.join(map(repr, ids[:10]))} yet whose secret it could"
        " keep; give secret=…, made by mutirao.webhooks.new_secret(), or a signer, or"
        " secret=None to send unsigned"
    )


def limit_name(kind: str, key: str, what: str = "") -> str:
    """Return the name of a limit of an endpoint or a host."""
    return name_about(f"webhook {kind}", key, what)


def limits_of(id: str) -> tuple[str, ...]:
    """Return the names of the limits of an endpoint: its own ones, and those that hold it."""
    return tuple(limit_name("endpoint", id, what) for what in ("", "rate", "pause", "breaker"))


def stop_of(kind: str, key: str, what: str, most: int = 0) -> Rule:
    """Return the limit that holds the deliveries to an endpoint or a host: for a pause, a breaker.

    `most`: how many are let through at once.
    """
    name = limit_name(kind, key, what)
    return Rule(name=name, task=WEBHOOK_TASK, by=kind, key=key[:MAX_VALUE], most=most)


def _topics(id: str, topics: object) -> tuple[str, ...]:
    given = (topics,) if isinstance(topics, str) else topics
    if not isinstance(given, list | tuple) or not 1 <= len(given) <= MAX_TOPICS:
        raise InvalidEndpoint(
            f"the topics of endpoint {id!r} are {topics!r:.200}; give 1 to {MAX_TOPICS} topics or"
            ' patterns, such as ["order.*"]'
        )
    return tuple(dict.fromkeys(map(check_pattern, given)))


def _check_secret(secret: str | None) -> None:
    if secret is not None and secret_parts(secret)[0] == PUBLIC:
        raise InvalidSecret("a whpk_ key verifies and cannot sign; give the whsk_ key")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_name(signer: object) -> bool:
    return signer is None or (isinstance(signer, str) and 1 <= len(signer) <= MAX_VALUE)

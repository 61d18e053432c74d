"""Subscriptions: which jobs receive the publications of a topic."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any, NamedTuple

from mutirao.errors import InvalidSubscription
from mutirao.model.jobs.job import MAX_KEY, NewJob
from mutirao.model.keys.uniqueness import FOREVER, OnConflict, Unique
from mutirao.model.limits.limits import Limit, Rule, name_about
from mutirao.model.topics.topics import SUBSCRIPTION

MAX_SUBSCRIPTION_ID = 200

_SAID = ("tenant", "group", "filter", "kind", "key", "order_by", "when_dead")


class SubscriptionOrigin(StrEnum):
    """The origin of a subscription."""

    CODE = "code"  # by `@app.subscriber`
    CALL = "call"  # at run time, by `app.subscriptions.put` or the command line


class WhenDead(StrEnum):
    """What happens to later deliveries of a key, if one of them is dead."""

    STOP = "stop"  # they wait until it is redriven, and that one has ended
    CONTINUE = "continue"  # they are delivered


class SubscriptionKind(StrEnum):
    """What a subscription's jobs do."""

    HANDLER = "handler"  # they call a function of the application
    ENDPOINT = "endpoint"  # they send the publication to a URL


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A subscription: for each publication on its topic there is one job.

    Parameters:
        id: its name, which is the key.
        topic: a topic, or a pattern: `order.*` is each topic that begins with `order.`, `*` is any.
        job: what is enqueued, without arguments.
        tenant, group: only what is published for them; None: for any, and for none.
        filter: only publications with such fields; see `mutirao.model.topics.payload_filter`.
        kind: what its jobs do.
        key: the field of publications whose equal values have one delivery at a time, by the
            options in `job.unique`.
        limits: how many of its deliveries run at once, or start in a period.
        order_by: the field of publications whose equal values are delivered one after another.
        when_dead: what happens to the later ones if one is dead; None without `order_by`.
        retry: seconds between the attempts of a delivery, as many as `job.max_attempts` less one;
            None: those of its task.
    """

    id: str
    topic: str
    job: NewJob
    tenant: str | None = None
    group: str | None = None
    filter: Mapping[str, Any] | None = None
    kind: SubscriptionKind = SubscriptionKind.HANDLER
    key: str | None = None
    limits: tuple[Limit, ...] = ()
    order_by: str | None = None
    when_dead: WhenDead | None = None
    retry: tuple[float, ...] | None = None

    @property
    def fingerprint(self) -> str:
        """Its options, as text."""
        said = {name: getattr(self, name) for name in _SAID}
        said |= {} if self.retry is None else {"retry": self.retry}
        return json.dumps([self.topic, job_options(self.job), said], sort_keys=True, default=list)

    @property
    def rules(self) -> dict[str, Rule | None]:
        """Its own limits by their names, None for a missing one: at once, and in a period."""
        rules: dict[str, Rule | None] = dict.fromkeys(limit_names(self.id))
        for each in self.limits:
            name = limit_names(self.id)[each.per is not None]
            if each.by is not None or each.name is not None or rules[name] is not None:
                raise InvalidSubscription(
                    f"a limit of subscription {self.id!r} is {each!r}; give one of deliveries at"
                    " once, Limit(5), one of a period, Limit(100, per=60), or both, without by and"
                    " name"
                )
            counted = replace(each, by=SUBSCRIPTION, name=name).on(task=self.job.task)
            rules[name] = replace(counted, key=self.id)
        return rules


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRecord:
    """A subscription as people see it; the fields are columns of its view.

    `waiting` and `running` count its deliveries that have not ended; `lag` is the seconds since the
    first of them was published. `stopped` counts the keys in which a dead delivery stops the
    others. `in_code` is False if it was declared in code and no live worker has confirmed it
    lately; None if it was not declared in code. `unfit` is no column: it is the reason why no
    delivery can be made, if the row was changed by hand.
    """

    id: str
    topic: str
    tenant: str | None
    group: str | None
    filter: Mapping[str, Any] | None
    key: str | None
    order_by: str | None
    when_dead: WhenDead | None
    kind: SubscriptionKind
    active: bool
    task: str
    queue: str
    priority: int
    waiting: int
    running: int
    stopped: int
    lag: float | None
    origin: SubscriptionOrigin
    in_code: bool | None
    declared_at: datetime | None
    declared_by: str | None
    created_at: datetime
    changed_at: datetime
    unfit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The publications that a subscription receives again, or for the first time.

    Parameters:
        subscription: its id.
        topic: only publications on this topic; None: on all that it receives.
        since, until: only publications from this moment on, and before that one.
        missing: only publications of which it has no delivery.
    """

    subscription: str
    topic: str | None = None
    since: datetime
    until: datetime | None = None
    missing: bool = False


class Replayed(NamedTuple):
    """The result of one part of a replay: how many deliveries, and up to which publication."""

    deliveries: int
    last: int | None  # None: there are no more


def job_options(job: NewJob) -> Mapping[str, Any]:
    """Return the options of a job that differ from the usual ones."""
    asked = {each.name: getattr(job, each.name) for each in fields(job) if each.compare}
    if job.unique is not None:
        asked["unique"] = _said_of(job.unique)
    return {name: value for name, value in asked.items() if value}


def _said_of(unique: Unique) -> dict[str, Any]:
    """Return the options of a key in JSON form."""
    said = {name: value for name, value in asdict(unique).items() if value is not None}
    return said | ({"unique_for": "forever"} if unique.unique_for == FOREVER else {})


def unique_of(said: Mapping[str, Any]) -> Unique:
    """Return the options of a key from their JSON form."""
    given = dict(said)
    given["on_conflict"] = OnConflict(given["on_conflict"])
    if given.get("unique_for") == "forever":
        given["unique_for"] = FOREVER
    return Unique(**given)


def scope_of(id: str) -> str:
    """Return the scope of the keys of a subscription's deliveries."""
    scope = f"subscription {id}"
    return scope if len(scope) <= MAX_KEY else sha256(scope.encode()).hexdigest()


def limit_names(id: str) -> tuple[str, str]:
    """Return the names of the limits of a subscription: at once, and in a period."""
    return name_about("subscription", id), name_about("subscription", id, "rate")

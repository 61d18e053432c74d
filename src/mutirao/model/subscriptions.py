"""Subscriptions: who is told of what is published, and by which job."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from mutirao.model.job import NewJob

MAX_SUBSCRIPTION_ID = 200

_SAID = ("tenant", "group", "filter", "kind", "order_by", "when_dead")


class SubscriptionOrigin(StrEnum):
    """The origin of a subscription."""

    CODE = "code"  # by `@app.subscriber`
    CALL = "call"  # at run time, by `app.subscriptions.put` or the command line


class WhenDead(StrEnum):
    """What becomes of a key's later deliveries, where one of them is dead."""

    STOP = "stop"  # they wait until it is redriven, and that one has ended
    CONTINUE = "continue"  # they go on


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
        filter: only what has such fields; see `mutirao.model.payload_filter`.
        kind: what its jobs do.
        order_by: the field of what is published whose equal values are delivered one after another.
        when_dead: what becomes of the later ones where one is dead; None without `order_by`.
    """

    id: str
    topic: str
    job: NewJob
    tenant: str | None = None
    group: str | None = None
    filter: Mapping[str, Any] | None = None
    kind: SubscriptionKind = SubscriptionKind.HANDLER
    order_by: str | None = None
    when_dead: WhenDead | None = None

    @property
    def fingerprint(self) -> str:
        """What it says, as text."""
        said = {name: getattr(self, name) for name in _SAID}
        return json.dumps([self.topic, job_options(self.job), said], sort_keys=True, default=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRecord:
    """A subscription as people see it; the fields are columns of its view.

    `waiting` and `running` count its deliveries that have not ended; `lag` is the seconds since the
    first of them was published. `stopped` counts the keys of which a dead one stops the others.
    `in_code` is False if it was declared in code and no live worker has confirmed it lately; None
    if it was not declared in code.
    """

    id: str
    topic: str
    tenant: str | None
    group: str | None
    filter: Mapping[str, Any] | None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What a subscription is to be told again, or for the first time.

    Parameters:
        subscription: its id.
        topic: only what was published on this topic; None: on all that it is told of.
        since, until: only what was published from this moment on, and before that one.
        missing: only what it has no delivery of.
    """

    subscription: str
    topic: str | None = None
    since: datetime
    until: datetime | None = None
    missing: bool = False


class Replayed(NamedTuple):
    """What one part of a replay came to: how many deliveries, and up to which publication."""

    deliveries: int
    last: int | None  # None: there are no more


def job_options(job: NewJob) -> Mapping[str, Any]:
    """Return what a job is asked to be, without what is as usual."""
    asked = {each.name: getattr(job, each.name) for each in fields(job) if each.compare}
    return {name: value for name, value in asked.items() if value}

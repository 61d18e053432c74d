"""Topics and subscriptions: what is published once is delivered once for each subscription.

A publication is a job of its topic's task, and a delivery is a job of the subscription's task: so
both have attempts, retries, history and views like any other. `Event` is what a subscriber is told
of the publication.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from mutirao.errors import InvalidTopic
from mutirao.model.job import NewJob

MAX_TOPIC = 150
MAX_SUBSCRIPTION_ID = 200
TOPIC_TASK = "topic:"  # begins the names of tasks whose jobs are publications
ANY = "*"  # ends a pattern

# The keys in a delivery's metadata. A hint: whether it is one, `mutirao_delivery` says.
PUBLICATION, SUBSCRIPTION = "publication", "subscription"

_NAME = re.compile(r"[\w-]+(\.[\w-]+)*", re.ASCII)


class SubscriptionOrigin(StrEnum):
    """The origin of a subscription."""

    CODE = "code"  # by `@app.subscriber`
    CALL = "call"  # at run time


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What was published, as a subscriber is told of it, injected by annotation: `event: Event`.

    Parameters:
        id: the publication's id, the same for all subscriptions and attempts.
        topic: what it was published on.
        subscription: the id of the subscription that this delivery is for.
        published_at: when it was published, by the database's clock.
        attempt: which attempt of this delivery it is, from 1.
        tenant, group: whose it is, as the publisher said.
    """

    id: int
    topic: str
    subscription: str
    published_at: datetime
    attempt: int
    tenant: str | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A subscription: for each publication on its topic there is one job.

    Parameters:
        id: its name, which is the key.
        topic: a topic, or a pattern: `order.*` is each topic that begins with `order.`, `*` is any.
        job: what is enqueued, without arguments.
    """

    id: str
    topic: str
    job: NewJob

    @property
    def fingerprint(self) -> str:
        """What it says, as text."""
        return json.dumps([self.topic, job_options(self.job)], sort_keys=True, default=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRecord:
    """A subscription as people see it; the fields are columns of its table."""

    id: str
    topic: str
    task: str
    queue: str
    priority: int
    origin: SubscriptionOrigin
    created_at: datetime
    changed_at: datetime
    declared_at: datetime | None
    declared_by: str | None


def task_of(topic: str) -> str:
    """Return the name of the task whose jobs are the publications on a topic."""
    return TOPIC_TASK + topic


def topic_of(task: str) -> str:
    """Return the topic of a publication's task."""
    return task.removeprefix(TOPIC_TASK)


def check_topic(topic: object) -> str:
    """Return a topic's name; raise InvalidTopic if it cannot be one."""
    if isinstance(topic, str) and len(topic) <= MAX_TOPIC and _NAME.fullmatch(topic):
        return topic
    raise InvalidTopic(
        f"the topic is {str(topic)[:MAX_TOPIC]!r}; give words of letters, digits, _ and -, with"
        f" dots between them, such as order.placed, of at most {MAX_TOPIC} characters"
    )


def check_pattern(pattern: object) -> str:
    """Return what a subscription is to: a topic or a pattern; raise InvalidTopic for others."""
    if pattern == ANY:
        return ANY
    if isinstance(pattern, str) and ANY in pattern:
        if not pattern.endswith("." + ANY) or ANY in pattern[:-1]:
            raise InvalidTopic(
                f"the pattern is {pattern[:MAX_TOPIC]!r}; a * stands only at the end, behind a dot:"
                " order.* is each topic that begins with order., and * is any"
            )
        check_topic(pattern[:-2])
        return pattern
    return check_topic(pattern)


def patterns_of(topic: str) -> tuple[str, ...]:
    """Return all that a subscription may be to in order to be told of a topic.

    The topic itself, and each pattern that matches it: so the database finds subscriptions by
    equality, with an index.
    """
    words = topic.split(".")
    beginnings = (".".join(words[:n]) for n in range(1, len(words)))
    return (topic, ANY, *(f"{each}.{ANY}" for each in beginnings))


def job_options(job: NewJob) -> Mapping[str, Any]:
    """Return what a job is asked to be, without what is as usual."""
    asked = {each.name: getattr(job, each.name) for each in fields(job) if each.compare}
    return {name: value for name, value in asked.items() if value}

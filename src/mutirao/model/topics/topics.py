"""Topics: an event that is published once is delivered once for each subscription.

A publication is a job of its topic's task, and a delivery is a job of the subscription's task: so
both have attempts, retries, history and views like any other. `Event` is what a subscriber receives
of the publication.
"""

import re
from dataclasses import dataclass
from datetime import datetime

from mutirao.errors import InvalidTopic

MAX_TOPIC = 150
TOPIC_TASK = "topic:"  # begins the names of tasks whose jobs are publications
ANY = "*"  # ends a pattern

# The keys in a delivery's metadata. A hint: the table `mutirao_delivery` decides whether it is one.
PUBLICATION, SUBSCRIPTION = "publication", "subscription"
RETRY = "retry"  # an argument of deliveries, after `SUBSCRIPTION`: the waits between their attempts

_NAME = re.compile(r"[\w-]+(\.[\w-]+)*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A publication, as a subscriber receives it, injected by annotation: `event: Event`.

    Parameters:
        id: the publication's id, the same for all subscriptions and attempts.
        topic: the topic on which it was published.
        subscription: the id of the subscription that this delivery is for.
        published_at: when it was published, by the database's clock.
        attempt: which attempt of this delivery it is, from 1.
        tenant, group: those that the publisher gave.
    """

    id: int
    topic: str
    subscription: str
    published_at: datetime
    attempt: int
    tenant: str | None = None
    group: str | None = None


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
    """Return a topic or a pattern for a subscription; raise InvalidTopic for other values."""
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


def receives(pattern: str, topic: str) -> bool:
    """Return whether a subscription to a topic or a pattern receives a topic."""
    return pattern in patterns_of(topic)


def patterns_of(topic: str) -> tuple[str, ...]:
    """Return the topic and patterns of all subscriptions that receive a topic.

    These are the topic itself, and each pattern that matches it: so the database finds
    subscriptions by equality, with an index.
    """
    words = topic.split(".")
    beginnings = (".".join(words[:n]) for n in range(1, len(words)))
    return (topic, ANY, *(f"{each}.{ANY}" for each in beginnings))

"""Changes of existing subscriptions, checked with the options that stay."""

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from mutirao.errors import InvalidSubscription
from mutirao.model.jobs.job import NewJob
from mutirao.model.keys.uniqueness import Unique
from mutirao.model.topics.subscriptions import SubscriptionRecord
from mutirao.tasks.options import refuse_unknown
from mutirao.tasks.topics.subscription_options import subscription_of
from mutirao.tasks.topics.topics import Topic
from mutirao.tasks.validation import check_job

_OF_JOB = ("queue", "priority")


class SubscriptionChange(TypedDict, total=False):
    """The parameters of `app.subscriptions.change(…)`; the other options stay.

    Parameters:
        topic: a topic, its name, or a pattern.
        tenant, group: only what is published for them; None for any, and for none.
        filter: fields of publications, as `put` takes them; None for all.
        order_by: a field: deliveries with the same value in it run one after another; None: none.
        when_dead: `"stop"` or `"continue"`, with `order_by`.
        queue, priority: of its deliveries.
    """

    topic: "str | Topic[Any]"
    tenant: str | None
    group: str | None
    filter: Mapping[str, Any] | None
    order_by: str | None
    when_dead: Literal["stop", "continue"] | None
    queue: str
    priority: int


def changed_values(
    was: SubscriptionRecord, topic: "str | Topic[Any]", given: SubscriptionChange, max_payload: int
) -> dict[str, Any]:
    """Return the new values of a subscription, by the names of its columns.

    Parameters:
        topic: the one that it is on from now on.

    Raises:
        InvalidTopic, InvalidSubscription, InvalidJob: the result is invalid.
        TypeError: an option is unknown.
    """
    refuse_unknown("app.subscriptions.change", given, SubscriptionChange)
    asked: Any = {name: given.get(name, getattr(was, name)) for name in _names()}
    if asked["order_by"] is None and "when_dead" not in given:
        asked["when_dead"] = None
    if asked["order_by"] is not None and was.key is not None:
        raise InvalidSubscription(
            f"order_by is {asked['order_by']!r}, and subscription {was.id!r} has the key"
            f" {was.key!r}: by that some deliveries are left out, and an order has them all; put"
            " the subscription anew"
        )
    job = NewJob(task=was.task, **{name: asked.pop(name) for name in _OF_JOB})
    check_job(job, max_payload)
    del asked["topic"]
    made = subscription_of(was.id, topic, job, Unique(), asked)
    new = {name: getattr(job if name in _OF_JOB else made, name) for name in given}
    return {**new, "when_dead": made.when_dead} if "order_by" in given else new


def _names() -> tuple[str, ...]:
    return tuple(SubscriptionChange.__annotations__)

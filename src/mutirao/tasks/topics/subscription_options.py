"""The options of a subscription, checked: those of `@app.subscriber` and of `app.subscriptions`."""

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal, TypedDict, is_typeddict
from uuid import UUID

import msgspec

from mutirao.errors import InvalidSubscription
from mutirao.model.jobs.job import MAX_KEY, NewJob
from mutirao.model.jobs.waits import waits_in
from mutirao.model.keys.uniqueness import OnConflict, Unique
from mutirao.model.limits.limits import Limit
from mutirao.model.topics.payload_filter import (
    asked_values,
    check_field,
    check_filter,
    first_names,
)
from mutirao.model.topics.subscriptions import MAX_SUBSCRIPTION_ID, Subscription, WhenDead, scope_of
from mutirao.model.topics.topics import check_pattern
from mutirao.model.webhooks.webhook_names import OF_ENDPOINT
from mutirao.tasks.options import (
    Duration,
    TaskOptions,
    TaskTerms,
    refuse_unknown,
    several_limits,
    uniqueness,
)
from mutirao.tasks.signatures.annotations import UNRESOLVED, fields_of
from mutirao.tasks.signatures.conversion import UNFIT, decoder, readable, to_json
from mutirao.tasks.signatures.models import fields_in_json, is_model
from mutirao.tasks.topics.topics import Topic
from mutirao.tasks.validation import check_text, check_unique

_WITHOUT_FIELDS = (str, int, float, bool, Decimal, UUID, datetime, date)
_OF_KEY = ("on_conflict", "unique_for", "debounce_limit")
_WITH_KEY = (OnConflict.KEEP, OnConflict.REPLACE, OnConflict.RERUN)


class SubscriptionTerms(TypedDict, total=False):
    """Select the publications of a topic that a subscription gets.

    Parameters:
        tenant: only what is published for this tenant; unless given for any, and for none.
        group: only what is published for this group; unless given for any, and for none.
        filter: fields of publications, by name (with dots between the names on the way into
            objects), each with the value that it equals, `{"in": [values]}` or `{"exists": True}`
            (or False). All of them have to match.
        key: a field of publications: of deliveries with the same value in it one waits at most, or
            runs, by the options of a key (`on_conflict`, `unique_for`, `debounce_limit`; `scope` is
            the subscription's own unless given). If the field is missing or null there is no key.
        order_by: a field of publications: deliveries with the same value in it run one after
            another, in the order of the publications. If the field is missing or null there is no
            order.
        when_dead: `"stop"` unless given: a dead delivery stops those of its value that come after
            it, until it is redriven; `"continue"`: they are delivered.
    """

    tenant: str | None
    group: str | None
    filter: dict[str, Any] | None
    key: str | None
    order_by: str | None
    when_dead: Literal["stop", "continue"] | None


class PutTerms(SubscriptionTerms, total=False):
    """The parameters of `app.subscriptions.put(…)`, besides the first three.

    Parameters:
        limit: how many of its deliveries run at once, in the whole fleet, or start in a period:
            `Limit(5)`, `Limit(100, per=60)`, or both.
        on_conflict, unique_for, debounce_limit: replace the subscriber's options of the key.
        retry: the waits between the attempts of a delivery, in seconds or as `timedelta`s, of which
            there is one more: `[5, 60, 3600]`; none for one attempt. Unless given the subscriber's.
            Its terms for certain errors (`only`, `never`, `by_type`) apply to these, too.
    """

    limit: Limit | Iterable[Limit]
    on_conflict: Literal["keep", "replace", "rerun"] | None
    unique_for: Duration | Literal["forever"] | None
    debounce_limit: Duration | None
    retry: Iterable[Duration] | None


class SubscriberTerms(TaskTerms, SubscriptionTerms, total=False):
    """The parameters of `@app.subscriber(…)`: those of `@app.task(…)`, and which publications."""


def separated(terms: SubscriberTerms) -> tuple[TaskTerms, SubscriptionTerms]:
    """Return the options of the task, and those of the subscription."""
    given: dict[str, Any] = dict(terms)
    mine: Any = {n: given.pop(n) for n in SubscriptionTerms.__annotations__ if n in given}
    others: Any = given
    task: TaskTerms = others
    subscription: SubscriptionTerms = mine
    return task, subscription


def options_of(terms: TaskTerms) -> TaskOptions:
    """Return the options of a topic or a subscriber.

    Raises:
        InvalidJob, InvalidLimit: an option is out of range.
        TypeError: an option is unknown.
    """
    if terms.get("name") is not None:
        raise TypeError("a topic or a subscriber has its name as first argument; leave name= out")
    return TaskOptions.of(terms)


def subscription_of(
    id: str, topic: "str | Topic[Any]", job: NewJob, unique: Unique, terms: PutTerms
) -> Subscription:
    """Return a subscription; `unique`: the options of a key in its task.

    Raises:
        InvalidTopic: it is no topic and no pattern.
        InvalidSubscription: the id is an endpoint's, or the filter, the key or a limit is invalid,
            or names fields that the topic does not have.
        InvalidLimit: a limit is not a `Limit`.
        InvalidJob: the id, the tenant or the group is too long, or no text.
        TypeError: an option is unknown.
    """
    refuse_unknown("a subscription", terms, PutTerms)
    check_id(id)
    tenant, group, filter = (terms.get(name) for name in ("tenant", "group", "filter"))
    for what, value in (("tenant", tenant), ("group", group)):
        if value is not None:
            check_text(what, value, MAX_KEY)
    key, retry = terms.get("key"), _retry(job, terms)
    if retry is not None:
        job = replace(job, max_attempts=len(retry) + 1)
    unique = _with_terms(unique, terms)
    if key is not None:
        job = replace(job, unique=_unique(id, key, unique, topic))
        if terms.get("order_by") is not None:
            raise InvalidSubscription(
                f"key is {key!r} and order_by {terms.get('order_by')!r}: by the one deliveries make"
                " others redundant, by the other none is left out; give one of them"
            )
    made = Subscription(
        id=id,
        topic=topic.topic if isinstance(topic, Topic) else check_pattern(topic),
        job=job,
        tenant=terms.get("tenant"),
        group=terms.get("group"),
        filter=None if filter is None else _check_asked(filter, topic),
        key=key,
        limits=several_limits(terms.get("limit", ())),
        order_by=terms.get("order_by"),
        when_dead=_when_dead(terms, topic),
        retry=retry,
    )
    _ = made.rules  # checks the limits
    return made


def check_id(id: str) -> None:
    """Check the id of a subscription that is not an endpoint's.

    Raises:
        InvalidJob: it is too long, or no text.
        InvalidSubscription: it is the id of an endpoint's subscription.
    """
    check_text("id of a subscription", id, MAX_SUBSCRIPTION_ID)
    if id.startswith(OF_ENDPOINT):
        raise InvalidSubscription(
            f"{id!r} is an endpoint's subscription, as all are that begin with {OF_ENDPOINT!r};"
            " give another id, or change the endpoint: app.endpoints, `mutirao endpoints`"
        )


def _retry(job: NewJob, terms: PutTerms) -> tuple[float, ...] | None:
    """Return the waits between the attempts of deliveries, checked; None: the subscriber's."""
    given = terms.get("retry")
    if given is None:
        return None
    if job.max_attempts is not None:
        raise InvalidSubscription(
            f"max_attempts is {job.max_attempts}, and retry is given, which says it: there is one"
            " attempt more than waits; leave max_attempts out"
        )
    return waits_in(given, InvalidSubscription)


def _with_terms(usual: Unique, terms: PutTerms) -> Unique:
    """Return the options of a key: the subscriber's, replaced by those of the subscription.

    Raises:
        InvalidSubscription: options are given without a key.
        InvalidJob: the subscriber has a rule instead, or an option is unknown.
    """
    said = {name: terms.get(name) for name in _OF_KEY if terms.get(name) is not None}
    if said and terms.get("key") is None:
        raise InvalidSubscription(
            f"{next(iter(said))} is {next(iter(said.values()))!r}, and key is not given, so no"
            " delivery has one; give both, or leave it out"
        )
    given: Any = said
    return uniqueness(usual, given) if said else usual


def _unique(id: str, key: str, usual: Unique, topic: "str | Topic[Any]") -> Unique:
    """Return the options of the key for the deliveries of a subscription, checked."""
    _check_names_field(key, topic, "key")
    if usual.supersede is not None or usual.on_conflict is OnConflict.ERROR:
        raise InvalidSubscription(
            f"subscription {id!r} has a key, and its task a supersede rule, which compares"
            f" arguments that deliveries have not, or on_conflict={OnConflict.ERROR.value!r}, and"
            f" nobody gets that error; give {', '.join(map(repr, map(str, _WITH_KEY)))}"
        )
    check_unique(usual)
    return usual if usual.scope is not None else replace(usual, scope=scope_of(id))


def _when_dead(terms: SubscriptionTerms, topic: "str | Topic[Any]") -> WhenDead | None:
    """Return what a dead delivery does to later ones if there is an order, checked."""
    order_by, given = terms.get("order_by"), terms.get("when_dead")
    if order_by is None:
        if given is not None:
            raise InvalidSubscription(
                f"when_dead is {given!r}, and order_by is not given, so no delivery comes after"
                " another; give both, or leave it out"
            )
        return None
    _check_names_field(order_by, topic, "order_by")
    if given is not None and given not in [*WhenDead]:
        raise InvalidSubscription(f"when_dead is {given!r}; give 'stop' or 'continue'")
    return WhenDead(given or WhenDead.STOP)


def _check_names_field(field: str, topic: "str | Topic[Any]", what: str) -> None:
    """Raise InvalidSubscription unless this is a field of the topic's events."""
    check_field(field, what)
    if len(field) > MAX_KEY:
        raise InvalidSubscription(f"{what} has {len(field)} characters; give up to {MAX_KEY}")
    _check_known({field.partition(".")[0]}, topic, what)


def _check_asked(given: object, topic: "str | Topic[Any]") -> dict[str, Any]:
    """Return a filter in JSON form.

    Raises:
        InvalidSubscription: it is invalid, or never matches an event of the topic.
    """
    filter = _as_json(given)
    _check_known(first_names(filter), topic, "the filter")
    if isinstance(topic, Topic) and _names_in(topic.kind) is not None:
        for field, value in asked_values(filter):
            _check_kind(field, value, topic)
    return filter


def _check_kind(field: str, value: object, topic: Topic[Any]) -> None:
    """Raise InvalidSubscription if a field of the topic's type never has this value."""
    try:
        kinds = _kinds_in(topic.kind)
        name, dots, _ = field.partition(".")
        if dots and kinds.get(name) in _WITHOUT_FIELDS:
            raise InvalidSubscription(
                f"the filter asks of {field!r}, but {name!r} of what is published on"
                f" {topic.topic!r} is {kinds[name].__name__}, which has no fields"
            )
        kind = readable(kinds[field])
    except (KeyError, *UNRESOLVED):
        return  # it leads into an object, or names what is defined later
    try:
        decoder(kind).decode(json.dumps(value))
    except UNFIT as unfit:
        raise InvalidSubscription(
            f"the filter asks of {field!r} that it is {value!r:.200}, which it never is in what is"
            f" published on {topic.topic!r}: {unfit}"
        ) from None


def _kinds_in(kind: Any) -> dict[str, Any]:
    """Return the types of the fields by their names in JSON."""
    if issubclass(kind, msgspec.Struct):
        return {each.encode_name: each.type for each in msgspec.structs.fields(kind)}
    return (fields_in_json(kind) or {}) if is_model(kind) else fields_of(kind)


def _as_json(given: object) -> dict[str, Any]:
    """Return a filter in JSON form, in which an enum, a UUID or a date is text."""
    try:
        return check_filter(json.loads(to_json(given)))
    except UNFIT as unfit:
        if isinstance(unfit, InvalidSubscription):
            raise
        raise InvalidSubscription(f"the filter cannot be written as JSON: {unfit}") from None


def _check_known(names: set[str], topic: "str | Topic[Any]", of: str) -> None:
    """Raise InvalidSubscription for fields that events of the topic do not have."""
    known = _names_in(topic.kind) if isinstance(topic, Topic) else None
    if known is not None and (strange := names - known):
        raise InvalidSubscription(
            f"{of} asks of {', '.join(sorted(strange))}, but what is published on"
            f" {topic.topic!r} has {', '.join(sorted(known))}"  # type: ignore[union-attr]
        )


def _names_in(kind: Any) -> set[str] | None:
    """Return the names of a type's fields in JSON; None if they are not known."""
    if not isinstance(kind, type):
        return None
    if issubclass(kind, msgspec.Struct):
        tag = kind.__struct_config__.tag_field
        return {*kind.__struct_encode_fields__, *([tag] if tag else [])}
    if dataclasses.is_dataclass(kind):
        return {each.name for each in dataclasses.fields(kind)}
    if is_typeddict(kind):
        return set(kind.__annotations__)
    known = fields_in_json(kind) if is_model(kind) else None
    return None if known is None else set(known)

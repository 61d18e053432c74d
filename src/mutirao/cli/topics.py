"""`publish`, `replay` and `subscriptions`: publish on a topic, and manage who receives it."""

from datetime import datetime, timedelta
from functools import partial
from typing import Any

import click

from mutirao.app import Mutirao
from mutirao.cli.group import WholeHelp
from mutirao.cli.options import (
    WHEN_DEAD,
    as_json,
    ask,
    duration,
    json_object,
    noted,
    option,
    past,
    target,
    waits,
    window,
)
from mutirao.cli.output import fields_of, origin_of, print_done, print_json, print_table, say
from mutirao.cli.target import AppCommand, load_app
from mutirao.cli.terms import options_of
from mutirao.model.audit.actions import About
from mutirao.model.keys.uniqueness import OnConflict
from mutirao.model.limits.limits import Limit
from mutirao.model.topics.subscriptions import SubscriptionRecord
from mutirao.model.topics.topics import patterns_of
from mutirao.tasks.options import CallTerms
from mutirao.tasks.topics.subscribers import Subscriber
from mutirao.tasks.topics.topics import Topic

id_ = click.argument("id")
WITH_KEY = [str(each) for each in OnConflict if each is not OnConflict.ERROR]


@click.command(cls=AppCommand)
@target
@click.argument("topic")
@click.argument("event", type=json_object)
@options_of(CallTerms, version=("--as-of", "version"), tags=("--tag", "tags"))
@as_json
def publish(target: str, topic: str, event: dict[str, Any], as_json: bool, **options: Any) -> None:
    """Publish EVENT, a JSON object, on TOPIC: each subscription gets a job of it.

    \b
    mutirao publish shop:app order.placed '{"order_id": 7, "total": 19.9}' --tenant acme
    """
    app = load_app(target)
    call = app.topic_named(topic).using(**options)
    handle = ask(app, lambda: call.aenqueue(event))
    line = f"published on {topic}: job {handle.id} in queue {handle.queue}"
    print_done(fields_of(handle), line, as_json)


@click.command(cls=AppCommand)
@target
@click.argument("subscription")
@option("--topic", help="Only what was published on it; all that it receives unless given.")
@option("--since", type=past, required=True, help="From this moment on, or so long ago (2h, 7d).")
@option("--until", type=past, help="And before this moment.")
@option("--missing", is_flag=True, help="Only what it has no delivery of.")
@as_json
def replay(
    target: str,
    subscription: str,
    topic: str | None,
    since: datetime,
    until: datetime | None,
    missing: bool,
    as_json: bool,
) -> None:
    """Deliver to SUBSCRIPTION again what was published, as new deliveries of it.

    \b
    mutirao replay shop:app reindex --topic order.placed --since 2h
    """
    app = load_app(target)
    again = partial(app.areplay, subscription, topic, since=since, until=until, missing=missing)
    made = noted(app, About("replay", "subscription", subscription), again)
    line = f"{made} {'delivery' if made == 1 else 'deliveries'} for {subscription}"
    print_done({"deliveries": made}, line, as_json)


@click.group(cls=WholeHelp)
def subscriptions() -> None:
    """List, put, disable, enable and remove subscriptions to topics."""


@subscriptions.command("list", cls=AppCommand)
@target
@as_json
def list_(target: str, as_json: bool) -> None:
    """List subscriptions by id, with the deliveries that have not ended, and how old they are."""
    app = load_app(target)
    found = ask(app, lambda: app.subscriptions.alist())
    if as_json:
        print_json(found)
        return
    print_table(
        ("id", "topic", "tenant", "group", "filter", "key", "order by", "task", "queue", "status",
         "waiting", "running", "stopped", "lag", "origin"),
        [
            (s.id, s.topic, s.tenant, s.group, s.filter, s.key, s.order_by, s.task, s.queue,
             _status(s), s.waiting, s.running, s.stopped, _seconds(s.lag), origin_of(s))
            for s in found
        ],
        empty="no subscriptions",
    )  # fmt: skip


@subscriptions.command(cls=AppCommand)
@target
@id_
@click.argument("subscriber")
@click.argument("topic")
@option("--tenant", help="Only what is published for this tenant.")
@option("--group", help="Only what is published for this group.")
@option("--filter", type=json_object, help="Only what has these fields, as a JSON object.")
@option("--key", help="A field: of equal ones one delivery waits at most, or runs.")
@option("--on-conflict", type=click.Choice(WITH_KEY), help="If another one has the key.")
@option("--unique-for", type=window, help="How long the key is held after a delivery; or: forever.")
@option("--debounce-limit", type=duration, help="For how long replacing may put off the first.")
@option("--order-by", help="A field: equal ones are delivered in the order of publications.")
@option("--when-dead", type=WHEN_DEAD, help="What a dead one does to those after it.")
@option("--queue", help="Of the deliveries, instead of the subscriber's.")
@option("--priority", type=int, help="Of the deliveries; smaller runs first.")
@option("--from", "from_", type=past, help="Deliver what was published since then, too (2h, 7d).")
@option("--delay", type=duration, help="Deliver not before so long after the publication.")
@option("--max-attempts", type=int, help="Instead of the subscriber's.")
@option("--retry", type=waits, help="Waits between attempts: 5s,1m,1h; or: never.")
@option("--timeout", type=duration, help="Instead of the subscriber's.")
@option("--tag", "tags", multiple=True, help="Added to the subscriber's; may be repeated.")
@option("--limit", type=int, help="So many of its deliveries at once; with --per, in that time.")
@option("--per", type=duration, help="The time in which so many may start (1, 60, 2h).")
@as_json
def put(
    target: str,
    id: str,
    subscriber: str,
    topic: str,
    tenant: str | None,
    group: str | None,
    filter: dict[str, Any] | None,
    key: str | None,
    on_conflict: str | None,
    unique_for: timedelta | str | None,
    debounce_limit: timedelta | None,
    order_by: str | None,
    when_dead: str | None,
    retry: list[timedelta] | None,
    from_: datetime | None,
    limit: int | None,
    per: timedelta | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Have SUBSCRIBER receive what is published on TOPIC, or on all that a pattern matches, as ID.

    It replaces the subscription of that ID, which stays disabled if it was.

    \b
    mutirao subscriptions put shop:app acme notify 'order.*' --tenant acme
    mutirao subscriptions put shop:app paid notify order.placed --filter '{"status": "paid"}'
    """
    if per is not None and limit is None:
        raise click.UsageError("--per is the time of a limit; give --limit, too")
    app = load_app(target)
    found = app.task_named(subscriber)
    handler = found.using(**options) if isinstance(found, Subscriber) else subscriber
    terms: Any = {"tenant": tenant, "group": group, "filter": filter, "key": key}
    terms |= {"order_by": order_by, "when_dead": when_dead, "retry": retry}
    terms |= {"on_conflict": on_conflict, "unique_for": unique_for}
    terms |= {"debounce_limit": debounce_limit}
    terms["limit"] = () if limit is None else Limit(limit, per=per)
    noted(
        app,
        About("put", "subscription", id),
        lambda: app.subscriptions.aput(id, handler, topic, from_=from_, **terms),
    )
    print_done({"put": id}, f"subscription {id} receives {topic}", as_json)
    warn_of_topics(app, topic)


@subscriptions.command(cls=AppCommand)
@target
@id_
@as_json
def disable(target: str, id: str, as_json: bool) -> None:
    """Disable subscription ID: it receives nothing until it is enabled. Deploys leave it so.

    What is published meanwhile is not held for it: a replay with --missing delivers it.
    """
    app = load_app(target)
    noted(app, About("disable", "subscription", id), lambda: app.subscriptions.adisable(id))
    print_done({"disabled": id}, f"subscription {id} is disabled", as_json)


@subscriptions.command(cls=AppCommand)
@target
@id_
@as_json
def enable(target: str, id: str, as_json: bool) -> None:
    """Enable subscription ID again; what was published meanwhile is not made up for."""
    app = load_app(target)
    noted(app, About("enable", "subscription", id), lambda: app.subscriptions.aenable(id))
    print_done({"enabled": id}, f"subscription {id} is enabled", as_json)


@subscriptions.command(cls=AppCommand)
@target
@id_
@as_json
def remove(target: str, id: str, as_json: bool) -> None:
    """Remove subscription ID; its deliveries stay. If it is in the code, a worker restores it."""
    app = load_app(target)
    noted(app, About("remove", "subscription", id), lambda: app.subscriptions.aremove(id))
    print_done({"removed": id}, f"subscription {id} is removed", as_json)


def warn_of_topics(app: Mutirao, *topics: str) -> None:
    """Warn of topics and patterns that match no topic of an application that has topics."""
    known = [each.topic for each in app.tasks.values() if isinstance(each, Topic)]
    matched = {pattern for each in known for pattern in patterns_of(each)}
    for topic in topics if known else ():
        if topic not in matched:
            say(
                f"mutirao: no topic of this application is {topic!r}; its topics:"
                f" {', '.join(sorted(known)[:20])}",
                error=True,
            )


def _seconds(lag: float | None) -> str | None:
    return None if lag is None else f"{lag:.0f} s"


def _status(subscription: SubscriptionRecord) -> str:
    if subscription.unfit:
        return "unfit"
    return "enabled" if subscription.active else "disabled"

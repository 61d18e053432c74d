"""`app.subscriptions` and `@app.subscriber`: what they do, and what bad input gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from sqlite3 import connect
from typing import Annotated, Any, Literal, TypedDict
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel, Field, PlainSerializer
from sqlalchemy import make_url

from mutirao import Event, Limit, Mutirao, Retry
from mutirao.errors import (
    InvalidArguments,
    InvalidJob,
    InvalidLimit,
    InvalidSubscription,
    InvalidTask,
    InvalidTopic,
    UnknownSubscription,
    UnknownTask,
    UnknownTopic,
)
from mutirao.testing import capture, drain
from mutirao_conformance.kit import NOW
from tests.integration.topics.failing import failing


@dataclass
class Order:
    """What is published."""

    id: int
    status: str = "new"


class Renamed(msgspec.Struct, rename="camel", tag=True):
    """Whose fields have other names in JSON."""

    order_id: int


class Named(TypedDict):
    """A dict of which the fields are known."""

    order_id: int


class Modelled(BaseModel):
    """A model of pydantic, one of whose fields is written as something else."""

    order_id: int = Field(alias="orderId")
    status: Literal["new", "paid"] = "new"
    secret: Annotated[int, PlainSerializer(str)] = 0


class Open(BaseModel, extra="allow"):
    """A model of pydantic with any other fields."""

    order_id: int


@pytest.fixture
def app() -> Mutirao:
    """An application whose database nobody asks."""
    return Mutirao()


def test_a_life() -> None:
    """Put, listed, disabled, enabled and removed: told of what it says, by the options it gives."""
    app = Mutirao()
    orders = app.topic("order.placed", Order)
    received: list[tuple[str, int]] = []

    @app.subscriber("note")
    def note(order: Order, event: Event) -> None:
        received.append((event.subscription, order.id))

    with capture(app):
        app.subscriptions.put("paid", note, orders, filter={"status": "paid"})
        app.subscriptions.put("acme", note.using(queue="slow", delay=0), "order.*", tenant="acme")
        assert [each.id for each in app.subscriptions.list()] == ["acme", "paid"]
        assert app.subscriptions.list()[0].queue == "slow"
        app.subscriptions.disable("paid")
        orders.publish(Order(1, "paid"))
        orders.publish(Order(2), tenant="acme")
        drain(app)
        app.subscriptions.enable("paid")
        orders.publish(Order(3, "paid"))
        drain(app)
        app.subscriptions.remove("acme")
        orders.publish(Order(4, "new"), tenant="acme")
        drain(app)
        assert received == [("acme", 2), ("paid", 3)]
        assert app.replay("paid", orders, since=NOW - timedelta(days=365)) == 2
        app.subscriptions.put("new", note, "order.*", from_=NOW - timedelta(days=365))
        drain(app)
        assert received[2:] == [("paid", 1), ("paid", 3), *(("new", n) for n in range(1, 5))]
        with pytest.raises(UnknownSubscription, match="no subscription 'acme'; `mutirao subscr"):
            app.subscriptions.disable("acme")


def test_drained_behind_those_that_wait() -> None:
    """Deliveries that wait for a dead one do not end it."""
    app = Mutirao()
    orders = app.topic("order.placed", Order)

    @app.subscriber("note", topic=orders, order_by="id", retry=Retry.never())
    def note(order: Order) -> None:
        if order.id == 1:
            raise ValueError

    with capture(app):
        orders.publish_many([Order(1), Order(1), Order(1), Order(2)])
        drain(app)
        found = Counter(str(job.state) for job in app.jobs(task="note"))
    assert found == {"dead": 1, "blocked": 2, "succeeded": 1}


def test_a_key_and_a_limit() -> None:
    """Of the code, and at run time: what they say of keys is the subscriber's."""
    app = Mutirao()
    orders = app.topic("order.placed", Order)
    received: list[tuple[str, str]] = []

    @app.subscriber("note", topic=orders, key="id", on_conflict="replace", limit=Limit(1))
    def note(order: Order, event: Event) -> None:
        received.append((event.subscription, order.status))

    with capture(app):
        app.subscriptions.put("more", note, orders, key="status", limit=Limit(1))
        drain(app)  # which declares the other one
        for status in ("new", "paid", "new"):
            orders.publish(Order(1, status))
        drain(app)
        assert sorted(received) == [("more", "new"), ("more", "paid"), ("note", "new")]
        assert [each.key for each in app.subscriptions.list()] == ["status", "id"]
        # The jobs were captured, and no worker has declared the limit of the code.
        assert [each.name for each in app.limits.list()] == ["subscription more"]


def test_what_a_key_means_to_a_subscription() -> None:
    """What it says replaces what its subscriber says, and for it alone."""
    app = Mutirao()
    orders = app.topic("order.placed", Order)
    received: list[tuple[str, str]] = []

    @app.subscriber("note")
    def note(order: Order, event: Event) -> None:
        received.append((event.subscription, order.status))

    with capture(app):
        app.subscriptions.put("first", note, orders, key="id")
        app.subscriptions.put(
            "newest", note.using(delay=60), orders, key="id", on_conflict="replace",
            debounce_limit=timedelta(hours=1),
        )  # fmt: skip
        app.subscriptions.put("once", note, orders, key="id", unique_for="forever")
        for status in ("new", "paid"):
            orders.publish(Order(1, status))
        drain(app)
        drain(app, with_scheduled=True)
        orders.publish(Order(1, "late"))
        drain(app)
        drain(app, with_scheduled=True)
    assert sorted(received) == [
        ("first", "late"), ("first", "new"), ("newest", "late"), ("newest", "paid"),
        ("once", "new"),
    ]  # fmt: skip


def test_waits_of_a_subscription(migrated_sqlite_url: str) -> None:
    """Between the attempts of its deliveries, as many as it says, in place of its subscriber's."""
    app = Mutirao(migrated_sqlite_url)
    app.include(failing)
    orders = app.topic("order.placed")
    waits: Any = {"own": {"retry": [timedelta(minutes=2), 9]}, "once": {"retry": []}}
    waits |= {"usual": {"limit": Limit(5)}}
    for id, terms in waits.items():
        for task in ("fail", "fail_apart"):
            app.subscriptions.put(f"{id} {task}", task, orders, **terms)
    for raises in ("value", "key"):
        orders.publish({"raises": raises})
    drain(app)
    dead, waiting = Counter[str](), dict[str, float]()
    for job in app.jobs(tag="told"):
        id = job.metadata["subscription"]
        if job.state == "dead":
            dead[id] += 1
        else:
            waiting[id] = (job.run_at - datetime.now(UTC)).total_seconds()
    never = {"own": 1, "once": 2, "usual": 1}  # tried again: a KeyError
    soon, late = pytest.approx(120, abs=20), pytest.approx(3_600, abs=20)
    for task in ("fail", "fail_apart"):
        for id, number in never.items():
            assert dead[f"{id} {task}"] == number
        assert waiting[f"own {task}"] == soon
        assert waiting[f"usual {task}"] == late
    drain(app, with_scheduled=True)
    own = [job for job in app.jobs(tag="told") if job.metadata["subscription"] == "own fail"]
    assert sorted(job.attempt for job in own) == [1, 3]
    app.close()


def test_waits_that_are_none(migrated_sqlite_url: str) -> None:
    """Whoever writes rubbish into a row meets a usual wait."""
    app = Mutirao(migrated_sqlite_url)
    orders = app.topic("order.placed")

    @app.subscriber("fail")
    def fail(event: Event) -> None:
        raise ValueError

    app.subscriptions.put("own", fail, orders, retry=[5])
    with closing(connect(make_url(migrated_sqlite_url).database or "")) as conn, conn:
        conn.execute("UPDATE mutirao_subscription SET options = replace(options, '5', 'true')")
    orders.publish({"raises": "value"})
    drain(app)
    [job] = app.jobs(task="fail")
    assert (job.state, job.error_type) == ("scheduled", "ValueError")
    app.close()


def test_a_row_that_cannot_be(migrated_sqlite_url: str) -> None:
    """The others are told; it is disabled, says why, and gets what it missed once mended."""
    app = Mutirao(migrated_sqlite_url)
    orders = app.topic("order.placed", max_attempts=1)
    note = app.subscriber("a", topic=orders)(lambda event: None)
    app.subscriptions.put("b", note, orders, filter={"id": 1})
    with closing(connect(make_url(migrated_sqlite_url).database or "")) as conn, conn:
        conn.execute("""UPDATE mutirao_subscription SET filter = '{"id": []}' WHERE id = 'b'""")
    publication = orders.publish({"id": 1})
    drain(app)
    [attempt] = app.job(publication.id).attempts
    assert attempt.outcome == "succeeded"
    [unfit] = [each for each in app.subscriptions.list() if not each.active]
    assert (unfit.id, "the filter of subscription 'b'" in str(unfit.unfit)) == ("b", True)
    app.subscriptions.put("b", note, orders, filter={"id": 1})
    app.subscriptions.enable("b")
    assert app.subscriptions.replay("b", since=NOW - timedelta(days=3650), missing=True) == 1
    drain(app)
    assert [job.state for job in app.jobs(task="a")] == ["succeeded"] * 2
    app.close()


@pytest.mark.parametrize(
    ("put", "error", "says"),
    [
        (lambda s, note: s.put("x", note, "order..x"), InvalidTopic, "the topic is 'order..x'"),
        (lambda s, note: s.put("x", note, "*.paid"), InvalidTopic, r"the pattern is '\*.paid'"),
        (lambda s, note: s.put("x", "noet", "a"), UnknownTask, "noet"),
        (lambda s, note: s.put("x", "plain", "a"), InvalidSubscription, "<Task 'plain'"),
        (lambda s, note: s.put("x", print, "a"), InvalidSubscription, "print"),
        (lambda s, note: s.put("x", note.using(key="k"), "a"), InvalidSubscription, "given key"),
        (lambda s, note: s.put("x", note.using(queue=""), "a"), InvalidJob, "queue name"),
        (lambda s, note: s.put("x" * 201, note, "a"), InvalidJob, "has 201 characters"),
        (lambda s, note: s.put("endpoint:x", note, "a"), InvalidSubscription, "app.endpoints"),
        (lambda s, _: s.disable("endpoint:x"), InvalidSubscription, "app.endpoints"),
        (lambda s, _: s.enable("endpoint:x"), InvalidSubscription, "app.endpoints"),
        (lambda s, _: s.remove("endpoint:x"), InvalidSubscription, "app.endpoints"),
        (
            lambda s, note: s.put("x", note, "a", tenant="t" * 10_000),
            InvalidJob,
            "tenant has 10000",
        ),
        (lambda s, note: s.put("x", note, "a", from_=3), InvalidSubscription, "from_ is 3; give"),
        (
            lambda s, note: s.put("x", note, "a", from_=datetime.now(UTC) + timedelta(hours=1)),
            InvalidSubscription,
            "which is ahead; give a moment in the past",
        ),
        (lambda s, _: s.replay("x", since="2h"), InvalidSubscription, "since is"),
        (lambda s, _: s.replay("x", since=NOW, until=NOW), InvalidSubscription, "not after since"),
        (lambda s, _: s.replay("x", "a..b", since=NOW), InvalidTopic, "'a..b'"),
        (lambda s, note: s.put("x", note, "a", filter={}), InvalidSubscription, "the filter is {}"),
        (lambda s, note: s.put("x", note, "a", filter=3), InvalidSubscription, "the filter is 3"),
        (
            lambda s, note: s.put("x", note, "a", filter={"n": {"in": [1, float("nan")]}}),
            InvalidSubscription,
            "cannot be written as JSON: it has NaN or an infinite number",
        ),
        (
            lambda s, note: s.put("x", note, "a", filter={"a": object()}),
            InvalidSubscription,
            "cannot be written as JSON",
        ),
        (
            lambda s, note: s.put("x", note, "a", order_by="a..b"),
            InvalidSubscription,
            "order_by has a field 'a..b'",
        ),
        (
            lambda s, note: s.put("x", note, "a", key="a..b"),
            InvalidSubscription,
            "key has a field 'a..b'",
        ),
        (
            lambda s, note: s.put("x", note, "a", key="a", order_by="a"),
            InvalidSubscription,
            "give one of them",
        ),
        (
            lambda s, note: s.put("x", "loud", "a", key="a"),
            InvalidSubscription,
            "and nobody gets that error",
        ),
        (
            lambda s, note: s.put("x", note, "a", limit=Limit(1, by="tenant")),
            InvalidSubscription,
            "without by and name",
        ),
        (
            lambda s, note: s.put("x", note, "a", limit=[Limit(1), Limit(2)]),
            InvalidSubscription,
            r"one of a period, Limit\(100, per=60\), or both",
        ),
        (
            lambda s, note: s.put("x", note, "a", on_conflict="replace"),
            InvalidSubscription,
            "on_conflict is 'replace', and key is not given",
        ),
        (
            lambda s, note: s.put("x", note, "a", key="k", on_conflict="error"),
            InvalidSubscription,
            "and nobody gets that error",
        ),
        (
            lambda s, note: s.put("x", note, "a", key="k", on_conflict="keeep"),
            InvalidJob,
            "on_conflict is 'keeep'",
        ),
        (
            lambda s, note: s.put("x", note.using(max_attempts=3), "a", retry=[5]),
            InvalidSubscription,
            "leave max_attempts out",
        ),
        (lambda s, note: s.put("x", note, "a", retry=5), InvalidSubscription, "retry is 5; give"),
        (lambda s, note: s.put("x", note, "a", retry=[-1]), InvalidSubscription, "one is -1"),
        (lambda s, note: s.put("x", note, "a", limit=3), InvalidLimit, "limit is 3"),
        (
            lambda s, note: s.put("x", note, "a", when_dead="stop"),
            InvalidSubscription,
            "order_by is not given",
        ),
        (
            lambda s, note: s.put("x", note, "a", order_by="a", when_dead="halt"),
            InvalidSubscription,
            "give 'stop' or 'continue'",
        ),
    ],
)
def test_refused(
    app: Mutirao, put: Callable[[Any, Any], Any], error: type[Exception], says: str
) -> None:
    """By what is put, before anything is written: there is no table."""
    app.task(name="plain")(lambda: None)
    app.subscriber("loud", on_conflict="error")(lambda event: None)
    note = app.subscriber("note")(lambda event: None)
    with pytest.raises(error, match=says):
        put(app.subscriptions, note)


@pytest.mark.parametrize(
    ("kind", "filter", "says"),
    [
        (Order, {"statsu": "paid"}, "asks of statsu, but .* has id, status"),
        (Renamed, {"order_id": 1}, "has orderId, type"),
        (Named, {"order": 1}, "has order_id"),
        (Order, {"id": "seven"}, "'id' that it is 'seven', which it never is in .* got `str`"),
        (Order, {"status.x": "paid"}, "'status' of what is published on .* is str, which has no"),
        (Renamed, {"orderId": {"in": [1, None]}}, "'orderId' that it is None"),
        (Modelled, {"order_id": 1}, "has orderId, secret, status"),
        (Modelled, {"orderId": "seven"}, "'orderId' that it is 'seven', which it never is"),
        (Modelled, {"status": "piad"}, "'status' that it is 'piad', which it never is"),
    ],
)
def test_a_filter_of_what_is_not_there(
    app: Mutirao, kind: Any, filter: dict[str, Any], says: str
) -> None:
    """The topic's type knows its fields and their types, and an application its topics by name."""
    topic = app.topic("order.placed", kind)
    note = app.subscriber("note")(lambda event: None)
    for each in (topic, "order.placed"):
        with pytest.raises(InvalidSubscription, match=says):
            app.subscriber("x", topic=each, filter=filter)(lambda order: None)
        with pytest.raises(InvalidSubscription, match=says):
            app.subscriptions.put("y", note, each, filter=filter)


@pytest.mark.parametrize("what", ["order_by", "key"])
@pytest.mark.parametrize("by_name", [False, True])
def test_an_order_by_a_field_that_is_not_there(app: Mutirao, what: str, by_name: bool) -> None:
    """Likewise."""
    topic = app.topic("order.placed", Order)
    values: Any = {"topic": topic.topic if by_name else topic, what: "statsu"}
    with pytest.raises(InvalidSubscription, match=rf"{what} asks of statsu, but .* has id, status"):
        app.subscriber("x", **values)(lambda order: None)


def test_filters_that_fit(app: Mutirao) -> None:
    """Fields as they are in JSON, and values that JSON has as text."""
    renamed = app.topic("order.renamed", Renamed)
    id = UUID(int=7)
    said = {"orderId": 1, "type": "Renamed"}
    made = app.subscriber("x", topic=renamed, filter=said, tenant="acme")(lambda event: None)
    assert made.subscription is not None
    assert (made.subscription.filter, made.subscription.tenant) == (said, "acme")
    for kind, asked in ((Modelled, {"secret": "7", "orderId": 7}), (Open, {"whatever": 1})):
        model: Any = app.topic(f"order.{kind.__name__}", kind)
        app.subscriber(kind.__name__, topic=model, filter=asked)(lambda event: None)
    other = app.subscriber("y", topic="a", filter={"id": {"in": [id]}})(lambda event: None)
    assert other.subscription is not None
    assert other.subscription.filter == {"id": {"in": [str(id)]}}


def test_publications_that_cannot_be(app: Mutirao) -> None:
    """A topic that is not there; what has not its type; a tenant that is a document."""
    orders = app.topic("order.placed", Order)
    app.topic("invoice.sent")
    assert app.topic_named("order.placed") is orders
    with pytest.raises(UnknownTopic, match=r"'order.palced' .*; do you mean order.placed\?"):
        app.topic_named("order.palced")
    with pytest.raises(UnknownTopic, match=r"there are: order.placed, invoice.sent"):
        app.topic_named("x")
    with pytest.raises(InvalidArguments, match=r"on 'order.placed': .* give a value of Order"):
        orders.publish({"id": "seven"})  # type: ignore[arg-type]
    with pytest.raises(InvalidArguments, match="in JSON it is no object"):
        app.topic_named("invoice.sent").publish([1])
    with pytest.raises(InvalidArguments, match=r"object has no form in JSON, .*; give a dict"):
        app.topic_named("invoice.sent").publish({"x": object()})
    with pytest.raises(InvalidArguments, match="it has NaN or an infinite number"):
        app.topic_named("invoice.sent").publish({"total": [float("nan")]})
    with pytest.raises(InvalidJob, match="the tenant has 10000 characters"):
        orders.publish(Order(1), tenant="t" * 10_000)


def test_who_is_told_is_no_matter_of_defaults() -> None:
    """Those are of handlers: a publication whose deliveries could not be made is tried again."""
    app = Mutirao(retry=Retry.never(), timeout=1)
    usual, own = app.topic("order.placed"), app.topic("order.paid", max_attempts=3, timeout=2)
    assert (usual.terms().retry.max_attempts, usual.terms().timeout) == (20, None)
    assert (own.terms().retry.max_attempts, own.terms().timeout) == (3, 2)
    app.close()


def test_subscribers_that_cannot_be(app: Mutirao) -> None:
    """Two of one id; one that takes what is not told; a name that is said twice."""
    orders = app.topic("order.placed", Order)
    app.subscriber("x", topic=orders)(lambda order: None)
    with pytest.raises(InvalidTask, match=r"the id 'x' is taken: by <Subscriber 'x' of .*another"):
        app.subscriber("x", topic=orders)(lambda order: None)
    with pytest.raises(InvalidSubscription, match="give another id"):
        app.subscriber("endpoint:x", topic=orders)(lambda order: None)
    with pytest.raises(InvalidTask, match=r"'order.placed'> is registered twice; .* app.topic_n"):
        app.topic("order.placed")
    with pytest.raises(InvalidTask, match=r"was given <function .* in place of an id; write"):
        app.subscriber(lambda order: None)  # type: ignore[arg-type]
    with pytest.raises(InvalidTask, match="turns by 'order', which its deliveries do not have"):
        app.subscriber("y", topic=orders, limit=Limit(1, by="order"))(lambda order: None)
    with pytest.raises(InvalidTask, match="it may take one argument"):
        app.subscriber("y", topic=orders)(lambda order, total: None)

    def other(order: int) -> None: ...

    for each in (orders, "order.placed"):
        with pytest.raises(InvalidTask, match="annotate that"):
            app.subscriber("z", topic=each)(other)

    def plain(order: dict[str, Any]) -> None: ...

    app.subscriber("plain", topic=orders)(plain)
    with pytest.raises(InvalidTopic, match="give words of letters"):
        app.topic("order placed")
    with pytest.raises(TypeError, match="leave name= out"):
        app.subscriber("w", topic=orders, name="v")(lambda order: None)
    with pytest.raises(TypeError, match="no option 'tennant'"):
        app.subscriber("v", topic=orders, tennant="acme")(lambda order: None)  # type: ignore[call-arg]

"""Activities through a worker to real servers that are up, down, old, gone and forgetful."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from mutirao import Mutirao, Retry
from mutirao.errors import ConfigurationError, InvalidActivity, InvalidTask, UnknownHost
from mutirao.federation import ActorInbox, Federation, Gone
from mutirao.model.federation.hosts import Host, HostState, fails
from mutirao.testing import drain
from tests.support.federation import (
    INSIDE,
    is_signed,
    signed_text,
    signing_key,
)
from tests.support.waiting import until
from tests.support.webhooks import Peer, serving

pytestmark = pytest.mark.repeats("mysql", decided="tests/conformance/test_mariadb.py")

ACTOR = "http://us.example/actor"


@dataclass
class Remote:
    """A server that answers each request as told, and notes what it has taken."""

    statuses: list[int] = field(default_factory=list)  # then 202
    taken: list[dict[str, Any]] = field(default_factory=list)
    heads: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    async def behave(self, peer: Peer) -> None:
        """Answer what comes on a connection."""
        while True:
            head, _, body = (await peer.request()).partition(b"\r\n\r\n")
            first, *lines = head.decode().split("\r\n")
            pairs = (line.partition(": ") for line in lines)
            self.heads.append((first, {k.lower(): v for k, _, v in pairs}, body))
            status = self.statuses.pop(0) if self.statuses else 202
            if status == 202:
                self.taken.append(json.loads(body))
            await peer.say(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode())

    async def has_taken(self, count: int) -> list[dict[str, Any]]:
        """Return what was taken, once it is so many."""
        await until(lambda: len(self.taken) >= count)
        return self.taken


def activity(kind: str, n: int = 1, content: str = "a", **more: Any) -> dict[str, Any]:
    """Return an activity about note n."""
    note = {"id": f"http://us.example/notes/{n}", "type": "Note", "content": content}
    return {"type": kind, "actor": ACTOR, "object": note, **more}


def federation(app: Mutirao, kind: str = "ed25519", **options: Any) -> Federation:
    """Return a federation that delivers inside, at once."""
    usual = {"window": 0, "guard": INSIDE, "keys": lambda sender: signing_key(kind, sender)}
    return Federation(app, **{**usual, **options})


@asynccontextmanager
async def working(url: str, **options: Any) -> AsyncIterator[tuple[Mutirao, Federation]]:
    """Run an application with a federation and a worker."""
    app = Mutirao(url)
    made = federation(app, **options)
    async with app.worker(queues=["federation"], poll=0.05, concurrency=4):
        yield app, made
    await app.aclose()


async def in_state(app: Mutirao, state: str, count: int) -> None:
    """Wait until so many deliveries are in a state."""

    async def found() -> bool:
        return len(await app.ajobs(task="federation.deliver", state=state)) == count

    await until(found)


def kinds_of(taken: Sequence[dict[str, Any]]) -> list[tuple[str, int, str]]:
    """Return kind, note and content of activities."""
    return [
        (each["type"], int(each["object"]["id"].rpartition("/")[2]), each["object"]["content"])
        for each in taken
    ]


@pytest.mark.parametrize("kind", ["rsa", "ed25519"])
async def test_an_activity_arrives_signed(migrated_sqlite_url: str, kind: str) -> None:
    """Once at each inbox, shared ones once for all; a host that is up has no row."""
    remote = Remote()

    async def expand(url: str) -> list[ActorInbox | str] | None:
        if url != "http://us.example/followers":
            return None
        shared = server.url("/shared")
        return [
            ActorInbox(server.url("/a"), shared),
            ActorInbox(server.url("/b"), shared),
            server.url("/c"),
            "http://b.example:99999/inbox",
        ]

    async with (
        serving(remote.behave) as server,
        working(migrated_sqlite_url, kind=kind, expand=expand) as (app, made),
    ):
        to = ["http://us.example/followers", server.url("/c"), "as:Public"]
        await made.outbox.adeliver(activity("Create"), to=to, sender=ACTOR, tenant="acme")
        await remote.has_taken(2)
        await in_state(app, "succeeded", 2)
        *deliveries, send = await app.ajobs()
        assert {job.tenant for job in (*deliveries, send)} == {"acme"}
        told = (await app.ajob(send.id)).result
        assert (told["inboxes"], "b.example:99999" in told["left_out"][0]) == (2, True)
        [host] = await app.hosts.alist() or [None]
        assert host is None
    assert sorted(first for first, _, _ in remote.heads) == [
        "POST /c HTTP/1.1",
        "POST /shared HTTP/1.1",
    ]
    for first, headers, body in remote.heads:
        where = f"127.0.0.1:{server.port}"
        told = signed_text("POST", where, first.split(" ")[1], headers, body)
        assert is_signed(kind, told, headers["signature"])
        assert headers["content-type"].startswith("application/ld+json")
        assert not any(name.startswith("webhook-") for name in headers)


async def test_a_host_that_is_down_and_comes_back(migrated_url: str) -> None:
    """One request finds out; what waits is coalesced, and goes out in order when it is flushed."""
    remote = Remote(statuses=[503])
    async with serving(remote.behave) as server, working(migrated_url) as (app, made):

        async def send(*activities: dict[str, Any]) -> None:
            for each in activities:
                await made.outbox.adeliver(each, to=[server.url()], sender=ACTOR)

        async def failing() -> bool:
            known = await app.store.federation.host("127.0.0.1")
            return known is not None and known.state is HostState.FAILING

        await send(activity("Create", 1))
        await until(failing)
        await app.hosts.ahold("127.0.0.1")  # so that it is not tried before all is there
        await send(
            activity("Update", 1, "b"),  # the Create may have arrived: both are sent
            *(activity(kind, 2) for kind in ("Create", "Update", "Delete")),
            activity("Create", 3),
            activity("Update", 3, "c"),
            activity("Update", 4, "d"),
            activity("Update", 4, "e"),
        )
        await in_state(app, "cancelled", 5)
        await in_state(app, "blocked", 4)
        [host] = await app.hosts.alist()
        assert (host.name, host.state, host.failures) == ("127.0.0.1", HostState.FAILING, 1)
        assert (host.status, host.waiting, host.dead) == (503, 4, 0)
        assert "answered 503" in (host.error or "")
        assert len(remote.heads) == 1
        await app.hosts.aflush("127.0.0.1")
        await remote.has_taken(4)
        await in_state(app, "succeeded", 4)
        [host] = await app.hosts.alist()
        assert (host.state, host.failures, host.waiting) == (HostState.UP, 0, 0)
        limits = {each.name for each in await app.limits.alist()}
        assert limits == {"task federation.deliver by host"}
    sent = kinds_of(remote.taken)
    assert sorted(sent) == [
        ("Create", 1, "a"), ("Create", 3, "c"), ("Update", 1, "b"), ("Update", 4, "e"),
    ]  # fmt: skip
    assert sent[0] == ("Create", 1, "a")
    assert sent.index(("Create", 1, "a")) < sent.index(("Update", 1, "b"))


async def test_a_window_for_each_host(migrated_sqlite_url: str) -> None:
    """What waits in it is made redundant unsent; a host with none is told at once."""
    remote = Remote()

    def window(host: str) -> float:
        return 0 if host == "127.0.0.1" else 600

    async with (
        serving(remote.behave) as server,
        working(migrated_sqlite_url, window=window) as (app, made),
    ):
        to = [server.url(), "http://b.example/inbox"]
        await made.outbox.adeliver(activity("Create"), to=to, sender=ACTOR)
        await remote.has_taken(1)
        await in_state(app, "scheduled", 1)
        await made.outbox.adeliver(activity("Delete"), to=to, sender=ACTOR)
        await remote.has_taken(2)
        await in_state(app, "cancelled", 2)
    assert [each["type"] for each in remote.taken] == ["Create", "Delete"]


async def test_an_old_host_gets_old_signatures(migrated_sqlite_url: str) -> None:
    """After 401, and from then on at once."""
    remote = Remote(statuses=[401])
    async with serving(remote.behave) as server, working(migrated_sqlite_url) as (app, made):
        await made.outbox.adeliver(activity("Create"), to=[server.url()], sender=ACTOR)
        await in_state(app, "succeeded", 1)
        await made.outbox.adeliver(activity("Update", 1, "b"), to=[server.url()], sender=ACTOR)
        await in_state(app, "succeeded", 2)
        [host] = await app.hosts.alist()
    assert (host.signature, host.state) == ("cavage", HostState.UP)
    assert ["signature-input" in headers for _, headers, _ in remote.heads] == [True, False, False]
    for _, headers, body in remote.heads:
        told = signed_text("POST", f"127.0.0.1:{server.port}", "/hook", headers, body)
        assert is_signed("ed25519", told, headers["signature"])


async def test_an_update_that_says_nothing_new(migrated_url: str) -> None:
    """Is not sent, wherever it comes from; but it is where the last attempt may have arrived."""
    remote = Remote()
    async with serving(remote.behave) as server, working(migrated_url) as (app, made):

        async def send(each: dict[str, Any]) -> None:
            await made.outbox.adeliver(each, to=[server.url()], sender=ACTOR)

        await send(activity("Create", id="http://us.example/1"))
        await in_state(app, "succeeded", 1)
        args = {
            "activity": activity("Update", id="http://us.example/2"),
            "to": [server.url()],
            "sender": ACTOR,
        }
        await _by_sql(app, args)
        await in_state(app, "succeeded", 2)
        assert len(remote.taken) == 1
        remote.statuses = [400]
        await send(activity("Update", 1, "b"))
        await in_state(app, "dead", 1)
        await send(activity("Update", id="http://us.example/3"))
        await in_state(app, "succeeded", 3)
    assert kinds_of(remote.taken) == [("Create", 1, "a"), ("Update", 1, "a")]


async def _by_sql(app: Mutirao, args: dict[str, Any]) -> None:
    """Enqueue what an administrator's form would, in SQL."""
    engine = create_engine(app.store.engines.given)  # type: ignore[attr-defined]
    given = {"task": "federation.send", "args": json.dumps(args)}
    with engine.begin() as conn:
        insert = (
            "SELECT mutirao_enqueue(:task, CAST(:args AS json), 'federation')"
            if engine.dialect.name == "postgresql"
            else "INSERT INTO mutirao_job (task, args, queue) VALUES (:task, :args, 'federation')"
        )
        conn.execute(text(insert), given)
    engine.dispose()


async def test_inboxes_that_are_gone_and_urls_that_are_not_called(
    migrated_sqlite_url: str,
) -> None:
    """The application is told of the first; nothing is tried again."""
    remote, gone = Remote(statuses=[410]), list[Gone]()
    async with (
        serving(remote.behave) as server,
        working(migrated_sqlite_url, on_gone=gone.append) as (app, made),
    ):
        to = [server.url(), "http://10.0.0.1/inbox"]
        await made.outbox.adeliver(activity("Create"), to=to, sender=ACTOR)
        await in_state(app, "dead", 2)
        await until(lambda: gone)
        found = {each.args["host"]: each for each in await app.ajobs(state="dead")}
        assert await app.hosts.alist()
    assert [each.inbox for each in gone] == [server.url()]
    assert "answered 410" in gone[0].reason
    assert "unsafe" in (found["10.0.0.1"].error or "")
    assert len(remote.heads) == 1


async def test_failures_of_a_host_are_counted_together(migrated_sqlite_url: str) -> None:
    """Whichever inbox of it was asked: the errors have one row for what is the same."""
    remote = Remote(statuses=[410] * 3)
    async with (
        serving(remote.behave) as server,
        working(migrated_sqlite_url, on_gone=lambda _: None) as (app, made),
    ):
        inboxes = [server.url(f"/users/{n}/inbox") for n in range(3)]
        await made.outbox.adeliver(activity("Create"), to=inboxes, sender=ACTOR)
        await in_state(app, "dead", 3)
        engine = create_engine(migrated_sqlite_url)
        with engine.connect() as conn:
            found = conn.execute(text("SELECT message, attempts FROM mutirao_errors")).all()
        engine.dispose()
        assert found == [("127.0.0.1 answered 410", 3)]
        [job, *_] = await app.ajobs(state="dead")
        assert (job.error or "").splitlines()[1] in inboxes


async def test_a_host_that_is_unavailable_and_is_heard_from(migrated_sqlite_url: str) -> None:
    """Its deliveries die unsent, and can be sent again once a request of it has been verified."""
    remote = Remote()
    async with serving(remote.behave) as server, working(migrated_sqlite_url) as (app, made):

        async def send(n: int) -> None:
            await made.outbox.adeliver(activity("Create", n), to=[server.url()], sender=ACTOR)

        def lost(was: Host, now: datetime) -> Host:
            long_ago = replace(was, failing_since=now - timedelta(days=31))
            return fails(long_ago, now, long_ago.changed_at)

        await app.store.federation.change_host("127.0.0.1", lost, queue="federation")
        await send(1)
        await in_state(app, "dead", 1)
        assert not remote.heads
        assert not await app.ajobs(task="federation.deliver.on_dead")
        await made.heard_from("http://127.0.0.1/actor")

        async def probed() -> bool:
            known = await app.store.federation.host("127.0.0.1")
            return known is not None and known.state is HostState.FAILING

        await until(probed)
        await send(2)
        await remote.has_taken(1)
        await in_state(app, "succeeded", 1)
        [host] = await app.hosts.alist()
        assert (host.redrivable, host.dead) == (True, 1)
        assert len(await app.hosts.aredrive("127.0.0.1")) == 1
        await remote.has_taken(2)
        await in_state(app, "succeeded", 2)
        await app.hosts.ahold("127.0.0.1")
        await send(3)
        await in_state(app, "blocked", 1)
        assert await app.hosts.aforget("127.0.0.1") == 1
        with pytest.raises(UnknownHost):
            await app.hosts.aforget("127.0.0.2")
        assert await app.hosts.alist() == ()
    assert kinds_of(remote.taken) == [("Create", 2, "a"), ("Create", 1, "a")]


def test_what_cannot_be_delivered_and_what_is_rolled_back(migrated_sqlite_url: str) -> None:
    """Is an error at the caller, or never was."""
    app = Mutirao(migrated_sqlite_url)
    made = federation(app)
    create = activity("Create")
    for wrong, to, message in [
        ({**create, "type": 7}, ["http://b.example/"], "its type is 7"),
        ({**create, "actor": None}, ["http://b.example/"], "it has no actor"),
        ({**create, "id": 7}, ["http://b.example/"], "its id is 7"),
        ({"type": "Undo", "actor": ACTOR, "object": "x"}, ["http://b.example/"], "only names"),
        (create, [], "give a list of URLs"),
        (create, "http://b.example/", "give a list of URLs"),
        (create, ["http:///inbox"], "it is to go to 'http:///inbox'; expected URLs"),
        (create, ["http://b.example:99999/"], "expected URLs"),
        (create, ["http://b.example/\r\nX: 1"], "expected URLs"),
    ]:
        with pytest.raises(InvalidActivity, match=message):
            made.outbox.deliver(wrong, to=to, sender=ACTOR)
    engine = create_engine(migrated_sqlite_url)
    with engine.connect() as conn:
        made.outbox.deliver(create, to=["http://b.example/"], sender=ACTOR, conn=conn)
        conn.rollback()
    engine.dispose()
    assert app.jobs() == []
    for name in ("https://b.example/inbox", "B.example", "b example"):
        with pytest.raises(UnknownHost, match="is no name of a host; give it in small letters"):
            app.hosts.hold(name)
    with pytest.raises(InvalidTask, match="has a Federation already"):
        federation(app)
    app.close()


def test_an_activity_of_plain_sql_that_cannot_be(migrated_sqlite_url: str) -> None:
    """Is dead at once: what is about the same object waits behind it."""
    app = Mutirao(migrated_sqlite_url)
    federation(app)
    send = app.task_named("federation.send").using(key="x", queue="federation")
    for to in (["mailto:bob@b.example"], [], ["http://b.example/"]):
        send.enqueue(activity=activity("Create"), to=to, sender=ACTOR)
    engine = create_engine(migrated_sqlite_url)
    with engine.begin() as conn:
        nul = {"type": "Create", "actor": ACTOR, "object": "a\0"}
        args = {"activity": nul, "to": ["http://b.example/"], "sender": ACTOR}
        insert = "INSERT INTO mutirao_job (task, args, queue) VALUES (:task, :args, 'federation')"
        conn.execute(text(insert), {"task": "federation.send", "args": json.dumps(args)})
    engine.dispose()
    drain(app)
    states = [job.state for job in app.jobs(task="federation.send")]
    assert states == ["dead", "succeeded", "dead", "dead"]
    app.close()


@pytest.mark.parametrize("name", ["keys", "expand", "on_gone"])
def test_what_is_no_function(name: str) -> None:
    """Is refused where the federation is made."""
    wrong: dict[str, Any] = {"keys": print, name: 7}
    with pytest.raises(ConfigurationError, match=f"{name} is 7; give a function"):
        Federation(Mutirao(), **wrong)


def test_its_own_tasks_are_no_matter_of_defaults() -> None:
    """Those are of the application's handlers."""
    app = Mutirao(retry=Retry.never(), timeout=1)
    federation(app)
    send, deliver, probe = (
        app.tasks[f"federation.{name}"].terms() for name in ("send", "deliver", "probe")
    )
    assert (send.retry.max_attempts, probe.retry.max_attempts) == (20, 10_000)
    assert (deliver.retry.max_attempts, deliver.timeout) == (12, None)
    app.close()


def test_starting_twice_makes_one_worker(migrated_sqlite_url: str) -> None:
    """In one process."""
    app = Mutirao(migrated_sqlite_url)
    made = federation(app)
    first = made.start(concurrency=1)
    assert made.start(concurrency=1) is first
    assert len(app.workers()) == 1
    made.stop()
    made.stop()
    assert not first.running
    app.close()

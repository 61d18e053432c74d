"""Federation: hosts with their limits and probes, and the last activities sent to them."""

from datetime import datetime, timedelta

from mutirao.model.federation.activities import Said
from mutirao.model.federation.hosts import (
    DELIVER,
    PROBE,
    Host,
    HostState,
    answers,
    fails,
    is_heard_from,
    probe_is_due,
)
from mutirao.model.jobs.job import NewJob
from mutirao.model.jobs.records import JobFilter
from mutirao.ports import Store
from mutirao_conformance.kit import NOW, at, due, ended, join, put, take

HOST, OTHER = "b.example", "c.example"
QUEUE = "default"
SAID = Said("Create", "0" * 64, 7)


def delivery(host: str = HOST) -> NewJob:
    """Return a delivery to a host."""
    return due(DELIVER, args=f'{{"host": "{host}"}}')


async def fail_host(store: Store, seconds: float = 0) -> None:
    """Make the host fail."""
    known = await store.federation.host(HOST)
    seen = None if known is None else known.changed_at

    def amend(was: Host, now: datetime) -> Host:
        return fails(was, now, seen, status=503, error="down")

    await store.federation.change_host(HOST, amend, queue=QUEUE, now=at(seconds))


class FederationContract:
    """`Store.federation`: `change_host` and what is asked about hosts."""

    async def test_a_host_that_fails_is_waited_for(self, store: Store) -> None:
        """Its deliveries are blocked, others run; the probe lets one through, then all."""
        await put(store, *(delivery() for _ in range(3)), delivery(OTHER))
        worker = await join(store)
        await fail_host(store)
        [claim] = await take(store, worker, limit=10)
        assert OTHER in claim.args
        await store.settle(worker, [ended(claim)], now=NOW)
        [probe] = await store.jobs(JobFilter(task=PROBE))
        assert (probe.args, probe.run_at) == ({"host": HOST}, NOW + timedelta(seconds=10))
        early = await store.federation.change_host(HOST, probe_is_due, queue=QUEUE, now=at(9))
        assert early.most == 0
        await store.federation.change_host(HOST, probe_is_due, queue=QUEUE, now=at(10))
        await take(store, worker, limit=10, now=at(10))
        found = await store.jobs(JobFilter(task=DELIVER, limit=None))
        assert sorted(str(each.state) for each in found) == [
            "blocked", "blocked", "running", "succeeded",
        ]  # fmt: skip
        known = await store.federation.host(HOST)
        assert known is not None
        seen = known.changed_at
        up = await store.federation.change_host(
            HOST, lambda was, now: answers(was, seen), queue=QUEUE, now=at(11)
        )
        assert (up.state, up.failures, await store.limits.listed()) == (HostState.UP, 0, [])
        assert len(await take(store, worker, limit=10, now=at(12))) == 2

    async def test_the_first_of_many_failures_counts(self, store: Store) -> None:
        """Attempts that began before it are ignored; an unchanged state is not written."""
        await fail_host(store)
        before = await store.federation.host(HOST)
        after = await store.federation.change_host(
            HOST, lambda was, now: fails(was, now, None), queue=QUEUE, now=at(1)
        )
        assert after == before
        same = await store.federation.change_host(OTHER, lambda was, now: was, queue=QUEUE)
        assert same == Host(name=OTHER)
        assert await store.federation.host(OTHER) is None
        await fail_host(store, 60)
        known = await store.federation.host(HOST)
        assert known is not None
        assert (known.failures, known.failing_since) == (2, NOW)
        assert known.next_probe == at(60 + 20)
        await fail_host(store, 31 * 86_400)
        known = await store.federation.host(HOST)
        assert known is not None
        assert (known.state, known.next_probe) == (HostState.UNAVAILABLE, None)
        heard = await store.federation.change_host(
            HOST, lambda was, now: is_heard_from(was), queue=QUEUE
        )
        assert (heard.state, heard.most) == (HostState.FAILING, 1)

    async def test_hosts_are_listed_and_forgotten(self, store: Store) -> None:
        """With their deliveries; what waited for one runs."""
        await put(store, delivery(), delivery(OTHER))
        await fail_host(store)
        found = await store.federation.hosts()
        assert [(h.name, h.failures, h.waiting, h.dead) for h in found] == [
            (HOST, 1, 1, 0), (OTHER, 0, 1, 0),
        ]  # fmt: skip
        [known] = await store.federation.hosts(counted=False)
        assert (known.name, known.failures, known.waiting) == (HOST, 1, 0)
        assert [await store.federation.forget_host(HOST) for _ in range(2)] == [True, False]
        assert len(await take(store, await join(store), limit=10)) == 2

    async def test_what_was_said_last(self, store: Store) -> None:
        """Is kept until it is not known any more, or the host is forgotten."""
        for what in (SAID, SAID._replace(kind="Update", job=9)):
            await store.federation.note_said("a" * 64, HOST, what)
            assert await store.federation.said("a" * 64) == what
        await store.federation.unsay("a" * 64)
        assert await store.federation.said("a" * 64) is None
        await store.federation.note_said("b" * 64, HOST, SAID)
        await store.federation.forget_host(HOST)
        assert await store.federation.said("b" * 64) is None

    async def test_what_was_said_long_ago(self, store: Store) -> None:
        """Is forgotten, oldest first, a batch at a time; not what was said again since."""
        for n in (3, 1, 2):
            await store.federation.note_said(f"{n}" * 64, HOST, SAID, now=at(n))
        await store.federation.note_said("1" * 64, HOST, SAID, now=at(10))
        assert await store.federation.prune_said(60.0, 10, now=at(62)) == 0
        assert await store.federation.prune_said(60.0, 1, now=at(64)) == 1
        assert await store.federation.said("2" * 64) is None
        assert await store.federation.prune_said(60.0, 10, now=at(64)) == 1
        assert await store.federation.said("1" * 64) == SAID

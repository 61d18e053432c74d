"""Endpoints: one delivery for each publication, what holds it, and the results of attempts."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from mutirao.errors import InvalidEndpoint
from mutirao.model.jobs.job import Claim, OutcomeKind
from mutirao.model.jobs.outcome import SUCCEEDED, Settlement
from mutirao.model.jobs.records import JobFilter, JobRecord
from mutirao.model.topics.subscriptions import WhenDead
from mutirao.model.topics.topics import task_of
from mutirao.model.webhooks.breakers import BreakerName, BreakerTerms
from mutirao.model.webhooks.endpoints import (
    DISABLED_TOPIC,
    PROBE_TASK,
    USUAL_LIMIT,
    WEBHOOK_QUEUE,
    WEBHOOK_TASK,
    Endpoint,
    EndpointRecord,
)
from mutirao.model.webhooks.webhook_attempts import WebhookAttempt
from mutirao.ports import Store
from mutirao_conformance.kit import at, finish, ids_of, join, take, take_one
from mutirao_conformance.topics import arguments_of, fan_out, publish

SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDazfgh01FGpY="  # noqa: S105 (of no endpoint)
OTHER = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
TERMS = BreakerTerms(failures=2, first_wait=30.0, longest_wait=1_800.0)
SOON, LATER = at(10**9), at(2 * 10**9)  # deliveries are due by the database's clock
ERP, HOST = BreakerName("endpoint", "erp"), BreakerName("host", "example.org")


def endpoint(id: str = "erp", **fields: Any) -> Endpoint:
    """Return an endpoint that wants all orders."""
    usual: dict[str, Any] = {"url": f"https://example.org/{id}", "topics": ("order.*",)}
    return Endpoint(**{"id": id, "secret": SECRET, **usual, **fields})


def attempt(claim: Claim, status: int | None = 200, **fields: Any) -> WebhookAttempt:
    """Return the result of an attempt; without a status, there was no answer."""
    args = arguments_of(claim)
    failure = "silent" if status is None else None
    usual: dict[str, Any] = {
        "job": claim.id, "run": claim.run, "endpoint": args["endpoint"], "host": args["host"],
        "status": status, "milliseconds": 1.5, "failure": failure, "detail": failure, "body": "ok",
        "truncated": False, "address": "192.0.2.1:443", "request_headers": {"Host": "example.org"},
        "ok": status is not None and status < 300,
    }  # fmt: skip
    return WebhookAttempt(**usual | fields)


async def delivered(store: Store, worker: int, count: int = 1) -> list[int]:
    """Publish, and fan out; return the publications."""
    published = []
    for _ in range(count):
        published.append(await publish(store))
        await fan_out(store, await take_one(store, worker))
    return published


async def claimed(store: Store, worker: int, most: int = 100) -> list[Claim]:
    """Claim deliveries that are due; asks twice, as the first look may only park."""
    without = (PROBE_TASK, task_of(DISABLED_TOPIC))
    which: dict[str, Any] = {"now": SOON, "queues": [WEBHOOK_QUEUE], "without": without}
    return await take(store, worker, most, **which) or await take(store, worker, most, **which)


def completion(claim: Claim) -> Settlement:
    """Return what completes a delivery."""
    return Settlement(claim.id, claim.run, SUCCEEDED)


async def came(store: Store, attempts: Iterable[WebhookAttempt], now: Any = SOON) -> None:
    """Record attempts."""
    await store.endpoints.record([*attempts], TERMS, now=now)


async def seen(store: Store, id: str = "erp") -> EndpointRecord:
    """Return an endpoint as it is listed."""
    [found] = [each for each in await store.endpoints.listed() if each.id == id]
    return found


async def of_task(store: Store, task: str) -> list[JobRecord]:
    """Return the jobs of a task, newest first."""
    return await store.jobs(JobFilter(task=task))


async def fail(store: Store, worker: int, claims: list[Claim], status: int | None = 500) -> None:
    """Make attempts fail, to be retried by the policy: not before LATER."""
    await came(store, [attempt(each, status) for each in claims])
    await finish(store, worker, claims, OutcomeKind.DEAD, now=SOON)


class EndpointsContract:
    """An endpoint gets each publication once, and is held as long as it only fails."""

    async def test_one_delivery_however_many_topics_match(self, store: Store) -> None:
        """Its arguments have the target and the payload; nothing is copied."""
        await store.endpoints.put(endpoint(topics=("*", "order.*", "order.placed")))
        await store.endpoints.put(endpoint("acme", tenant="acme"))
        await store.endpoints.put(endpoint("none", topics=("invoice.*",)))
        worker = await join(store)
        [id] = await delivered(store, worker)
        [claim] = await claimed(store, worker)
        args = arguments_of(claim)
        assert (claim.task, args["endpoint"], args["host"]) == (WEBHOOK_TASK, "erp", "example.org")
        assert args["event"]["id"] == id
        assert args["payload"]["order_id"] == 7
        assert (await store.job(claim.id)).args == {"endpoint": "erp", "host": "example.org"}

    async def test_what_is_listed(self, store: Store) -> None:
        """No secret, no header, and of the URL its host."""
        private: dict[str, Any] = {"url": "https://example.org/hide?me"}
        private["headers"] = {"X-Token": "hide me, too"}
        own: dict[str, Any] = {"filter": {"paid": True}, "redirects": 2, "accepts_3xx": True}
        await store.endpoints.put(endpoint(**private, **own, body="payload"))
        found = await seen(store)
        assert (found.host, found.topics, found.signed) == ("example.org", ("order.*",), "standard")
        assert (found.active, found.paused, found.breaker, found.held) == (True, False, "closed", 0)
        assert {name: getattr(found, name) for name in own} == own
        assert (found.body, found.previous_until) == ("payload", None)
        assert "hide" not in repr(found)
        assert SECRET not in repr(found)

    async def test_secrets_are_kept_and_rotated(self, store: Store) -> None:
        """A change of the rest does not need it; a rotation keeps the previous one for long."""
        with pytest.raises(InvalidEndpoint, match="new_secret"):
            await store.endpoints.put(endpoint(secret=None), keep_secret=True)
        await store.endpoints.put(endpoint())
        await store.endpoints.put(endpoint(secret=None, method="PUT"), keep_secret=True)
        assert await store.endpoints.rotate_secret("erp", OTHER, keep=60, now=at(0))
        assert not await store.endpoints.rotate_secret("nobody", OTHER, keep=60)
        [found] = await store.endpoints.to_send(["erp", "nobody"])
        assert isinstance(found, Endpoint)
        assert (found.method, found.secret, found.previous_secret) == ("PUT", OTHER, SECRET)
        assert found.previous_until == (await seen(store)).previous_until == at(60)
        assert await store.endpoints.rotate_secret("erp", SECRET, keep=0)  # by nobody's clock
        [found] = await store.endpoints.to_send(["erp"])
        assert isinstance(found, Endpoint)
        assert (found.secret, found.previous_secret, found.previous_until) == (SECRET, None, None)
        await store.endpoints.put(endpoint(secret=None, signer="hub"))
        with pytest.raises(InvalidEndpoint, match="is signed by 'hub'"):
            await store.endpoints.rotate_secret("erp", SECRET, keep=60)

    async def test_a_paused_endpoint_costs_nothing(self, store: Store) -> None:
        """Deliveries are made and held, and go out in order, whatever was put meanwhile."""
        await store.endpoints.put(endpoint())
        worker = await join(store)
        assert await store.endpoints.pause("erp")
        await store.endpoints.put(endpoint(concurrency=5))
        await delivered(store, worker, 3)
        assert await claimed(store, worker) == []
        assert ((await seen(store)).paused, (await seen(store)).held) == (True, 3)
        assert await store.endpoints.resume("erp")
        held = await claimed(store, worker)
        assert ids_of(held) == sorted(ids_of(held))
        assert len(held) == 3
        assert not await store.endpoints.pause("nobody")
        assert not await store.endpoints.resume("nobody")

    async def test_a_breaker_opens_and_probes(self, store: Store) -> None:
        """Failing deliveries are held; when it is time one is let through, and then all."""
        await store.endpoints.put(endpoint())
        worker = await join(store)
        await delivered(store, worker, 6)
        await fail(store, worker, await claimed(store, worker, 2))
        assert await claimed(store, worker) == []
        found = await seen(store)
        assert (found.breaker, found.held, found.failing_since) == ("open", 4, SOON)
        assert len(await of_task(store, PROBE_TASK)) == 1
        assert not await store.endpoints.probe(ERP, now=at(10**9 + 20))
        assert await store.endpoints.probe(ERP, now=at(10**9 + 40))
        [probe] = await claimed(store, worker)
        assert await claimed(store, worker) == []
        await fail(store, worker, [probe])  # which doubles the wait
        assert not await store.endpoints.probe(ERP, now=at(10**9 + 50))
        assert await store.endpoints.probe(ERP, at_once=True, now=at(10**9 + 50))
        [probe] = await claimed(store, worker)
        await came(store, [attempt(probe)])
        await finish(store, worker, [probe], now=SOON)
        assert len(await claimed(store, worker)) == 2
        assert ((await seen(store)).breaker, (await seen(store)).failing_since) == ("closed", None)

    async def test_what_was_delivered_is_completed_with_its_attempt(self, store: Store) -> None:
        """In one commit; stale ones, and those that concern a breaker, are left to the worker."""
        await store.endpoints.put(endpoint())
        worker = await join(store)
        await delivered(store, worker, 5)
        first, stale, failed, last, free = await claimed(store, worker)
        done = [completion(first), completion(stale)._replace(run=stale.run + 1)]
        attempts = [attempt(each) for each in (first, stale)]
        recorded = await store.endpoints.record(attempts, TERMS, done, now=SOON)
        assert (recorded.acted, set(recorded.settled)) == (False, {first.id})
        assert (await store.job(first.id)).state == "succeeded"
        attempts = [attempt(last), attempt(failed, 500)]
        recorded = await store.endpoints.record(attempts, TERMS, [completion(last)], now=SOON)
        assert (recorded.acted, recorded.settled) == (False, set())
        assert (await store.job(last.id)).state == "running"
        await came(store, [attempt(failed._replace(run=2), 500)])
        for settled in (set(), {free.id}):  # the first success forgets what has failed
            attempts = [attempt(free._replace(run=free.run + len(settled)))]
            recorded = await store.endpoints.record(attempts, TERMS, [completion(free)], now=SOON)
            assert (recorded.acted, set(recorded.settled)) == (False, settled)

    async def test_few_at_first(self, store: Store) -> None:
        """Delivered messages admit more, up to the limit; an open breaker begins with few again."""
        await store.limits.put(replace(USUAL_LIMIT, most=5, start=2))
        await store.endpoints.put(endpoint())
        worker = await join(store)
        await delivered(store, worker, 14)
        rounds = []
        for _ in range(3):
            claims = await claimed(store, worker)
            rounds.append(len(claims))
            done = [completion(each) for each in claims]
            await store.endpoints.record([attempt(each) for each in claims], TERMS, done, now=SOON)
        assert rounds == [2, 2, 4]
        claims = await claimed(store, worker)
        assert len(claims) == 5
        await fail(store, worker, claims)
        assert await store.endpoints.probe(ERP, at_once=True)
        [probe] = await claimed(store, worker)
        await came(store, [attempt(probe)])
        await store.limits.put(replace(USUAL_LIMIT, most=4, start=None))  # as an operator would
        await finish(store, worker, [probe], now=SOON)
        await delivered(store, worker, 3)
        assert len(await claimed(store, worker)) == 2

    async def test_one_that_is_silent_gets_few_again(self, store: Store) -> None:
        """Nothing more goes out while as many are under way; what arrives admits more."""
        await store.limits.put(replace(USUAL_LIMIT, most=5, start=2))
        await store.endpoints.put(endpoint())
        worker = await join(store)
        await delivered(store, worker, 12)
        for number in (2, 2, 4):
            claims = await claimed(store, worker)
            assert len(claims) == number
            done = [completion(each) for each in claims]
            await store.endpoints.record([attempt(each) for each in claims], TERMS, done, now=SOON)
        held = (await claimed(store, worker, 3))[:3]
        await store.endpoints.doubt("erp")
        await store.endpoints.doubt("nobody")
        assert (len(held), await claimed(store, worker)) == (3, [])
        done = [completion(each) for each in held[:2]]
        await store.endpoints.record([attempt(each) for each in held[:2]], TERMS, done, now=SOON)
        assert len(await claimed(store, worker)) == 1

    async def test_whose_breakers_are_open(self, store: Store) -> None:
        """The endpoint's and its host's, but no other's; after a resume one is sent to the host."""
        await store.endpoints.put(endpoint())
        await store.endpoints.put(endpoint("crm", url="https://example.com/crm"))
        worker = await join(store)
        await delivered(store, worker, 4)
        assert await store.endpoints.open_breakers("erp") == []
        mine = [each for each in await claimed(store, worker) if "example.org" in each.args]
        await fail(store, worker, mine, None)
        assert {*await store.endpoints.open_breakers("erp")} == {ERP, HOST}
        assert (
            await store.endpoints.open_breakers("crm")
            == await store.endpoints.open_breakers("nobody")
            == []
        )
        await delivered(store, worker, 2)
        assert not any("example.org" in each.args for each in await claimed(store, worker))
        assert ((await seen(store)).breaker, (await seen(store)).held) == ("open", 2)
        await store.endpoints.resume("erp")
        again = await claimed(store, worker)
        assert len([each for each in again if "example.org" in each.args]) == 1
        assert ((await seen(store)).breaker, (await seen(store)).held) == ("half_open", 1)

    async def test_a_host_that_does_not_answer(self, store: Store) -> None:
        """Its breaker counts for all of its endpoints in total."""
        for id in ("erp", "crm"):
            await store.endpoints.put(endpoint(id))
        worker = await join(store)
        await delivered(store, worker, 2)
        claims = await claimed(store, worker)
        assert len(claims) == 4
        await fail(store, worker, claims, None)
        assert await store.endpoints.probe(HOST, at_once=True)
        assert not await store.endpoints.probe(BreakerName("host", "example.com"), at_once=True)

    async def test_who_asks_to_be_left_alone(self, store: Store) -> None:
        """429 with Retry-After holds the others for as long, and is no failure."""
        await store.endpoints.put(endpoint())
        worker = await join(store)
        await delivered(store, worker, 2)
        [claim] = await claimed(store, worker, 1)
        await came(store, [attempt(claim, 429, hold=90.0)])
        found = await seen(store)
        assert (found.breaker, found.probe_at, found.failing_since) == (
            "open", at(10**9 + 90), None,
        )  # fmt: skip
        assert await claimed(store, worker) == []

    async def test_one_after_another_and_as_often_as_it_says(self, store: Store) -> None:
        """Where an endpoint has an order, and waits between attempts, of its own."""
        own: dict[str, Any] = {"order_by": "order_id", "retry": (1.0, 2.5)}
        own["when_dead"] = WhenDead.CONTINUE
        await store.endpoints.put(endpoint(**own))
        worker = await join(store)
        first, second = await delivered(store, worker, 2)
        [claim] = await claimed(store, worker)
        assert (arguments_of(claim)["event"]["id"], claim.max_attempts) == (first, 3)
        await fail(store, worker, [claim])  # it is dead, and the next one goes on
        [claim] = await claimed(store, worker)
        assert arguments_of(claim)["event"]["id"] == second
        found, [sent] = await seen(store), await store.endpoints.to_send(["erp"])
        assert isinstance(sent, Endpoint)
        for each in (found, sent):
            assert {name: getattr(each, name) for name in own} == own
        await store.endpoints.put(endpoint(retry=()))
        await publish(store)
        await fan_out(store, await take_one(store, worker))
        [claim] = await claimed(store, worker)  # it waits for nobody
        assert claim.max_attempts == 1
        assert (await seen(store)).retry == ()

    async def test_the_last_failure_stays_known(self, store: Store) -> None:
        """Also when it has succeeded since; an attempt's status is shown with its job."""
        await store.endpoints.put(endpoint(whole=7.5))
        worker = await join(store)
        await delivered(store, worker, 2)
        first, second = await claimed(store, worker)
        await came(store, [attempt(first, None, detail="d" * 9_999), attempt(second)])
        found = await seen(store)
        assert (found.connect, found.first_byte, found.whole) == (5.0, 15.0, 7.5)
        assert (str(found.last_failure)[:9], found.failed_at) == ("silent: d", SOON)
        await came(store, [attempt(first._replace(run=9), 503)], now=LATER)
        await came(store, [attempt(second._replace(run=9))], now=LATER)
        found = await seen(store)
        assert (found.last_failure, found.failed_at) == ("answered 503", LATER)
        await finish(store, worker, [first, second], now=SOON)
        assert (await store.job(first.id)).attempts[0].status is None
        assert (await store.job(second.id)).attempts[0].status == 200

    async def test_gone_is_disabled(self, store: Store) -> None:
        """410: no more deliveries are made, those there are held, and a job announces it."""
        await store.endpoints.put(endpoint(tenant="acme"))
        worker = await join(store)
        for _ in range(2):
            await publish(store, tenant="acme")
            await fan_out(store, await take_one(store, worker))
        [claim] = await claimed(store, worker, 1)
        await came(store, [attempt(claim, 410)])
        found = await seen(store)
        assert (found.active, found.disabled_reason) == (False, "it answered 410 Gone")
        assert found.disabled_at == SOON
        [news] = await of_task(store, task_of(DISABLED_TOPIC))
        assert (news.args["endpoint"], news.tenant) == ("erp", "acme")
        await publish(store, tenant="acme")
        await fan_out(store, await take_one(store, worker))
        others = await store.jobs(JobFilter(task=WEBHOOK_TASK))
        assert len(others) == 2
        assert await claimed(store, worker) == []
        await store.endpoints.resume("erp")
        assert (await seen(store)).active
        assert len(await claimed(store, worker)) == 1

    async def test_only_failures_for_days(self, store: Store) -> None:
        """It is disabled, once."""
        await store.endpoints.put(endpoint())
        worker = await join(store)
        await delivered(store, worker, 2)
        first, second = await claimed(store, worker)
        await came(store, [attempt(first, 500)])
        await came(store, [attempt(second, None)], now=at(10**9 + TERMS.disable_after))
        found = await seen(store)
        assert (found.active, found.breaker) == (False, "closed")
        assert len(await of_task(store, task_of(DISABLED_TOPIC))) == 1

    async def test_a_removed_endpoint(self, store: Store) -> None:
        """Nothing of it stays but what waits, which is not held any more."""
        await store.endpoints.put(endpoint(topics=("*", "order.*"), rate=5.0, concurrency=1))
        worker = await join(store)
        await store.endpoints.pause("erp")
        await delivered(store, worker)
        assert await claimed(store, worker) == []
        assert await store.endpoints.remove("erp")
        assert not await store.endpoints.remove("erp")
        assert len(await claimed(store, worker)) == 1
        assert await store.endpoints.listed() == []
        assert await store.limits.listed() == []
        await publish(store)
        await fan_out(store, await take_one(store, worker))
        assert len(await of_task(store, WEBHOOK_TASK)) == 1

    async def test_attempts_are_pruned_with_their_job(self, store: Store) -> None:
        """And a row of one says what was written, whatever the answer had."""
        await store.endpoints.put(endpoint())
        worker = await join(store)
        await delivered(store, worker)
        [claim] = await claimed(store, worker)
        await came(store, [attempt(claim, body="Zoë 😀 \\x00" * 1_000, detail="'; --")])
        await finish(store, worker, [claim], now=SOON)
        assert await store.prune(OutcomeKind.SUCCEEDED, 0.0, 10, now=LATER) >= 1
        await came(store, [attempt(claim)])  # its place is free again

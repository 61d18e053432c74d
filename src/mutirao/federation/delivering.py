"""One delivery: an activity to an inbox, signed when it is sent, and its result."""

from __future__ import annotations

import hashlib
import inspect
import json
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Literal, NamedTuple

from mutirao.errors import InvalidSecret
from mutirao.federation.couriers import Couriers
from mutirao.federation.keys import SigningKey
from mutirao.federation.signing import sign_cavage, sign_rfc9421
from mutirao.model.federation.activities import Said, digest_of, repeats
from mutirao.model.federation.hosts import (
    LONGEST_WAIT,
    RETRIED_AFTER_REFUSAL,
    Amend,
    DeliveryVerdict,
    Host,
    HostState,
    answers,
    asks_for_time,
    fails,
    verdict,
)
from mutirao.model.jobs.job import Job
from mutirao.model.jobs.retry import Cancel, Dead, Retry, Snooze, grown
from mutirao.ports import Store
from mutirao.webhooks import Answer, DeliveryFailure, Timeouts, WebhookRequest

KeyOf = Callable[[str], SigningKey | Awaitable[SigningKey]]
Way = Literal["rfc9421", "cavage"]
_WAYS = {"rfc9421": sign_rfc9421, "cavage": sign_cavage}
_OTHER: dict[Way, Way] = {"rfc9421": "cavage", "cavage": "rfc9421"}
HELD_FOR = 60.0  # seconds until a delivery that was claimed while its host was held looks again
BUSY_FOR = 60.0  # seconds, if a host asks for time without a duration
SHOWN = 300  # characters of an answer, in errors


class InboxGone(Dead):
    """The inbox is not there any more: 404 or 410."""


class HostUnavailable(Dead):
    """The host has failed for 30 days; the delivery may be redriven."""


class ActivityDelivery(NamedTuple):
    """The arguments of a delivery."""

    host: str
    inbox: str
    kind: str
    object: str
    target: str
    sender: str
    activity: Mapping[str, Any]

    @property
    def about(self) -> str:
        """Its subject, as a digest: inbox, object and target."""
        text = json.dumps([self.inbox, self.object, self.target])
        return hashlib.sha256(text.encode()).hexdigest()


class Deliverer:
    """Makes deliveries.

    Parameters:
        store: returns where hosts are kept.
        keys: returns the key that a sender signs with, when it is sent.
        queue: of probes.
    """

    def __init__(
        self,
        store: Callable[[], Store],
        keys: KeyOf,
        couriers: Couriers,
        *,
        queue: str,
        timeouts: Timeouts,
        content_type: str,
        user_agent: str,
    ) -> None:
        self._store, self._keys, self._couriers = store, keys, couriers
        self._queue, self._timeouts = queue, timeouts
        self._headers = {"Content-Type": content_type, "User-Agent": user_agent}

    async def deliver(self, job: Job, what: ActivityDelivery) -> dict[str, Any]:
        """Make one attempt; return the result, or raise the outcome of the job."""
        store = self._store()
        host = await store.federation.host(what.host) or Host(name=what.host)
        _check_open(host)
        last, digest = await store.federation.said(what.about), digest_of(what.activity)
        if repeats(what.kind, digest, last):
            return {"repeats": last.job if last else None}
        if last and job.redrive_of is not None and last.job > job.redrive_of:
            raise Cancel(f"job {last.job} has sent {what.inbox} something newer about it")
        if last:
            await store.federation.unsay(what.about)  # until an answer comes, the result is unknown
        answer, way = await self._send(what, host)
        found = verdict(answer.status, answer.failure is DeliveryFailure.UNSAFE)
        if found is DeliveryVerdict.ARRIVED:
            if what.kind != "Delete":
                await store.federation.note_said(
                    what.about, what.host, Said(what.kind, digest, job.id)
                )
            await self._change(what.host, partial(_answered, seen=host.changed_at, way=way))
            return {"status": answer.status, "ms": round(answer.milliseconds), "signature": way}
        return await self._ended(job, what, host, answer, found)

    async def _ended(
        self, job: Job, what: ActivityDelivery, host: Host, answer: Answer, found: DeliveryVerdict
    ) -> dict[str, Any]:
        """Raise the signal for a job whose activity did not arrive."""
        seen, reason = host.changed_at, _reason(what, answer)
        if found in (DeliveryVerdict.GONE, DeliveryVerdict.REFUSED, DeliveryVerdict.AGAIN):
            if answer.status is not None:
                await self._change(what.host, partial(_answered, seen=seen))
            if found is DeliveryVerdict.GONE:
                raise InboxGone(reason)
            if found is DeliveryVerdict.REFUSED or job.attempt >= RETRIED_AFTER_REFUSAL:
                raise Dead(reason)
            raise Retry(after=grown(60.0, job.attempt - 1, LONGEST_WAIT), reason=reason)
        if found is DeliveryVerdict.BUSY:
            after = answer.retry_after or BUSY_FOR
            await self._change(what.host, lambda was, now: asks_for_time(was, now, seen, after))
            raise Retry(at=job.run_at, reason=reason)
        failure = {
            "status": answer.status,
            "error": " ".join(reason.split("\n")),
            "after": answer.retry_after or 0.0,
        }
        spread = random.uniform(0.9, 1.1)
        now_is = await self._change(
            what.host,
            lambda was, now: fails(was, now, seen, spread=spread, **failure),  # type: ignore[arg-type]
        )
        if now_is.state is HostState.UNAVAILABLE:
            raise HostUnavailable(reason)
        if found is DeliveryVerdict.BROKEN and job.attempt >= RETRIED_AFTER_REFUSAL:
            raise Dead(reason)
        # In its old place, so that what waits goes out in order. Where the host may only dislike
        # this one, others have their turn first.
        at = (
            now_is.next_probe
            if found is DeliveryVerdict.BROKEN and now_is.next_probe
            else job.run_at
        )
        raise Retry(at=at, reason=reason)

    async def _change(self, host: str, amend: Amend) -> Host:
        return await self._store().federation.change_host(host, amend, queue=self._queue)

    async def _send(self, what: ActivityDelivery, host: Host) -> tuple[Answer, Way]:
        """Send it; signed in the other way, too, if the first one is answered with 401."""
        found = self._keys(what.sender)
        key = await found if inspect.isawaitable(found) else found
        if not isinstance(key, SigningKey):
            raise InvalidSecret(
                f"the key of {what.sender!r:.200} is a {type(key).__name__}; give a SigningKey"
            )
        first: Way = "cavage" if host.signature == "cavage" else "rfc9421"
        body = json.dumps(what.activity, ensure_ascii=False).encode()
        request = partial(
            WebhookRequest, what.inbox, body=body, headers=self._headers, timeouts=self._timeouts
        )
        async with self._couriers.one() as courier:
            answer = await courier.deliver_once(request(signer=_WAYS[first](key)))
            if answer.status != 401:
                return answer, first
            other = _OTHER[first]
            return await courier.deliver_once(request(signer=_WAYS[other](key))), other


def _answered(host: Host, now: datetime, *, seen: datetime | None, way: str | None = None) -> Host:
    """Return a host that has answered; `way`: the kind of signature that it has accepted."""
    up = answers(host, seen)
    if way is None or (host.signature or "rfc9421") == way:
        return up
    return replace(up, signature=way)


def _check_open(host: Host) -> None:
    """Raise the signal for a job whose host gets no requests now."""
    if host.state is HostState.UNAVAILABLE:
        raise HostUnavailable(
            f"{host.name} is unavailable; redrive this when it is back\n"
            f"it has failed since {host.failing_since}"
        )
    if host.most == 0:
        reason = f"{host.name} is held" if host.held else f"{host.name} is waited for"
        if host.next_probe is None:
            raise Snooze(HELD_FOR, reason=reason)
        raise Snooze(at=host.next_probe, reason=reason)


def _reason(what: ActivityDelivery, answer: Answer) -> str:
    """Return the result of a request; errors are counted by its first line, with the host."""
    if answer.failure is not None:
        detail = (answer.detail or "").replace(what.inbox, f"{what.host}/…")
        return f"{what.host}: {answer.failure}\n{detail}\n{what.inbox}"[:1_000]
    text = answer.body[:SHOWN].decode("utf-8", "replace").strip()
    return f"{what.host} answered {answer.status}\n{what.inbox}\n{text}".strip()[:1_000]

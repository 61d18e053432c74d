"""The endpoints of an application: `app.endpoints`, where webhooks go.

Each operation has an asynchronous face, which does the work, and a synchronous one that calls it.
"""

import json
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Protocol, Unpack

from mutirao.client import many
from mutirao.client.endpoint_terms import (
    EndpointChange,
    EndpointTerms,
    PutEndpoint,
    Topics,
    changed_endpoint,
    endpoint_of,
)
from mutirao.client.portal import Portal, blocking
from mutirao.errors import InvalidEndpoint, InvalidFilter, UnknownEndpoint
from mutirao.model.jobs.job import MAX_KEY, NewJob
from mutirao.model.jobs.records import JobFilter, Which
from mutirao.model.keys.uniqueness import Unique
from mutirao.model.webhooks.breakers import BreakerName
from mutirao.model.webhooks.endpoints import (
    FIRST,
    PROBE_TASK,
    TEST_TOPIC,
    WEBHOOK_QUEUE,
    WEBHOOK_TASK,
    Endpoint,
    EndpointRecord,
    UnreadableEndpoint,
    check_id,
    subscription_of,
    without_secret,
)
from mutirao.ports import Store
from mutirao.tasks.handle import Handle
from mutirao.tasks.options import Duration, length_of_time

PREVIOUS_KEPT_FOR = timedelta(days=1)
LONGEST_KEPT = 366 * 86_400.0  # seconds
REPLAYED_AT_ONCE = 1_000  # in one transaction
Jobs = list[int]  # their ids


class EndpointsApp(Protocol):
    """The application, as endpoints see it."""

    store: Store

    async def asubmit(self, job: NewJob, conn: object | None = None) -> Handle[Any]:
        """Check a job and write it."""
        ...

    async def aredrive(self, *job_ids: int, **which: Unpack[Which]) -> list[int]:
        """Enqueue finished jobs again."""
        ...


class Endpoints:
    """The endpoints of an application's database."""

    def __init__(self, app: EndpointsApp, portal: Portal) -> None:
        self._app, self._portal = app, portal

    async def aput(
        self, id: str, url: str, topics: Topics, **terms: Unpack[EndpointTerms]
    ) -> Endpoint:
        """Create an endpoint, or replace the one of that id.

        In force within a second. Publications on one of the topics are sent to it from now on,
        once. An existing one stays paused or disabled, and keeps its secret if none is given.

        Parameters:
            id: its name: letters, digits, `_` and `-`.
            url: where it goes.
            topics: a topic or a pattern, or several.
            terms: the fields of `EndpointTerms`. A new endpoint needs `secret` or `signer`.

        Raises:
            InvalidEndpoint, InvalidSecret, InvalidTopic, InvalidSubscription: a value is invalid;
                nothing was written.
            InvalidJob: the tenant or the group is too long, or no text.
            TypeError: an option is unknown.
        """
        endpoint, keeps = endpoint_of({"id": id, "url": url, "topics": topics, **terms})
        await self._app.store.endpoints.put(endpoint, keep_secret=keeps)
        return endpoint

    put = blocking(aput)

    async def aput_many(self, endpoints: Iterable[PutEndpoint]) -> tuple[Endpoint, ...]:
        """Create or replace many endpoints, as `put` does with each; return them.

        All are checked before the first is written. A thousand of them are one transaction, which
        writes all of its thousand or none, with a few statements for those that are new and have
        no limits of their own. If one fails, the thousands before it are written: the same call
        again leaves them as they are.

        Parameters:
            endpoints: of each the parameters of `put`, by name: `{"id": …, "url": …, "topics": …,
                "secret": …}`.

        Raises:
            InvalidEndpoint, InvalidSecret, InvalidTopic, InvalidSubscription: a value of one is
                invalid, or it is given twice.
            InvalidJob: the tenant or the group of one is too long, or no text.
            TypeError: an option is unknown.
        """
        whole = many.checked("endpoint", "id", endpoints, endpoint_of, InvalidEndpoint)
        if len(whole) > many.PUT_AT_ONCE:  # otherwise the transaction reports it
            await self._check_kept([id for id, (_, keeps) in whole.items() if keeps])
        done: list[Endpoint] = []
        for part in many.parts(whole):
            asked = [endpoint for _, (endpoint, _) in part]
            keep = [id for id, (_, keeps) in part if keeps]
            with many.written(done, len(whole)):
                await self._app.store.endpoints.put_all(asked, keep_secrets=keep)
            done += asked
        return tuple(done)

    async def achange(self, id: str, **terms: Unpack[EndpointChange]) -> EndpointRecord:
        """Change options of an endpoint, and return it; those that are not given stay.

        In force within a second. Of two changes at the same time the later one may undo the other.
        With `secret` or `signer` the previous one signs no more: `rotate` keeps it for a while.

        Parameters:
            id: its name.
            terms: the fields of `EndpointChange`: url, topics, and those of `EndpointTerms`.

        Raises:
            UnknownEndpoint: there is none of that id.
            InvalidEndpoint, InvalidSecret, InvalidTopic, InvalidSubscription: the result is
                invalid; nothing was written.
            InvalidJob: the tenant or the group is too long, or no text.
            TypeError: an option is unknown.
        """
        found = await self._app.store.endpoints.to_send([check_id(id)])
        if not found:
            raise _unknown(id)
        if isinstance(found[0], UnreadableEndpoint):
            raise InvalidEndpoint(f"{found[0].reason}; put the endpoint {id!r} anew")
        endpoint, keeps = changed_endpoint(found[0], terms)
        await self._app.store.endpoints.put(endpoint, keep_secret=keeps)
        return await self.aget(id)

    change = blocking(achange)

    async def arotate(self, id: str, secret: str, keep: Duration = PREVIOUS_KEPT_FOR) -> None:
        """Give an endpoint a new secret; the previous one signs beside it for `keep`.

        Parameters:
            id: the endpoint.
            secret: the new one.
            keep: seconds (or a `timedelta`) for which the previous one signs beside it.

        Raises:
            UnknownEndpoint: there is none of that id.
            InvalidSecret: the secret cannot be one.
            InvalidEndpoint: `keep` is below 0 or above a year, or the endpoint has a signer.
        """
        seconds = length_of_time("keep", keep) or 0.0
        if not 0 <= seconds <= LONGEST_KEPT:
            raise InvalidEndpoint(
                f"keep is {keep!r}; give 0 to {LONGEST_KEPT:,.0f} seconds, or a timedelta"
            )
        sample = Endpoint(id=id, url="https://host", topics=("*",), secret=secret)  # checks both
        found = await self._app.store.endpoints.rotate_secret(sample.id, secret, keep=seconds)
        _known(id, found)

    rotate = blocking(arotate)

    async def aget(self, id: str) -> EndpointRecord:
        """Return an endpoint; raise UnknownEndpoint if there is none of that id."""
        for each in await self._app.store.endpoints.listed():
            if each.id == id:
                return each
        raise _unknown(id)

    get = blocking(aget)

    async def apause(self, id: str) -> None:
        """Hold the deliveries to an endpoint; they are made as before.

        Raises:
            UnknownEndpoint: there is none of that id.
        """
        _known(id, await self._app.store.endpoints.pause(check_id(id)))

    pause = blocking(apause)

    async def aresume(self, id: str) -> None:
        """Let all held deliveries to an endpoint out, in order.

        It is not paused or disabled any more, and its breaker is closed. If its host does not
        answer, one goes out first, and the others when it has arrived.

        Raises:
            UnknownEndpoint: there is none of that id.
        """
        _known(id, await self._app.store.endpoints.resume(check_id(id)))

    resume = blocking(aresume)

    async def aprobe(self, id: str) -> bool:
        """Let one delivery through the open breakers of an endpoint now.

        For callers that know that the peer is back. If it succeeds, the others follow. Returns
        whether one is let through: there was an open breaker.

        Raises:
            UnknownEndpoint: there is none of that id.
        """
        endpoint = await self.aget(id)
        names = BreakerName("endpoint", id), BreakerName("host", endpoint.host)
        store = self._app.store
        return any([await store.endpoints.probe(each, at_once=True) for each in names])

    probe = blocking(aprobe)

    async def aheard_from(self, id: str) -> None:
        """Let one delivery through to an endpoint whose breaker is open, by a job of its workers.

        For a program that has verified a request of that peer; `mutirao.webhooks.verify` can call
        it. It costs a read of two rows, and may be called for every request.
        """
        for kind, key in await self._app.store.endpoints.open_breakers(check_id(id)):
            probe = NewJob(
                task=PROBE_TASK,
                queue=WEBHOOK_QUEUE,
                args=json.dumps({"kind": kind, "key": key, "heard": True}),
                priority=FIRST,
                key=f"heard {kind} {key}"[:MAX_KEY],
                unique=Unique(),
            )
            await self._app.asubmit(probe)

    heard_from = blocking(aheard_from)

    async def aremove(self, id: str) -> None:
        """Remove an endpoint; deliveries that wait for it are cancelled when they are due.

        Raises:
            UnknownEndpoint: there is none of that id.
        """
        _known(id, await self._app.store.endpoints.remove(check_id(id)))

    remove = blocking(aremove)

    async def atest(self, id: str) -> Handle[Any]:
        """Send a sample to an endpoint, by a worker, in one attempt.

        Returns the job; it is held if other deliveries are held.

        Raises:
            UnknownEndpoint: there is none of that id.
        """
        endpoint = await self.aget(id)
        event = {
            "id": 0, "topic": TEST_TOPIC, "subscription": subscription_of(id), "attempt": 1,
            "published_at": datetime.now(UTC).isoformat(),
        }  # fmt: skip
        args = {"endpoint": id, "host": endpoint.host, "event": event, "payload": {"sample": True}}
        sample = NewJob(
            task=WEBHOOK_TASK, queue=WEBHOOK_QUEUE, args=json.dumps(args), priority=FIRST,
            max_attempts=1, tenant=endpoint.tenant, group=endpoint.group,
        )  # fmt: skip
        return await self._app.asubmit(sample)

    test = blocking(atest)

    async def areplay(
        self,
        id: str,
        *jobs: int,
        after: datetime | None = None,
        before: datetime | None = None,
        state: Literal["dead", "succeeded"] = "dead",
    ) -> list[int]:
        """Send deliveries to an endpoint again; return the new jobs.

        As new jobs with all their attempts; the webhook's id is the same, so that receivers that
        had it drop it. Without ids, those that were replayed before are left alone.

        Parameters:
            id: the endpoint.
            jobs: the deliveries; without, all in `state` that were made
            after, before: from and until these moments.
            state: how they have ended.

        Raises:
            UnknownEndpoint: there is none of that id.
            NothingToRedrive: none of the named jobs can be sent again; it says why.
            InvalidFilter: a value is invalid.
        """
        await self.aget(id)
        if state not in ("dead", "succeeded"):
            raise InvalidFilter(f"state is {state!r}; give 'dead' or 'succeeded'")
        which: Which = {"task": WEBHOOK_TASK, "args": {"endpoint": id}}
        if jobs:
            return await self._app.aredrive(*jobs, **which)
        which |= {"state": state, "after": after, "before": before, "limit": REPLAYED_AT_ONCE}
        again = await self._app.aredrive(**which)
        if not again:
            return []
        # Deliveries that are made from now on are not sent again: workers may be as fast as this.
        [first] = await self._app.store.jobs(JobFilter(ids=(again[0],)))
        which["before"] = min(before or first.enqueued_at, first.enqueued_at)
        while some := await self._app.aredrive(**which):
            again += some
        return again

    replay = blocking(areplay)

    def put_many(self, endpoints: Iterable[PutEndpoint]) -> tuple[Endpoint, ...]:
        """Create or replace many endpoints, from synchronous code; see `aput_many`::

            app.endpoints.put_many(
                {"id": f"shop-{each.id}", "url": each.url, "topics": ["order.*"],
                 "secret": each.secret, "tenant": each.id}
                for each in shops
            )

        Raises:
            InvalidEndpoint, InvalidSecret, InvalidTopic, InvalidSubscription: a value of one is
                invalid, or it is given twice.
            InvalidJob: the tenant or the group of one is too long, or no text.
            TypeError: an option is unknown.
        """
        return self._portal.call(self.aput_many, tuple(endpoints))

    async def _check_kept(self, ids: Collection[str]) -> None:
        there = {each.id for each in await self._app.store.endpoints.to_send(ids)}
        if unknown := sorted({*ids} - there):
            raise without_secret(unknown)

    async def alist(self) -> tuple[EndpointRecord, ...]:
        """List the endpoints by id, without secrets."""
        return tuple(await self._app.store.endpoints.listed())

    list = blocking(alist)


def _known(id: str, found: bool) -> None:
    if not found:
        raise _unknown(id)


def _unknown(id: str) -> UnknownEndpoint:
    return UnknownEndpoint(
        f"no endpoint is called {id!r}; `mutirao endpoints list` shows those there are"
    )

"""Takes an application's activities: one job in its transaction, for any number of inboxes."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mutirao.errors import InvalidActivity, InvalidJob
from mutirao.federation.delivering import ActivityDelivery
from mutirao.model.federation.activities import PUBLIC_NAMES, host_of, key_of, subject_of
from mutirao.model.jobs.job import Job, NewJob
from mutirao.model.jobs.retry import Dead
from mutirao.tasks.handle import NOT_GIVEN, Handle
from mutirao.tasks.task import Task

MOST_SHOWN = 10  # inboxes that are left out, in a result
MOST_RECIPIENTS = 10_000  # that are named in one call; a collection may have any number


@dataclass(frozen=True, slots=True)
class ActorInbox:
    """The inboxes of an actor.

    Parameters:
        url: the actor's own inbox.
        shared: the one that it has in common with others of its server; it is preferred.
    """

    url: str
    shared: str | None = None


Expanded = Iterable[ActorInbox | str] | None
Expand = Callable[[str], Expanded | Awaitable[Expanded]]


class OutboxApp(Protocol):
    """The application, as an outbox sees it."""

    async def aenqueue_many(self, jobs: Iterable[NewJob], conn: object = NOT_GIVEN) -> list[int]:
        """Write many jobs from a coroutine, all or none; return their ids in order."""
        ...


class Outbox:
    """Takes activities, and makes a delivery of each for each inbox.

    Parameters:
        send: the task that makes the deliveries.
    """

    def __init__(self, send: Task[..., Any]) -> None:
        self._send = send

    def deliver(
        self,
        activity: Mapping[str, Any],
        *,
        to: Sequence[str],
        sender: str,
        conn: object = NOT_GIVEN,
        tenant: str | None = None,
        group: str | None = None,
    ) -> Handle[Any]:
        """Deliver an activity, in the caller's transaction: one job, however many inboxes.

        A worker makes a job for each inbox. Those about one object are delivered to one host in
        the order of these calls.

        Parameters:
            activity: of ActivityStreams, as JSON has it, with `actor`, `type` and `object`.
            to: inboxes, actors and collections; `expand` knows what the last two are.
            sender: the argument of `keys` when it is sent: the actor, or the name of a key.
            conn: the connection or session whose transaction it joins, never committed; if left
                out, a short transaction of its own.
            tenant, group: whose it is; the deliveries have them, too.

        Raises:
            InvalidActivity: it has no type or actor, undoes what it only names, or goes nowhere, or
                to a URL that cannot be.
            InvalidArguments, InvalidJob: JSON or SQL cannot hold it; or tenant or group.
            UnsupportedConnection: `conn` is None, or not one of the accepted kinds.
        """
        key = _checked(activity, to, sender)
        call = self._send.using(conn=conn, key=key, tenant=tenant, group=group)
        return call.enqueue(activity=dict(activity), to=[*to], sender=sender)

    async def adeliver(
        self,
        activity: Mapping[str, Any],
        *,
        to: Sequence[str],
        sender: str,
        conn: object = NOT_GIVEN,
        tenant: str | None = None,
        group: str | None = None,
    ) -> Handle[Any]:
        """Deliver an activity from a coroutine, through an asynchronous `conn` if given.

        Parameters are those of `deliver`.

        Raises:
            InvalidActivity: it has no type or actor, undoes what it only names, or goes nowhere, or
                to a URL that cannot be.
            InvalidArguments, InvalidJob: JSON or SQL cannot hold it; or tenant or group.
            UnsupportedConnection: `conn` is None, or not one of the accepted kinds.
        """
        key = _checked(activity, to, sender)
        call = self._send.using(conn=conn, key=key, tenant=tenant, group=group)
        return await call.aenqueue(activity=dict(activity), to=[*to], sender=sender)


class Sender:
    """Makes deliveries of an activity: the handler of the task that `Outbox` enqueues."""

    def __init__(
        self,
        app: OutboxApp,
        deliver: Task[..., Any],
        expand: Expand | None,
        window: Callable[[str], float],
    ) -> None:
        """Set the parts; `window`: seconds that deliveries to a host wait before they are sent."""
        self._app, self._deliver, self._window = app, deliver, window
        self._expand = expand

    async def send(
        self, job: Job, activity: dict[str, Any], to: list[str], sender: str
    ) -> dict[str, Any]:
        """Enqueue a delivery for each inbox, and complete this job in the same commit.

        An inbox that `expand` gave and that is no URL is left out: it is another's mistake.
        """
        try:
            _checked(activity, to, sender)
            made, unfit = self._deliveries(activity, await self._inboxes(to), sender, job)
            result: dict[str, Any] = {"inboxes": len(made)}
            if unfit:
                result["left_out"] = unfit[:MOST_SHOWN]
            async with job.transaction(session=False) as conn:
                if made:
                    await self._app.aenqueue_many(made, conn=conn)
                job.returns(result)
        except (InvalidActivity, InvalidJob) as wrong:
            # It would fail at every attempt, and others wait behind it.
            raise Dead(str(wrong)) from wrong
        return result

    def _deliveries(
        self, activity: dict[str, Any], inboxes: Sequence[str], sender: str, job: Job
    ) -> tuple[list[NewJob], list[str]]:
        """Return the jobs, and the errors of inboxes; raise one if no inbox is valid."""
        what, made, unfit = subject_of(activity), list[NewJob](), list[str]()
        for inbox in inboxes:
            try:
                host = host_of(inbox)
            except InvalidActivity as wrong:
                unfit.append(str(wrong))
                continue
            delivery = ActivityDelivery(
                host, inbox, what.kind, what.object, what.target, sender, activity
            )
            made.append(self._delivery(delivery, job))
        if unfit and not made:
            raise InvalidActivity(unfit[0])
        return made, unfit

    def _delivery(self, what: ActivityDelivery, job: Job) -> NewJob:
        call = self._deliver.using(
            key=key_of(what.host, what.object),
            delay=self._window(what.host),
            priority=job.priority,
            tenant=job.tenant,
            group=job.group,
        )
        return call.job(**what._asdict())

    async def _inboxes(self, to: Iterable[str]) -> list[str]:
        """Return the inboxes to deliver to, each once, those that are shared in place of others."""
        found: dict[str, None] = {}
        for each in to:
            if each in PUBLIC_NAMES:
                continue
            async for inbox in self._expanded(each):
                found[inbox] = None
        return sorted(found)

    async def _expanded(self, to: str) -> Any:
        found: Any = None if self._expand is None else self._expand(to)
        if inspect.isawaitable(found):
            found = await found
        for inbox in _urls([to] if found is None else found):
            yield inbox


def _urls(inboxes: Iterable[ActorInbox | str]) -> Iterator[str]:
    for each in inboxes:
        yield each if isinstance(each, str) else each.shared or each.url


def _checked(activity: Mapping[str, Any], to: Sequence[str], sender: str) -> str:
    """Return the key of a job that sends an activity."""
    what = subject_of(activity)
    if isinstance(to, str) or not to or not all(isinstance(each, str) for each in to):
        raise InvalidActivity(
            f"the activity is to go to {to!r:.200}; give a list of URLs of inboxes, actors or"
            " collections"
        )
    if len(to) > MOST_RECIPIENTS:
        raise InvalidActivity(
            f"the activity is to go to {len(to):,} URLs; give {MOST_RECIPIENTS:,} at most, or a"
            " collection that `expand` knows"
        )
    for each in to:
        if each.startswith("http"):  # other names `expand` may know
            host_of(each)
    if not sender:
        raise InvalidActivity(f"the sender is {sender!r:.200}; give what `keys` is to be asked for")
    return key_of(what.object)

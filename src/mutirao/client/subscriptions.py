"""The subscriptions of an application's database: `app.subscriptions`.

Each operation has an asynchronous face, which does the work, and a synchronous one that calls it.
`@app.subscriber` declares those of the code (`mutirao.tasks.registration`).
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, Required, Unpack

from mutirao.client import many
from mutirao.client.portal import Portal, blocking
from mutirao.errors import InvalidSubscription, UnknownSubscription
from mutirao.model.jobs.job import NewJob
from mutirao.model.topics.subscriptions import Replay, Subscription, SubscriptionRecord
from mutirao.model.topics.topics import check_topic, task_of
from mutirao.ports import Store
from mutirao.tasks.task import Call, Task
from mutirao.tasks.topics.subscribers import Subscriber
from mutirao.tasks.topics.subscription_change import SubscriptionChange, changed_values
from mutirao.tasks.topics.subscription_options import PutTerms, check_id, subscription_of
from mutirao.tasks.topics.topics import Topic
from mutirao.tasks.validation import check_job

Handler = Subscriber[..., Any] | Call[..., Any] | str
# Options of one call of a task that a subscription cannot have: its deliveries would be one job.
_OF_ONE_CALL = ("key", "run_at", "tenant", "group", "metadata", "traceparent",
                "expires")  # fmt: skip


class PutSubscription(PutTerms, total=False):
    """One of the subscriptions of `put_many`: the parameters of `put`, by name."""

    id: Required[str]
    handler: Required[Handler]
    topic: "Required[str | Topic[Any]]"


class SubscriptionsApp(Protocol):
    """The application, as subscriptions see it."""

    store: Store

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """The registered tasks by name."""
        ...

    def task_named(self, name: str) -> Task[..., Any]:
        """Return a registered task; raise UnknownTask if there is none of that name."""
        ...


class Subscriptions:
    """The subscriptions of an application's database.

    Parameters:
        max_payload: the maximum size of a job's metadata, in bytes of JSON.
    """

    def __init__(self, app: SubscriptionsApp, portal: Portal, max_payload: int) -> None:
        self._app, self._portal, self._max_payload = app, portal, max_payload

    async def aput(
        self, id: str, handler: Handler, topic: "str | Topic[Any]", *,
        from_: datetime | None = None, **terms: Unpack[PutTerms],
    ) -> Subscription:  # fmt: skip
        """Create a subscription, or replace the one of that id; return it.

        In force for each publication that a worker processes from now on. A disabled one stays
        disabled. A change to one that the code declares lasts until the declaration changes.

        Parameters:
            id: its name, of up to 200 characters.
            handler: a subscriber (`@app.subscriber`), or its name, or `subscriber.using(…)` with
                options of the deliveries: queue, priority, delay, max_attempts, timeout, tags.
            topic: a topic, its name, or a pattern such as `order.*`.
            from_: an aware datetime in the past: it also receives publications since then that were
                not pruned and of which it has no delivery.
            tenant: only what is published for this tenant; unless given for any, and for none.
            group: only what is published for this group; unless given for any, and for none.
            filter: fields of publications, each with the value that it equals, `{"in": [values]}`
                or `{"exists": True}`.
            key: a field: of deliveries with the same value in it one waits at most, or runs, by the
                subscriber's options of a key (`on_conflict`, `unique_for`, …).
            on_conflict, unique_for, debounce_limit: replace these options of the key.
            limit: how many of its deliveries run at once, or start in a period; in the whole fleet.
            retry: the waits between the attempts of a delivery, in seconds or as `timedelta`s, of
                which there is one more: `[5, 60, 3600]`; none for one attempt. Unless given those
                of the subscriber, whose `only`, `never` and `by_type` are in force in any case.
            order_by: a field: deliveries with the same value in it run one after another, in the
                order of the publications.
            when_dead: `"stop"` unless given: a dead delivery stops those of its value that come
                after it, until it is redriven; `"continue"`: they are delivered.

        Raises:
            InvalidTopic: it is no topic and no pattern.
            InvalidSubscription: the handler is no subscriber, or the filter is invalid.
            InvalidJob: an option does not fit.
            UnknownTask: the handler is not registered here.
        """
        asked = self._asked(id, handler, topic, terms)
        since = None if from_ is None else _past("from_", from_)
        await self._app.store.subscriptions.put(asked)
        if since is not None:
            await self.areplay(id, since=since, missing=True)
        return asked

    put = blocking(aput)

    async def aput_many(self, subscriptions: Iterable[PutSubscription]) -> tuple[Subscription, ...]:
        """Create or replace many subscriptions, as `aput` does with each; return them.

        All are checked before the first is written. A thousand of them are one transaction, which
        writes all of its thousand or none, with a few statements for those that are new or stay as
        they are, and have no limits of their own. If one fails, the thousands before it are
        written: the same call again changes nothing of them.

        Parameters:
            subscriptions: of each the parameters of `put`, by name, but `from_`:
                `{"id": …, "handler": …, "topic": …}`.

        Raises:
            InvalidTopic: the topic of one is no topic and no pattern.
            InvalidSubscription: the handler of one is no subscriber, its filter is invalid, or it
                is given twice.
            InvalidJob: an option of one does not fit.
            UnknownTask: the handler of one is not registered here.
        """
        whole = many.checked("subscription", "id", subscriptions, self._given, InvalidSubscription)
        done: list[Subscription] = []
        for part in many.parts(whole):
            asked = [each for _, each in part]
            with many.written(done, len(whole)):
                await self._app.store.subscriptions.put_all(asked)
            done += asked
        return tuple(done)

    async def areplay(
        self,
        id: str,
        topic: "str | Topic[Any] | None" = None,
        *,
        since: datetime,
        until: datetime | None = None,
        missing: bool = False,
    ) -> int:
        """Deliver publications to a subscription again; return the number of deliveries.

        They are new deliveries of the same publications, in the order in which these were
        published. Each thousand is one commit. If the call is interrupted, call it with `missing`:
        existing deliveries are not made again.

        Parameters:
            id: the subscription's id; it may be disabled.
            topic: only publications on this topic; all that it receives unless given.
            since: an aware datetime: only publications from then on.
            until: an aware datetime: only publications before it.
            missing: only publications of which the subscription has no delivery, in any state.

        Raises:
            UnknownSubscription: there is none of that id.
            InvalidSubscription: it does not receive that topic, or the times are invalid.
        """
        name = topic.topic if isinstance(topic, Topic) else topic and check_topic(topic)
        first, last = _moment("since", since), until and _moment("until", until)
        if last is not None and last <= first:
            raise InvalidSubscription(f"until is {until}, which is not after since, {since}")
        asked = Replay(subscription=id, topic=name, missing=missing, since=first, until=last)
        part = await self._app.store.subscriptions.replay(asked, 0)
        made = part.deliveries
        while part.last is not None:
            part = await self._app.store.subscriptions.replay(asked, part.last)
            made += part.deliveries
        return made

    replay = blocking(areplay)

    async def achange(self, id: str, **terms: Unpack[SubscriptionChange]) -> SubscriptionRecord:
        """Change options of a subscription, and return it; those that are not given stay.

        In force for each publication that a worker processes from now on. A change to one that the
        code declares lasts until the declaration changes. Its limits are changed by `app.limits`.

        Parameters:
            id: its name.
            terms: the fields of `SubscriptionChange`: topic, tenant, group, filter, order_by,
                when_dead, queue, priority.

        Raises:
            UnknownSubscription: there is none of that id.
            InvalidTopic: it is no topic and no pattern.
            InvalidSubscription: the result is invalid, or it is an endpoint's.
            InvalidJob: an option does not fit.
            TypeError: an option is unknown.
        """
        check_id(id)
        was = await self._record(id)
        topic = self._declared(terms.get("topic", was.topic))
        new = changed_values(was, topic, terms, self._max_payload)
        _check_known(id, await self._app.store.subscriptions.change(id, new))
        return await self._record(id)

    change = blocking(achange)

    async def adisable(self, id: str) -> None:
        """Disable a subscription: publications are not fanned out to it until it is enabled.

        What is published meanwhile is not held; `areplay(…, missing=True)` delivers it later.
        Existing deliveries continue. Disabling twice is harmless.

        Raises:
            UnknownSubscription: there is none of that id.
            InvalidSubscription: it is an endpoint's.
        """
        check_id(id)
        _check_known(id, await self._app.store.subscriptions.set_active(id, False))

    disable = blocking(adisable)

    async def aenable(self, id: str) -> None:
        """Enable a subscription again; publications of the meantime are not delivered.

        Raises:
            UnknownSubscription: there is none of that id.
            InvalidSubscription: it is an endpoint's.
        """
        check_id(id)
        _check_known(id, await self._app.store.subscriptions.set_active(id, True))

    enable = blocking(aenable)

    async def aremove(self, id: str) -> None:
        """Remove a subscription; its deliveries stay.

        If it is declared in code, the next worker that starts creates it again.

        Raises:
            UnknownSubscription: there is none of that id.
            InvalidSubscription: it is an endpoint's.
        """
        check_id(id)
        _check_known(id, await self._app.store.subscriptions.remove(id))

    remove = blocking(aremove)

    async def alist(self) -> tuple[SubscriptionRecord, ...]:
        """List the subscriptions by id."""
        return tuple(await self._app.store.subscriptions.listed())

    list = blocking(alist)

    def put_many(self, subscriptions: Iterable[PutSubscription]) -> tuple[Subscription, ...]:
        """Create or replace many subscriptions, from synchronous code; see `aput_many`::

            app.subscriptions.put_many(
                {"id": f"mail-{each.id}", "handler": mail, "topic": "order.*", "tenant": each.id}
                for each in customers
            )

        Raises:
            InvalidTopic: the topic of one is no topic and no pattern.
            InvalidSubscription: the handler of one is no subscriber, its filter is invalid, or it
                is given twice.
            InvalidJob: an option of one does not fit.
            UnknownTask: the handler of one is not registered here.
        """
        return self._portal.call(self.aput_many, tuple(subscriptions))

    def _given(self, given: PutSubscription) -> Subscription:
        """Return one of many, checked; raises as `put` does."""
        terms: Any = dict(given)
        id, handler, topic = (terms.pop(name, None) for name in ("id", "handler", "topic"))
        return self._asked(id, handler, topic, terms)

    def _asked(
        self, id: str, handler: Handler, topic: "str | Topic[Any]", terms: PutTerms
    ) -> Subscription:
        on = self._declared(topic)
        job = self._job(handler)
        unique = self._app.task_named(job.task).options.unique
        return subscription_of(id, on, job, unique, terms)

    def _declared(self, topic: "str | Topic[Any]") -> "str | Topic[Any]":
        """Return the topic of a name, if it is declared here and knows the type of its payload."""
        known = self._app.tasks.get(task_of(topic)) if isinstance(topic, str) else None
        return known if isinstance(known, Topic) else topic

    async def _record(self, id: str) -> SubscriptionRecord:
        for each in await self._app.store.subscriptions.listed():
            if each.id == id:
                return each
        raise _unknown(id)

    def _job(self, handler: object) -> NewJob:
        """Return the job of each delivery."""
        if isinstance(handler, str):
            handler = self._app.task_named(handler)
        if isinstance(handler, Subscriber):
            handler = handler.using()
        if not isinstance(handler, Call):
            raise _no_subscriber(handler)
        job = handler.template
        if not isinstance(self._app.task_named(job.task), Subscriber):
            raise _no_subscriber(job.task)
        if given := [name for name in _OF_ONE_CALL if getattr(job, name)]:
            raise InvalidSubscription(
                f"the handler of a subscription was given {', '.join(given)}, which is said for one"
                " job, and not for each delivery; leave it out"
            )
        check_job(job, self._max_payload)
        return job


def _moment(what: str, given: object) -> datetime:
    if not isinstance(given, datetime) or given.tzinfo is None:
        raise InvalidSubscription(
            f"{what} is {given!r}; give an aware datetime, such as datetime.now(UTC) -"
            " timedelta(hours=2)"
        )
    return given


def _past(what: str, given: object) -> datetime:
    moment = _moment(what, given)
    if moment > datetime.now(UTC) + timedelta(minutes=1):  # clocks differ
        raise InvalidSubscription(
            f"{what} is {moment}, which is ahead; give a moment in the past. What is published from"
            " now on it receives anyway"
        )
    return moment


def _no_subscriber(handler: object) -> InvalidSubscription:
    return InvalidSubscription(
        f"the handler of a subscription is {handler!r}; give a function with @app.subscriber(…),"
        " its name, or its .using(…)"
    )


def _check_known(id: str, known: bool) -> None:
    if not known:
        raise _unknown(id)


def _unknown(id: str) -> UnknownSubscription:
    return UnknownSubscription(
        f"there is no subscription {id!r}; `mutirao subscriptions list` shows those there are"
    )

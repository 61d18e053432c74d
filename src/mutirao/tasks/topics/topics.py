"""Topics: tasks whose jobs are publications. See `subscribers` for their receivers.

    orders = app.topic("order.placed", OrderPlaced)

    @app.subscriber("reindex", topic=orders) async def reindex(order: OrderPlaced, event: Event) ->
    None: ...

    orders.publish(OrderPlaced(7), conn=session)

A worker makes the deliveries of a publication; the function of its task is never called. The claim
of a delivery has the payload and the topic (`mutirao.ports.subscriptions`).
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from math import inf
from typing import Any, Generic, TypeVar, Unpack

import msgspec

from mutirao.errors import InvalidArguments, WrongState
from mutirao.model.jobs.retry import Retry
from mutirao.model.topics.topics import task_of, topic_of
from mutirao.tasks.handle import NOT_GIVEN, Handle
from mutirao.tasks.options import CallTerms, TaskOptions
from mutirao.tasks.registry import TopicApp as TopicApp
from mutirao.tasks.signatures.conversion import UNFIT, decoder, encoded
from mutirao.tasks.signatures.signature import WholeSignature
from mutirao.tasks.task import Task

T = TypeVar("T", contravariant=True)
OF_PUBLICATIONS = Retry.exponential(20)  # about ten days


class Topic(Task[[Any], None], Generic[T]):
    """A topic: the task whose jobs are the publications on it."""

    taken = (
        "{1} is registered twice; use what the first app.topic(…) returned, or app.topic_named(…)"
    )

    def __init__(self, app: TopicApp, topic: str, kind: Any, options: TaskOptions) -> None:
        """Set the parts; `kind` is the type of the events."""
        super().__init__(app, _delivered, task_of(topic), _patient(options), unannotated=kind)
        self.topic, self.kind, self._many = topic, kind, app
        surroundings = app._surroundings.factories
        self.signature = PublicationSignature(_delivered, self.name, surroundings, kind)

    def __repr__(self) -> str:
        return f"<Topic {self.topic!r}>"

    def publish(
        self, event: T, *, conn: object = NOT_GIVEN, **options: Unpack[CallTerms]
    ) -> Handle[None]:
        """Publish: each subscription to the topic gets one job of it. Return the publication.

        It costs as much as enqueueing one job, however many subscriptions there are. A worker finds
        the matching ones, in the commit that completes the publication.

        Parameters:
            event: a value of the topic's type, which JSON has as an object.
            conn: the connection or session whose transaction it joins, never committed; if left
                out, a short transaction of its own.
            options: the fields of `CallTerms`: delay, priority, key, …

        Raises:
            InvalidArguments: the event does not fit the topic's type; nothing was written.
            InvalidJob: an option does not fit; nothing was written.
            UnsupportedConnection: `conn` is None, or not one of the accepted kinds.
        """
        return self.using(conn=conn, **options).enqueue(event)

    async def apublish(
        self, event: T, *, conn: object = NOT_GIVEN, **options: Unpack[CallTerms]
    ) -> Handle[None]:
        """Publish from a coroutine, through an asynchronous `conn` if given; see `publish`.

        Raises:
            InvalidArguments: the event does not fit the topic's type; nothing was written.
            InvalidJob: an option does not fit; nothing was written.
            UnsupportedConnection: `conn` is None, or not one of the accepted kinds.
        """
        return await self.using(conn=conn, **options).aenqueue(event)

    def publish_many(
        self, events: Iterable[T], *, conn: object = NOT_GIVEN, **options: Unpack[CallTerms]
    ) -> list[int]:
        """Publish many events at once, all or none; return the ids of the publications in order.

        Parameters:
            events: may be a generator: it is consumed once, while they are written.
            conn: the connection or session whose transaction they join.
            options: the fields of `CallTerms`, for each of them.

        Raises:
            InvalidArguments: an event does not fit the topic's type; none was written.
            InvalidJob: an option does not fit; nothing was written.
            UnsupportedConnection: `conn` is None, or not one of the accepted kinds.
        """
        return self._many.enqueue_many(map(self.using(**options).job, events), conn)

    async def apublish_many(
        self, events: Iterable[T], *, conn: object = NOT_GIVEN, **options: Unpack[CallTerms]
    ) -> list[int]:
        """Publish many events at once from a coroutine, all or none; see `publish_many`.

        Raises:
            InvalidArguments: an event does not fit the topic's type; none was written.
            InvalidJob: an option does not fit; nothing was written.
            UnsupportedConnection: `conn` is None, or not one of the accepted kinds.
        """
        return await self._many.aenqueue_many(map(self.using(**options).job, events), conn)


def _patient(options: TaskOptions) -> TaskOptions:
    """Return options of a topic that do not use the application's defaults for handlers.

    Deliveries are made by Mutirão's own code and may be made again; a subscriber that lacks its
    delivery when the publication is given up never gets it.
    """
    retry, timeout = options.retry or OF_PUBLICATIONS, options.timeout or inf
    return replace(options, retry=retry, timeout=timeout)


async def _delivered(event: Any) -> None:
    """Replaces the function of a publication's task; a worker handles publications itself."""
    raise WrongState(
        "a publication was called like a function; its deliveries are made by a worker, or by"
        " mutirao.testing.drain"
    )


class PublicationSignature(WholeSignature):
    """The one parameter of a topic's task: its JSON is the whole of the arguments."""

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return an event as JSON.

        Raises:
            InvalidArguments: it does not fit the topic's type, or is no object in JSON.
        """
        event = self._bound(args, kwargs)["event"]
        try:
            payload = encoded(event)
            self._whole.decode(payload)
        except UNFIT as unfit:
            raise InvalidArguments(
                f"{event!r:.200} cannot be published on {topic_of(self._task)!r}: {unfit}; give"
                f" {self._wanted}"
            ) from None
        if not payload.startswith(b"{"):
            raise InvalidArguments(
                f"{event!r:.200} cannot be published on {topic_of(self._task)!r}: in JSON it is no"
                " object; give a dataclass, a Struct, a model or a dict"
            )
        return payload.decode()

    @property
    def _wanted(self) -> str:
        kind = self._unannotated
        return "a dict" if kind is Any else f"a value of {getattr(kind, '__name__', kind)}"

    @cached_property
    def _whole(self) -> "msgspec.json.Decoder[Any]":
        return decoder(self._readable("event", self._unannotated))

"""Topics and subscribers: tasks whose jobs are publications, and tasks whose jobs are deliveries.

    orders = app.topic("order.placed", OrderPlaced)

    @app.subscriber("reindex", topic=orders)
    async def reindex(order: OrderPlaced, event: Event) -> None: ...

    orders.publish(OrderPlaced(7), conn=session)

A worker makes the deliveries of a publication; nobody calls the function of its task. The claim of
a delivery brings what was published, and where (`mutirao.ports.records_api`).
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from inspect import Parameter
from typing import (
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
    get_origin,
    overload,
)

import msgspec

from mutirao.errors import InvalidArguments, InvalidTask, WrongState
from mutirao.model.job import Job, NewJob
from mutirao.model.topics import (
    MAX_SUBSCRIPTION_ID,
    Event,
    Subscription,
    check_pattern,
    check_topic,
    task_of,
    topic_of,
)
from mutirao.tasks.connection import NOT_GIVEN
from mutirao.tasks.conversion import ENCODER, UNFIT, decoder
from mutirao.tasks.handle import Handle
from mutirao.tasks.options import CallTerms, TaskOptions, TaskTerms
from mutirao.tasks.providing import Factories
from mutirao.tasks.registry import TaskRegistry
from mutirao.tasks.signature import Signature
from mutirao.tasks.task import Task, TaskApp
from mutirao.tasks.validation import check_text

P = ParamSpec("P")
R = TypeVar("R", covariant=True)
T = TypeVar("T", contravariant=True)

_PLAIN = (Any, object, dict, Mapping)


class TopicApp(TaskApp, Protocol):
    """The application, as topics see it."""

    def enqueue_many(self, jobs: Iterable[NewJob], conn: object = NOT_GIVEN) -> list[int]:
        """Write many jobs, all or none; return their ids in order."""
        ...

    async def aenqueue_many(self, jobs: Iterable[NewJob], conn: object = NOT_GIVEN) -> list[int]:
        """Write many jobs from a coroutine, all or none; return their ids in order."""
        ...


class Topic(Task[[Any], None], Generic[T]):
    """A topic: the task whose jobs are the publications on it."""

    def __init__(self, app: TopicApp, topic: str, kind: Any, options: TaskOptions) -> None:
        """Set the parts; `kind` is the type of what is published."""
        super().__init__(app, _delivered, task_of(topic), options, unannotated=kind)
        self.topic, self.kind, self._many = topic, kind, app
        surroundings = app._surroundings.factories
        self.signature = PublicationSignature(_delivered, self.name, surroundings, kind)

    def __repr__(self) -> str:
        return f"<Topic {self.topic!r}>"

    def publish(
        self, event: T, *, conn: object = NOT_GIVEN, **options: Unpack[CallTerms]
    ) -> Handle[None]:
        """Publish: each subscription to the topic gets one job of it. Return the publication.

        It costs what enqueueing one job costs, however many subscriptions there are. Those that
        match are found by a worker, in the commit that completes the publication.

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


async def _delivered(event: Any) -> None:
    """Stand for what a worker does with a publication."""
    raise WrongState(
        "a publication was called like a function; its deliveries are made by a worker, or by"
        " mutirao.testing.drain"
    )


class PublicationSignature(Signature):
    """The one parameter of a topic's task: its JSON is the arguments as a whole."""

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return what is published as JSON.

        Raises:
            InvalidArguments: it does not fit the topic's type, or is no object in JSON.
        """
        event = self._bound(args, kwargs)["event"]
        try:
            payload = ENCODER.encode(event)
            self._whole.decode(payload)
        except UNFIT as unfit:
            raise InvalidArguments(
                f"{event!r:.200} cannot be published on {topic_of(self._task)!r}: {unfit}; give a"
                f" value of {getattr(self._unannotated, '__name__', self._unannotated)}"
            ) from None
        if not payload.startswith(b"{"):
            raise InvalidArguments(
                f"{event!r:.200} cannot be published on {topic_of(self._task)!r}: in JSON it is no"
                " object; give a dataclass, a Struct, a model or a dict"
            )
        return payload.decode()

    def encode_around(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        stands_for: Callable[[object], Any],
    ) -> tuple[str, dict[str, Any]]:
        """Raise InvalidArguments as `encode`: what is published stands for nothing else."""
        return self.encode(args, kwargs), {}

    @cached_property
    def _whole(self) -> "msgspec.json.Decoder[Any]":
        return decoder(self._readable("event", self._unannotated))


class Subscriber(Task[P, R]):
    """A task whose jobs are the deliveries for one subscription, of the same name."""

    def __init__(
        self,
        app: TaskApp,
        function: Callable[..., Any],
        id: str,
        topic: "str | Topic[Any]",
        options: TaskOptions,
    ) -> None:
        """Set the parts. Raises InvalidTopic, or InvalidTask if it takes what is not told."""
        check_text("id of a subscription", id, MAX_SUBSCRIPTION_ID)
        super().__init__(app, function, id, options)
        kind = topic.kind if isinstance(topic, Topic) else Any
        self.topic = topic.topic if isinstance(topic, Topic) else check_pattern(topic)
        told = app._surroundings.factories, self.topic, kind
        self.signature: DeliverySignature = DeliverySignature(function, id, *told)

    def __repr__(self) -> str:
        return f"<Subscriber {self.name!r} of {self.__module__}.{self.__qualname__}>"

    @property
    def subscription(self) -> Subscription:
        """The subscription, as a worker declares it."""
        return Subscription(id=self.name, topic=self.topic, job=self.using().template)


class DeliverySignature(Signature):
    """The parameters of a subscriber: what was published, and `event: Event`, either or both."""

    def __init__(
        self, function: Callable[..., Any], task: str, factories: Factories, topic: str, kind: Any
    ) -> None:
        """Set the parts; `kind` is the type of what is published, if it is known."""
        super().__init__(function, task, factories)
        self._topic, self._kind = topic, kind

    def given_by(self, factories: Factories) -> "DeliverySignature":
        """Return the signature of the same handler with other factories."""
        return type(self)(self._function, self._task, factories, self._topic, self._kind)

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Raise InvalidArguments: nobody enqueues a delivery."""
        raise InvalidArguments(
            f"{self._task!r} is a subscriber: its jobs are made of what is published on"
            f" {self._topic!r}; publish there, or call {self._task}.function in a test"
        )

    def encode_around(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        stands_for: Callable[[object], Any],
    ) -> tuple[str, dict[str, Any]]:
        """Raise InvalidArguments: nobody enqueues a delivery."""
        return self.encode(args, kwargs), {}

    def decide(self, *, with_result: bool = False) -> bool:
        """Check what is known when the subscriber is registered, its parameters first.

        Raises:
            InvalidTask: it takes what no delivery brings.
        """
        whole = super().decide(with_result=with_result)
        hints, unresolved = self._resolved_by_now()
        self._check_parameters(hints, set(unresolved))
        return whole

    def check(self, *, with_result: bool = False) -> None:
        """Raise InvalidTask if a delivery cannot be given to the handler."""
        self._check_parameters(self._hints, set())
        super().check(with_result=with_result)

    def decode(self, payload: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments to call the handler with.

        Raises:
            InvalidArguments: it is no delivery, or does not fit the handler's types.
        """
        if payload == "{}":
            raise InvalidArguments(
                f"this job of {self._task!r} is no delivery, or its publication is not there any"
                " more; a subscriber's jobs are made of what is published"
            )
        return super().decode(payload)

    def _check_parameters(self, hints: Mapping[str, Any], unresolved: set[str]) -> None:
        by_name = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        told = [
            each
            for each in self._after_job(dict(hints))
            if hints.get(each.name) is not Event
            and not self._is_provided(each, hints.get(each.name, Any))
        ]
        if len(told) > 1 or any(each.kind not in by_name for each in told):
            raise InvalidTask(
                f"the subscriber {self._task!r} takes {', '.join(str(each) for each in told)}; it"
                " may take one argument, which is what was published, and `event: Event`"
            )
        for each in told:
            kind = hints.get(each.name, Any)
            plain = {self._kind, kind, get_origin(kind)} & {self._kind, *_PLAIN}
            if each.name not in unresolved and self._kind not in _PLAIN and kind not in plain:
                raise InvalidTask(
                    f"the subscriber {self._task!r} takes {each}, but what is published on"
                    f" {self._topic!r} is {self._kind!r}; annotate that"
                )

    def _decoder_of(self, fields: list[tuple[str, Any, Any]]) -> "msgspec.json.Decoder[Any]":
        told = [
            (name, kind, msgspec.field(name="event" if kind is Event else "payload"))
            for name, kind, _ in fields
        ]
        name = f"{self._task}_delivery"
        return decoder(msgspec.defstruct(name, told, kw_only=True))


class _Subscribing:
    """The return value of `@app.subscriber(…)`, which turns a function into a subscriber."""

    def __init__(
        self, app: TaskApp, id: str, topic: "str | Topic[Any]", options: TaskOptions
    ) -> None:
        self._app, self._id, self._topic, self._options = app, id, topic, options

    @overload
    def __call__(self, function: Callable[Concatenate[Job, P], R], /) -> Subscriber[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Subscriber[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Subscriber[..., Any]:
        task = Subscriber[..., Any](self._app, function, self._id, self._topic, self._options)
        self._app.register(task)
        return task


class TopicRegistry(TaskRegistry, TopicApp, Protocol):
    """The part of an application, or of a blueprint, that has topics and subscribers."""

    @overload
    def topic(self, name: str, kind: type[T], /, **options: Unpack[TaskTerms]) -> Topic[T]: ...
    @overload
    def topic(self, name: str, /, **options: Unpack[TaskTerms]) -> Topic[Any]: ...
    def topic(self, name: str, kind: Any = Any, /, **options: Unpack[TaskTerms]) -> Topic[Any]:
        """Register a topic: `orders = app.topic("order.placed", OrderPlaced)`.

        Parameters:
            name: words of letters, digits, `_` and `-`, with dots between them.
            kind: the type of what is published: a dataclass, a Struct, a model, or any object of
                JSON unless given.
            options: of the task whose jobs are the publications: queue, priority, retry, …

        Raises:
            InvalidTopic: it cannot be called so.
            InvalidTask: there is one of that name, or JSON has no form for the type.
            InvalidJob, InvalidLimit: an option is out of range.
            TypeError: an option is unknown.
        """
        made: Topic[Any] = Topic(self, check_topic(name), kind, _options(options))
        self.register(made)
        return made

    def subscriber(
        self, id: str, /, *, topic: str | Topic[Any], **options: Unpack[TaskTerms]
    ) -> _Subscribing:
        """Subscribe a function to a topic: it runs once for each publication, as a job of its own.

        It may take what was published as its argument, and `event: Event`. When a worker with this
        code starts, it writes the subscription to the database, where it stays until somebody
        removes it.

        Parameters:
            id: the name of the subscription and of its task.
            topic: a topic, its name, or a pattern: `order.*` is each topic that begins with
                `order.`, `*` is any.
            options: of the task: queue, priority, retry, timeout, limit, …

        Raises:
            InvalidTopic: it is no topic and no pattern.
            InvalidTask: the id is taken, or the function takes what no delivery brings.
            InvalidJob, InvalidLimit: an option is out of range.
            TypeError: an option is unknown.
        """
        return _Subscribing(self, id, topic, _options(options))


def subscriptions_of(tasks: Mapping[str, Task[..., Any]]) -> list[Subscription]:
    """Return the subscriptions of those of these tasks that are subscribers."""
    return [task.subscription for task in tasks.values() if isinstance(task, Subscriber)]


def _options(terms: TaskTerms) -> TaskOptions:
    if terms.get("name") is not None:
        raise TypeError("a topic or a subscriber has its name as first argument; leave name= out")
    return TaskOptions.of(terms)

"""Subscribers: tasks whose jobs are deliveries of publications.

The claim of a delivery has the payload and the topic (`mutirao.ports.subscriptions`).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from inspect import Parameter
from typing import Any, Concatenate, ParamSpec, TypeVar, get_origin, overload

import msgspec

from mutirao.errors import InvalidArguments, InvalidSubscription, InvalidTask
from mutirao.model.jobs.job import Job
from mutirao.model.jobs.retry import BackoffFunction, RetryPolicy
from mutirao.model.jobs.waits import wait_after, waits_in
from mutirao.model.limits.limit_values import Whose
from mutirao.model.row_json import read_object
from mutirao.model.topics.subscriptions import Subscription
from mutirao.model.topics.topics import RETRY, SUBSCRIPTION, Event
from mutirao.tasks.around.factories import Factories
from mutirao.tasks.signatures.conversion import decoder
from mutirao.tasks.signatures.signature import WholeSignature
from mutirao.tasks.task import Task, TaskApp
from mutirao.tasks.topics.subscription_options import (
    SubscriberTerms,
    check_id,
    options_of,
    separated,
    subscription_of,
)
from mutirao.tasks.topics.topics import Topic

P = ParamSpec("P")
R = TypeVar("R", covariant=True)

_OWN = f'{{"{SUBSCRIPTION}":'  # the beginning of a delivery's own arguments
_PLAIN = (Any, object, dict, Mapping)


class Subscriber(Task[P, R]):
    """A task whose jobs are the deliveries for one subscription, of the same name."""

    taken = (
        "the id {0!r} is taken: by {1}, and {2} is to have it as well; give one of them another, as"
        " it names the subscription and its task"
    )

    def __init__(
        self,
        app: TaskApp,
        function: Callable[..., Any],
        id: str,
        topic: "str | Topic[Any] | None",
        terms: SubscriberTerms,
    ) -> None:
        """Set the parts.

        Raises:
            InvalidTopic, InvalidSubscription: its topic or its options are invalid.
            InvalidTask: it takes an argument that no event has.
        """
        check_id(id)
        of_task, self._terms = separated(terms)
        super().__init__(app, function, id, options_of(of_task))
        self._check_counted()
        if self.options.expires is not None:
            raise InvalidTask(
                f"the subscriber {id!r} has expires, which its deliveries cannot have; give it to"
                " publish(…): nobody is told of it after that"
            )
        self._topic = topic
        kind = topic.kind if isinstance(topic, Topic) else Any
        own = self.subscription  # checks it
        self.signature: DeliverySignature = DeliverySignature(
            function, id, app._surroundings.factories, None if own is None else own.topic, kind
        )

    def __repr__(self) -> str:
        return f"<Subscriber {self.name!r} of {self.__module__}.{self.__qualname__}>"

    @property
    def subscription(self) -> Subscription | None:
        """The subscription, as a worker declares it; None if only others are made for it."""
        if self._topic is None:
            return None
        terms: Any = {**self._terms, "limit": ()}  # its limits are the task's
        job, unique = self.using().template, self.options.unique
        return subscription_of(self.name, self._topic, job, unique, terms)

    def retry_of(self, args: str, usual: RetryPolicy) -> RetryPolicy:
        """Return the policy of a delivery: its subscription may have waits of its own."""
        if not args.startswith(_OWN):
            return usual
        return replace(usual, backoff=partial(_wait, args, usual.backoff))

    def _check_counted(self) -> None:
        """Raise InvalidTask if deliveries are distinguished by an argument.

        The payload is stored once, in the publication, and read when a delivery is claimed: that is
        after limits have counted it.
        """
        by = [self.options.fair_by, *(each.by for each in self.options.limits)]
        if wrong := [each for each in by if each not in (None, *Whose._fields)]:
            raise InvalidTask(
                f"the subscriber {self.name!r} counts or takes turns by {wrong[0]!r}, which its"
                " deliveries do not have before they run; say tenant or group"
            )


class DeliverySignature(WholeSignature):
    """The parameters of a subscriber: the published event, and `event: Event`, either or both."""

    def __init__(
        self,
        function: Callable[..., Any],
        task: str,
        factories: Factories,
        topic: str | None,
        kind: Any,
    ) -> None:
        """Set the parts; `kind` is the type of the events, if it is known."""
        super().__init__(function, task, factories)
        self._topic, self._kind = topic, kind

    def given_by(self, factories: Factories) -> "DeliverySignature":
        """Return the signature of the same handler with other factories."""
        return type(self)(self._function, self._task, factories, self._topic, self._kind)

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Raise InvalidArguments: deliveries cannot be enqueued."""
        raise InvalidArguments(
            f"{self._task!r} is a subscriber: its jobs are made of what is published on"
            f" {self._topic or 'topics'!r}; publish there, or call {self._task}.function in a test"
        )

    def decide(self, *, with_result: bool = False) -> bool:
        """Check what is known when the subscriber is registered, its parameters first.

        Raises:
            InvalidTask: it takes an argument that no delivery has.
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
        # If its subscription has a limit, a delivery has an argument by which that counts.
        counted = payload.startswith(_OWN) and '"event":{' not in payload
        if payload == "{}" or counted:
            raise InvalidArguments(
                f"this job of {self._task!r} is no delivery, or its publication is not there any"
                " more; a subscriber's jobs are made of what is published"
            )
        return super().decode(payload)

    def _check_parameters(self, hints: Mapping[str, Any], unresolved: set[str]) -> None:
        by_name = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        taken = [
            each
            for each in self._after_job(dict(hints))
            if hints.get(each.name) is not Event
            and not self._is_provided(each, hints.get(each.name, Any))
        ]
        if len(taken) > 1 or any(each.kind not in by_name for each in taken):
            raise InvalidTask(
                f"the subscriber {self._task!r} takes {', '.join(str(each) for each in taken)}; it"
                " may take one argument, which is what was published, and `event: Event`"
            )
        for each in taken:
            kind = hints.get(each.name, Any)
            fits = kind == self._kind or kind in _PLAIN or get_origin(kind) in _PLAIN
            if each.name not in unresolved and self._kind not in _PLAIN and not fits:
                raise InvalidTask(
                    f"the subscriber {self._task!r} takes {each}, but what is published on"
                    f" {self._topic!r} is {self._kind!r}; annotate that"
                )

    def _decoder_of(self, fields: list[tuple[str, Any, Any]]) -> "msgspec.json.Decoder[Any]":
        parts = [
            (name, kind, msgspec.field(name="event" if kind is Event else "payload"))
            for name, kind, _ in fields
        ]
        name = f"{self._task}_delivery"
        return decoder(msgspec.defstruct(name, parts, kw_only=True))


def _wait(args: str, usual: BackoffFunction, attempt: int, error: BaseException | None) -> float:
    """Return the wait of a delivery; only now read from its row, which may contain anything."""
    waits = read_object(args).get(RETRY)
    if waits is None:
        return usual(attempt, error)
    return wait_after(attempt, waits_in(waits, InvalidSubscription))


class Subscribing:
    """The return value of `@app.subscriber(…)`, which turns a function into a subscriber."""

    def __init__(
        self, app: TaskApp, id: str, topic: "str | Topic[Any] | None", terms: SubscriberTerms
    ) -> None:
        self._app, self._id, self._topic, self._terms = app, id, topic, terms

    @overload
    def __call__(self, function: Callable[Concatenate[Job, P], R], /) -> Subscriber[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Subscriber[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Subscriber[..., Any]:
        task = Subscriber[..., Any](self._app, function, self._id, self._topic, self._terms)
        self._app.register(task)
        return task

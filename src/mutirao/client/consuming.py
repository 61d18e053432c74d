"""The consumers of an application: handlers for messages of other programs."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, Unpack, overload

from mutirao.errors import ConfigurationError
from mutirao.model.jobs.job import Job
from mutirao.ports import Transport
from mutirao.tasks.options import TaskTerms
from mutirao.tasks.registry import TaskRegistry
from mutirao.tasks.task import Task

if TYPE_CHECKING:
    from mutirao.model.brokers.foreign import Decode

P = ParamSpec("P")
R = TypeVar("R")


class Decorator(Protocol):
    """Turns a function into a task."""

    @overload
    def __call__(self, function: Callable[Concatenate[Job, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Task[..., Any]:
        """Register a function."""
        ...


class Consuming(TaskRegistry, Protocol):
    """The part of an application that registers consumers."""

    transports: dict[str, Transport]
    decoders: "dict[str, Decode]"

    def consumer(
        self, transport: Transport, /, *, decode: "Decode", **options: Unpack[TaskTerms]
    ) -> Decorator:
        """Register a function that consumes a queue of other programs.

        It becomes a task of a queue by broker alone, which has the name of that queue: with the
        same retries, timeouts and deaths, at least once. A message that cannot be decoded, or does
        not fit the function, is dead with its cause, and not delivered again. Several functions may
        consume one queue, with the same transport and decoder, which then names the task.

        Parameters:
            transport: `RabbitMQ("amqp://…", queue="theirs")`.
            decode: a function from a `ForeignMessage` to the arguments, as a mapping of them by
                name, or to a `Decoded`. It is called in the event loop, and must not wait. There
                are `json_arguments`, `kombu` and `celery` in `mutirao.transports.decoding`.
            options: the fields of `TaskTerms`: name, retry, timeout, …; without `queue`.

        Raises:
            ConfigurationError: the transport consumes no queue of other programs, or another
                consumer has that queue with another transport or decoder.
            InvalidTask, InvalidJob: as `@app.task`.
        """
        queue = getattr(transport, "source", None)
        if queue is None:
            raise ConfigurationError(
                f"@app.consumer was given {transport!r}, which consumes no queue of other programs;"
                ' give RabbitMQ("amqp://…", queue="theirs")'
            )
        if "queue" in options:
            raise ConfigurationError("a consumer's queue is that of its transport; leave queue out")
        known = self.transports.setdefault(queue, transport)
        if known is not transport or self.decoders.setdefault(queue, decode) is not decode:
            raise ConfigurationError(
                f"queue {queue!r} has another transport or decoder already; give all of its"
                " consumers the same"
            )
        chosen: TaskTerms = {**options, "queue": queue}
        return self.task(**chosen)

"""Decodes messages that other programs published, with a decoder of the application.

At worst, an error of a decoder buries its message.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mutirao.engine.calls import outcomes
from mutirao.errors import InvalidArguments
from mutirao.model.brokers.foreign import Decode, Decoded, ForeignMessage
from mutirao.model.brokers.message import Delivery, Message
from mutirao.tasks import job_messages
from mutirao.tasks.task import Task

NO_DECODER = "it is of another program; give @app.consumer a decoder for it"


class Undecodable(Exception):
    """A message that cannot be read; `kind`: the part of the text that many messages share."""

    def __init__(self, problem: str, kind: str | None = None) -> None:
        super().__init__(problem)
        self.kind = kind or problem


class Expired(Exception):
    """A message that has expired; the text says when."""


class Reader:
    """Reads the deliveries of one queue. `decode`: the queue's decoder, if it has one.

    Parameters:
        tasks: all that are registered.
    """

    def __init__(
        self, queue: str, tasks: Mapping[str, Task[..., Any]], decode: Decode | None
    ) -> None:
        self._queue, self._tasks, self._decode = queue, tasks, decode

    def read(self, delivery: Delivery, now: datetime) -> Message:
        """Return the message of a delivery; its `delay` is the time that it still has to wait.

        Raises:
            Undecodable: it is no message and no decoder can read it, or its task cannot take it.
            Expired: it has expired.
        """
        if delivery.message is not None:
            return delivery.message
        foreign = delivery.foreign
        if delivery.problem is not None or foreign is None or self._decode is None:
            raise Undecodable(delivery.problem or NO_DECODER)
        decoded = self._decoded(foreign, self._decode)
        try:
            return self._message(foreign, decoded, now)
        except (Undecodable, Expired):
            raise
        except Exception as error:
            problem = f"what was decoded cannot be used: {type(error).__name__}: {error}"
            raise Undecodable(problem) from error

    def _decoded(self, foreign: ForeignMessage, decode: Decode) -> Decoded:
        try:
            found = decode(foreign)
        except (Exception, SystemExit) as error:
            name, kind = getattr(decode, "__name__", repr(decode)), type(error).__name__
            problem = f"{name} cannot decode it: {kind}: {outcomes.message(error)}"
            raise Undecodable(problem, f"{name} cannot decode it: {kind}") from error
        if isinstance(found, Decoded):
            return found
        if not isinstance(found, Mapping):
            raise Undecodable(
                f"decode returned a {type(found).__name__}; return a mapping of the arguments by"
                " name, or Decoded(…)"
            )
        return Decoded(args=found)

    def _message(self, foreign: ForeignMessage, decoded: Decoded, now: datetime) -> Message:
        if decoded.expires_at is not None and decoded.expires_at <= now:
            raise Expired(f"it has expired at {decoded.expires_at.isoformat()}")
        name = decoded.task or self._only_task()
        wait = 0.0 if decoded.run_at is None else (decoded.run_at - now).total_seconds()
        return Message(
            id=decoded.id or foreign.id,
            task=name,
            args=self._args(name, decoded),
            queue=self._queue,
            attempt=foreign.attempt,
            lost=foreign.lost,
            suspect=foreign.suspect,
            noted=foreign.noted,
            headers={**job_messages.headers_of(decoded), **foreign.kept},
            delay=max(0.0, wait),
        )

    def _args(self, name: str, decoded: Decoded) -> str:
        task = self._tasks.get(name)
        if task is None:
            return "{}"  # it is left to workers that have the task
        try:
            return task.signature.encode(tuple(decoded.positional), dict(decoded.args))
        except InvalidArguments as unfit:
            raise Undecodable(str(unfit), f"its arguments do not fit task {name!r}") from unfit

    def _only_task(self) -> str:
        found = [each for each in self._tasks.values() if each.options.queue == self._queue]
        handlers = [each.dead_handler for each in found]
        names = [each.name for each in found if each not in handlers]
        if len(names) != 1:
            raise Undecodable(
                f"decode names no task, and {len(names)} consume this queue; return"
                " Decoded(task=…), or leave one of them"
            )
        return names[0]

"""The lines of the log about messages, each with the message's id."""

import logging
from enum import Enum
from logging import DEBUG, INFO, WARNING

from mutirao.errors import TransportError
from mutirao.ports.transport import is_for_people

log = logging.getLogger("mutirao.sqs")


class Note(Enum):
    """A line of the log about a message, called with its id, its queue and other fields.

    The id is the message's own, or what SQS calls it where it cannot be read.
    """

    GOT = DEBUG, "got message %s of %s (hand-out %s)"
    LEFT = WARNING, "message %s of %s is left, and comes again: %s"
    STARTED = DEBUG, "message %s of %s started"
    STILL = INFO, "message %s of %s is still worked on, for %.0f s"
    DONE = DEBUG, "message %s of %s done"
    FAILED = INFO, "message %s of %s failed; it comes again in %.0f s"
    DEAD = WARNING, "message %s of %s is dead: %s"
    LOST = WARNING, "message %s of %s is lost to this worker: %s; it comes again"
    NOT_EXTENDED = WARNING, ("message %s of %s was not extended: %s; it is tried again, for %.1f s")

    def __call__(self, id: str, queue: str, *more: object) -> None:
        """Write the line."""
        level, text = self.value
        log.log(level, text, id, queue, *more, extra={"message_id": id, "queue": queue})


class QueueNote(Enum):
    """A line of the log about a queue, called with it and other fields."""

    BROKEN = logging.ERROR, "%s is paused, and tried again until it goes on: %s"
    PAUSED = WARNING, "%s is paused, and tried again until it goes on: %s"
    WAITS = (
        INFO,
        (
            "%s: SQS answers the last request within %.0f s; what it hands out is given back at"
            " once. A shorter SQS(wait=…) ends sooner"
        ),
    )
    GOES_ON = INFO, "%s goes on"

    def __call__(self, queue: str, *more: object) -> None:
        """Write the line."""
        level, text = self.value
        log.log(level, text, queue, *more, extra={"queue": queue})


def paused(queue: str, why: TransportError) -> None:
    """Tell that a queue is not received from for a while; an error is for people to repair."""
    (QueueNote.BROKEN if is_for_people(why) else QueueNote.PAUSED)(queue, why)

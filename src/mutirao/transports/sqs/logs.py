"""The lines of the log about messages, each with the message's id."""

import logging

from mutirao.errors import TransportError
from mutirao.ports.transport import is_for_people

log = logging.getLogger("mutirao.sqs")


class note:  # noqa: N801 (read as words: note.lost(…))
    """What is told of a message. `id`: its own; what SQS calls it where it cannot be read."""

    @staticmethod
    def got(id: str, queue: str, receives: int) -> None:
        """Tell that it was received."""
        log.debug("got message %s of %s (hand-out %s)", id, queue, receives, extra=_of(id, queue))

    @staticmethod
    def left(id: str, queue: str, why: object) -> None:
        """Tell that it was received, and left to come again."""
        log.warning(
            "message %s of %s is left, and comes again: %s",
            *(id, queue, why),
            extra=_of(id, queue),
        )

    @staticmethod
    def started(id: str, queue: str) -> None:
        """Tell that it was handed over, to be worked on."""
        log.debug("message %s of %s started", id, queue, extra=_of(id, queue))

    @staticmethod
    def still(id: str, queue: str, seconds: float) -> None:
        """Tell that it is still worked on."""
        log.info(
            "message %s of %s is still worked on, for %.0f s",
            *(id, queue, seconds),
            extra=_of(id, queue),
        )

    @staticmethod
    def done(id: str, queue: str) -> None:
        """Tell that it is done with, and deleted."""
        log.debug("message %s of %s done", id, queue, extra=_of(id, queue))

    @staticmethod
    def failed(id: str, queue: str, after: float) -> None:
        """Tell that it comes again."""
        log.info(
            "message %s of %s failed; it comes again in %.0f s",
            *(id, queue, after),
            extra=_of(id, queue),
        )

    @staticmethod
    def dead(id: str, queue: str, why: str) -> None:
        """Tell that it was put to the dead."""
        log.warning("message %s of %s is dead: %s", id, queue, why, extra=_of(id, queue))

    @staticmethod
    def lost(id: str, queue: str, why: str) -> None:
        """Tell that it is not ours any more."""
        log.warning(
            "message %s of %s is lost to this worker: %s; it comes again",
            *(id, queue, why),
            extra=_of(id, queue),
        )

    @staticmethod
    def not_extended(id: str, queue: str, why: str, left: float) -> None:
        """Tell that an extension failed, and is tried again."""
        log.warning(
            "message %s of %s was not extended: %s; it is tried again, for %.1f s",
            *(id, queue, why, left),
            extra=_of(id, queue),
        )

    @staticmethod
    def paused(queue: str, why: TransportError) -> None:
        """Tell that a queue is not received from for a while; an error is for people to mend."""
        level = logging.ERROR if is_for_people(why) else logging.WARNING
        log.log(
            level,
            "%s is paused, and tried again until it goes on: %s",
            *(queue, why),
            extra={"queue": queue},
        )

    @staticmethod
    def waits(queue: str, seconds: float) -> None:
        """Tell why stopping takes long."""
        log.info(
            "%s: SQS answers the last request within %.0f s; what it hands out is given back at"
            " once. A shorter SQS(wait=…) ends sooner",
            *(queue, seconds),
            extra={"queue": queue},
        )

    @staticmethod
    def goes_on(queue: str) -> None:
        """Tell that it is received from again."""
        log.info("%s goes on", queue, extra={"queue": queue})


def _of(id: str, queue: str) -> dict[str, str]:
    return {"message_id": id, "queue": queue}

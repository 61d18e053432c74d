"""The library's own logging, of attempts above all. Payloads stay out of it.

Functions of the executor's and no middleware, which would cost every job a generator and a `Job`:
1.4 of 8 µs that the engine takes for one.
"""

import logging
import sys
import traceback
from contextlib import suppress
from time import monotonic
from typing import Any

from mutirao.job import Claim, OutcomeKind
from mutirao.outcome import SUCCEEDED, Outcome

_LEVELS = {
    OutcomeKind.SUCCEEDED: logging.INFO,
    OutcomeKind.SNOOZED: logging.INFO,
    OutcomeKind.RELEASED: logging.INFO,
    OutcomeKind.CANCELLED: logging.INFO,
    OutcomeKind.RETRIED: logging.WARNING,
    OutcomeKind.LOST: logging.WARNING,
    OutcomeKind.DEAD: logging.ERROR,
}


class Log:
    """The logger `mutirao`, as the engine uses it: logging never raises here.

    A program may have a record factory, a filter or a handler that does. A loop must not end by
    that, nor a slot stay occupied, so the message goes to standard error then, with the reason.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self.heeds = logger.isEnabledFor

    def say(self, level: int, message: str, *args: object, **more: Any) -> None:
        """Log at a level, as `logging.Logger.log` does."""
        if not self._logger.isEnabledFor(level):
            return
        try:
            self._logger.log(level, message, *args, stacklevel=3, **more)
        except Exception:  # noqa: BLE001 (told, as far as there is anybody to tell)
            _say_plainly(message, args)

    def debug(self, message: str, *args: object, **more: Any) -> None:
        """Log what interests developers."""
        self.say(logging.DEBUG, message, *args, **more)

    def info(self, message: str, *args: object, **more: Any) -> None:
        """Log what goes as it should."""
        self.say(logging.INFO, message, *args, **more)

    def warning(self, message: str, *args: object, **more: Any) -> None:
        """Log what passes by itself."""
        self.say(logging.WARNING, message, *args, **more)

    def error(self, message: str, *args: object, **more: Any) -> None:
        """Log what somebody has to see to."""
        self.say(logging.ERROR, message, *args, **more)

    def exception(self, message: str, *args: object, **more: Any) -> None:
        """Log an error that is being handled."""
        self.say(logging.ERROR, message, *args, exc_info=True, **more)

    def critical(self, message: str, *args: object, **more: Any) -> None:
        """Log what ends the worker."""
        self.say(logging.CRITICAL, message, *args, **more)


log = Log(logging.getLogger("mutirao"))


def started(claim: Claim) -> None:
    """Log that an attempt starts, at DEBUG."""
    if log.heeds(logging.DEBUG):
        log.debug("job %s (%s) starts", claim.id, claim.task, extra=_fields(claim))


def ended(claim: Claim, outcome: Outcome, since: float) -> None:
    """Log how an attempt ended that started at this monotonic time, at the level it deserves."""
    level = logging.INFO if outcome is SUCCEEDED else _LEVELS[outcome.kind]
    if log.heeds(level):
        duration = monotonic() - since
        log.say(
            level,
            "job %s (%s) %s in %.3f s%s",
            *(claim.id, claim.task, outcome.kind, duration, _why(outcome)),
            extra=_fields(claim) | {"duration": duration, "outcome": str(outcome.kind)},
        )


def _fields(claim: Claim) -> dict[str, Any]:
    return {
        "job": claim.id,
        "task": claim.task,
        "queue": claim.queue,
        "attempt": claim.attempt,
        "run": claim.run,
    }


def _why(outcome: Outcome) -> str:
    if outcome.error is None:
        return ""
    return f": {outcome.error_type}: {outcome.error.partition(chr(10))[0]}"


def _say_plainly(message: str, args: tuple[object, ...]) -> None:
    with suppress(Exception):  # there is nobody left to tell
        sys.stderr.write(f"mutirao: {message % args}\n(logging failed: {traceback.format_exc()})\n")

"""The reaction of a loop to an error of the store: how long it waits, and when it gives up.

An error that passes is waited out, for as long as it takes. An error that does not pass by itself
is retried for a while, because somebody may be changing the schema; then a loop that the worker
cannot do without ends, and the worker with it. A loop whose work other workers do as well continues
forever.
"""

from collections.abc import Callable
from logging import DEBUG, ERROR, WARNING
from math import inf
from time import monotonic
from typing import Literal

from mutirao.aio import Backoff
from mutirao.errors import (
    SchemaError,
    StoreGone,
    StoreUnavailable,
    TransportError,
    TransportUnavailable,
)
from mutirao.log import log
from mutirao.ports.transport import is_for_people

Once = Literal["outage", "text"]
MOST_TEXTS = 20  # of an outage that are warnings
REPEAT_EVERY = 60.0  # seconds after which what people have to mend is an error again


class Trouble:
    """The errors of one loop.

    Parameters:
        what: what fails, such as "cannot claim".
        back: the log message when it succeeds again, such as "claiming again".
        longest: the longest wait between two tries, in seconds.
        patience: seconds after which an error that does not pass is raised; None: never.
        who: what is away meanwhile, for the log; None: a success does not tell that it is back.
        once: which of several failures is a warning: the first one of an outage, or the first one
            of each text; None: all of them.

    What people have to mend is an error, again each minute: what a broker refuses until then, or,
    with a traceback, what the database does. `unmended` says what the former is, while it is the
    last thing that was met.
    """

    def __init__(
        self,
        what: str,
        back: str,
        longest: float,
        patience: float | None = None,
        *,
        who: str | None = "database",
        once: Once | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._what, self._back, self._patience = what, back, patience
        self._who, self._once = who, once
        self._backoff = Backoff(longest)
        self._told: dict[str, float] = {}  # what failures of this outage have said, and when
        self._clock = clock
        self.unmended: str | None = None
        self._since: float | None = None  # since when all errors were ones that do not pass

    @property
    def failing(self) -> bool:
        """Whether there was an error, and no success since."""
        return self._backoff.failing

    def over(self) -> None:
        """Record a success, and log it after errors."""
        if self.forget():
            who = "" if self._who is None else f"the {self._who} is back; "
            log.warning("%s%s", who, self._back)

    def forget(self) -> bool:
        """Record a success; return whether there had been errors."""
        self._since = self.unmended = None
        self._told.clear()
        return self._backoff.reset()

    def met(self, error: Exception) -> float:
        """Log an error, and return the seconds to wait before the next try.

        Raises:
            Exception: the error, if it does not pass.
        """
        if isinstance(error, StoreGone | SchemaError):
            raise error
        broken = is_for_people(error)
        passes = isinstance(error, StoreUnavailable | TransportUnavailable)
        self.unmended = f"{self._what}: {error}" if broken else None
        told = self._was_told(str(error), REPEAT_EVERY if broken else inf)
        level = DEBUG if told else WARNING if passes and not broken else ERROR
        wait = self._backoff.next()
        if passes or isinstance(error, TransportError):  # a broker's: people mend it
            self._since = None
            then = "trying again" if self._once else f"again in {wait:.1f} s"
            log.say(level, "%s: %s; %s", self._what, error, then)
            return wait
        self._lose_patience(error)
        level = DEBUG if self._was_lately(str(error), REPEAT_EVERY) else ERROR
        log.say(level, "%s; again in %.1f s", self._what, wait, exc_info=error)
        return wait

    def _was_told(self, text: str, again_after: float) -> bool:
        """Return whether an outage has had such a failure lately; remember this one."""
        if self._once is None:
            return False
        return self._was_lately(text if self._once == "text" else "", again_after)

    def _was_lately(self, what: str, again_after: float) -> bool:
        now, before = self._clock(), self._told.get(what)
        if before is None and len(self._told) == MOST_TEXTS:
            return True
        if before is not None and now - before < again_after:
            return True
        self._told[what] = now
        return False

    def _lose_patience(self, error: Exception) -> None:
        now = monotonic()
        if self._since is None:
            self._since = now
        elif self._patience is not None and now - self._since > self._patience:
            raise error

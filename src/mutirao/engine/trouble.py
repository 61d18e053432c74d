"""What a loop does about an error of the store: how long it waits, and when it gives up.

What passes is waited out, for as long as it takes. What does not pass by itself is tried again for
a while, as somebody may be changing the schema; a loop without which the worker serves nothing
ends then, and the worker with it. A loop that others do as well goes on for ever.
"""

from time import monotonic

from mutirao.engine.backoff import Backoff
from mutirao.engine.logs import log
from mutirao.errors import SchemaError, StoreGone, StoreUnavailable


class Trouble:
    """The troubles of one loop.

    Parameters:
        what: what does not go well, such as "cannot claim".
        back: what is told when it does again, such as "claiming again".
        longest: the longest wait between two tries, in seconds.
        patience: seconds after which an error that does not pass is raised; None: it never is.
    """

    def __init__(self, what: str, back: str, longest: float, patience: float | None = None) -> None:
        self._what, self._back, self._patience = what, back, patience
        self._backoff = Backoff(longest)
        self._since: float | None = None  # since when nothing else came than what does not pass

    def over(self) -> None:
        """Note that it went well."""
        self._since = None
        if self._backoff.reset():
            log.warning("the database is back; %s", self._back)

    def met(self, error: Exception) -> float:
        """Tell of an error, and return the seconds to wait before the next try.

        Raises:
            Exception: the error, if it does not pass.
        """
        if isinstance(error, StoreGone | SchemaError):
            raise error
        wait = self._backoff.next()
        if isinstance(error, StoreUnavailable):
            self._since = None
            log.warning("%s: %s; again in %.1f s", self._what, error, wait)
            return wait
        self._lose_patience(error)
        log.error("%s; again in %.1f s", self._what, wait, exc_info=error)
        return wait

    def _lose_patience(self, error: Exception) -> None:
        now = monotonic()
        if self._since is None:
            self._since = now
        elif self._patience is not None and now - self._since > self._patience:
            raise error

"""What is kept of each attempt to deliver a webhook, and the settings of who sends them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mutirao.errors import ConfigurationError
from mutirao.model.webhooks.breakers import BreakerTerms

GONE = 410  # the endpoint is to be disabled, by Standard Webhooks
ASKS_TO_WAIT = (429, 503)
LONGEST_SUMMARY = 500  # characters of the last failure of an endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookAttempt:
    """One attempt; the fields are columns of `mutirao_webhook_attempt`, but for the last two.

    Parameters:
        job, run: of which job, in which run.
        endpoint, host: where it went.
        status: of the answer; None if there was none.
        milliseconds: how long it took.
        failure: the class of the error, if there was no whole answer.
        detail: its words.
        body: the first 16 kB of the answer, as text.
        truncated: whether there was more.
        address: that was connected to.
        request_headers: what was sent, `***` for what may be secret.
        ok: whether it counts as a success.
        hold: seconds for which the server asked to be left alone; None if it did not.
    """

    job: int
    run: int
    endpoint: str
    host: str
    status: int | None
    milliseconds: float
    failure: str | None
    detail: str | None
    body: str = field(repr=False)
    truncated: bool
    address: str | None
    request_headers: Mapping[str, str] = field(repr=False)
    ok: bool
    hold: float | None = None

    @property
    def summary(self) -> str:
        """What came of it, in a line."""
        if self.failure is None:
            return f"answered {self.status}"
        return f"{self.failure}: {self.detail}"[:LONGEST_SUMMARY]

    @property
    def answered(self) -> bool:
        """Whether the host has said anything whole, be it an error; or was not asked at all."""
        return self.failure in (None, "unsafe")


class Recorded(NamedTuple):
    """What came of writing attempts.

    `acted`: whether a breaker has opened or closed, or an endpoint was disabled. `settled`: the
    jobs that were completed, a `Settled` where that made others ready.
    """

    acted: bool
    settled: set[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """How a worker delivers webhooks.

    Parameters:
        schemes: of `https` and `http`, which URLs may have.
        ports: that may be called.
        networks: that are delivered to although they are not public, such as `10.1.0.0/16`.
        ca: a file of certificates to trust besides the system's; None: only those.
        connections: open at most, to all servers in sum. Those beyond the worker's slots are for
            what waits for silent servers, and leaves its slots to others meanwhile.
        breakers: when deliveries to an endpoint or host are held.
    """

    schemes: Collection[str] = ("https",)
    ports: Collection[int] = (80, 443)
    networks: Collection[str] = ()
    ca: str | None = None
    connections: int = 250  # more than slots: who waits for one may run out of time
    breakers: BreakerTerms = field(default_factory=BreakerTerms)

    def __post_init__(self) -> None:
        if self.connections < 1:
            raise ConfigurationError(
                f"connections is {self.connections!r}; give a whole number of 1 or more"
            )

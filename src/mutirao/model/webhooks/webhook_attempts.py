"""The record of each attempt to deliver a webhook, and the settings of workers that send them."""

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
        job, run: the job and its run.
        endpoint, host: where it went.
        status: of the answer; None if there was none.
        milliseconds: how long it took.
        failure: the class of the error, if there was no whole answer.
        detail: the text of the error.
        body: the first 16 kB of the answer, as text.
        truncated: whether there was more.
        address: the address of the connection.
        request_headers: the sent ones, `***` for values that may be secret.
        ok: whether it counts as a success.
        hold: seconds for which the server asked to receive nothing; None if it did not.
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
        """Its result, in a line."""
        if self.failure is None:
            return f"answered {self.status}"
        return f"{self.failure}: {self.detail}"[:LONGEST_SUMMARY]

    @property
    def answered(self) -> bool:
        """Whether the host gave a whole answer, even an error; or was not asked at all."""
        return self.failure in (None, "unsafe")


class Recorded(NamedTuple):
    """The result of writing attempts.

    `acted`: whether a breaker has opened or closed, or an endpoint was disabled. `settled`: the
    jobs that were completed, a `Settled` if that made others ready.
    """

    acted: bool
    settled: set[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """How a worker delivers webhooks.

    Parameters:
        schemes: of `https` and `http`, those that URLs may have.
        ports: the ports that may be called.
        networks: networks that may be called although they are not public, such as `10.1.0.0/16`.
        ca: a file of certificates to trust besides the system's; None: only those.
        connections: the maximum of open ones, to all servers in sum. Those beyond the worker's
            slots are for attempts that wait for silent servers, and lend their slots to others
            meanwhile.
        breakers: when deliveries to an endpoint or host are held.
    """

    schemes: Collection[str] = ("https",)
    ports: Collection[int] = (80, 443)
    networks: Collection[str] = ()
    ca: str | None = None
    connections: int = 250  # more than slots: an attempt that waits for one may time out
    breakers: BreakerTerms = field(default_factory=BreakerTerms)

    def __post_init__(self) -> None:
        if self.connections < 1:
            raise ConfigurationError(
                f"connections is {self.connections!r}; give a whole number of 1 or more"
            )

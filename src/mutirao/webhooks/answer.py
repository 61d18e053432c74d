"""The result of an attempt: the answer, or why there was none."""

from __future__ import annotations

import math
import re
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import MAXYEAR, UTC
from email.utils import parsedate_to_datetime, parsedate_tz
from enum import StrEnum

import httpx2

from mutirao.errors import UnsafeUrl

KEPT = 16 * 1024  # bytes of an answer's body
LONGEST_RETRY_AFTER = 24 * 3_600.0  # seconds
# All other headers of an endpoint may be secrets.
_HARMLESS = {
    *("accept", "accept-encoding", "connection", "content-length", "content-type", "host"),
    *("user-agent", "webhook-id", "webhook-timestamp", "webhook-signature"),
    *("content-digest", "date", "digest", "signature-input"),
}
_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]+)?")


class DeliveryFailure(StrEnum):
    """Why there is no whole answer."""

    UNSAFE = "unsafe"  # the guard refused the URL or an address
    NAME = "name"  # it has no address
    CONNECT = "connect"  # no server listens, or it cannot be reached
    CONNECT_TIMEOUT = "connect_timeout"
    TLS = "tls"  # the certificate is wrong or expired, or it is not TLS
    SILENT = "silent"  # the server sent nothing for `first_byte` seconds
    TIMEOUT = "timeout"  # not whole after `whole` seconds
    CLOSED = "closed"  # the connection ended before a byte of the answer, or broke within it
    PROTOCOL = "protocol"  # the answer is not HTTP, or shorter than declared


@dataclass(frozen=True)
class Answer:
    """The result of one attempt.

    Parameters:
        status: of the answer; None if there was none.
        milliseconds: from the start to the end of the attempt.
        failure: why there is no whole answer; None if there is.
        detail: the text of the error.
        body: the first bytes of the answer, unchanged: 16 kB unless the request sets another limit.
        truncated: there was more; the connection was closed.
        address: the last address that was connected to, or tried, with its port; None if none was.
        url: the last called URL, after redirects.
        request_headers: the sent ones; values that may be secret are `***`.
        retry_after: seconds, of `Retry-After`; one day at most. None if there was none.
        content_type: the declared type of the body; None if there is none, or several.
    """

    status: int | None
    milliseconds: float
    failure: DeliveryFailure | None
    detail: str | None
    body: bytes = field(repr=False)
    truncated: bool
    address: str | None
    url: str = field(repr=False)
    request_headers: Mapping[str, str] = field(repr=False)
    retry_after: float | None = None
    content_type: str | None = None

    @property
    def ok(self) -> bool:
        """Whether a whole answer came, and its status is 2xx."""
        return self.failure is None and self.status is not None and 200 <= self.status < 300


def blanked(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers with `***` for each value that may be secret."""
    return {name: value if name.lower() in _HARMLESS else "***" for name, value in headers.items()}


def retry_after(values: Iterable[str], now: float) -> float | None:
    """Return after how many seconds to try again, by `Retry-After`: seconds or a date.

    A moment that has passed is 0, and more than a day is a day. None: it cannot be read. Of several
    values the longest is used.

    Parameters:
        values: of all headers of that name.
        now: Unix seconds.
    """
    read = [seconds for each in values if (seconds := _wait(each.strip(), now)) is not None]
    return min(max(*read, 0.0), LONGEST_RETRY_AFTER) if read else None


def _wait(value: str, now: float) -> float | None:
    return float(value) if _SECONDS.fullmatch(value) else _until(value, now)


def _until(value: str, now: float) -> float | None:
    try:
        parts = parsedate_tz(value)
        if parts is not None and parts[0] > MAXYEAR:
            return math.inf
        at = parsedate_to_datetime(value)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - now
    except (ValueError, OverflowError):
        return None  # a server's invalid value is no reason to wait


def failure_of(error: BaseException, heard: bool) -> DeliveryFailure:
    """Return the class of an attempt's error.

    Parameters:
        heard: whether the server has sent anything.
    """
    causes = list(_causes(error))
    for kind, failure in _DECIDED:
        if isinstance(error, kind):
            return failure
    for kind, failure in _CAUSES:
        if any(isinstance(cause, kind) for cause in causes):
            return failure
    return (
        DeliveryFailure.PROTOCOL
        if heard and isinstance(error, httpx2.ProtocolError)
        else DeliveryFailure.CLOSED
    )


# Before the causes: where TLS times out, one of these is an SSLError with that text.
_DECIDED: list[tuple[type[Exception], DeliveryFailure]] = [
    (UnsafeUrl, DeliveryFailure.UNSAFE),
    (httpx2.InvalidURL, DeliveryFailure.UNSAFE),
    (httpx2.ConnectTimeout, DeliveryFailure.CONNECT_TIMEOUT),
    (httpx2.TimeoutException, DeliveryFailure.SILENT),
    (TimeoutError, DeliveryFailure.TIMEOUT),
]
_CAUSES: list[tuple[type[Exception], DeliveryFailure]] = [
    (ssl.SSLError, DeliveryFailure.TLS),
    (socket.gaierror, DeliveryFailure.NAME),
    (httpx2.ConnectError, DeliveryFailure.CONNECT),
]


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__

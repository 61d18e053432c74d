"""The door of a dashboard that stands alone: a user and a password, or a token, or loopback only.

What is given is compared in constant time. A failure is answered late, the later the more there
were, so that nobody can try many.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from starlette.requests import Request

from mutirao.web.access import Access

SHORTEST_SECRET = 12  # characters
FIRST_WAIT, LONGEST_WAIT = 0.25, 8.0  # seconds until a failure is answered
REMEMBERED_FOR = 300.0  # seconds
MOST_REMEMBERED = 64
MOST_WAITING = 32


class Unauthorized(Exception):
    """A request without the right credentials. `late`: too many others wait for this answer."""

    def __init__(self, *, late: bool = False) -> None:
        super().__init__(late)
        self.late = late


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What is asked for. `token`: as a bearer token, or as a password with any user."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        for what, secret in (("password", self.password), ("token", self.token)):
            if secret and len(secret) < SHORTEST_SECRET:
                raise ValueError(
                    f"the {what} has {len(secret)} characters; expected at least {SHORTEST_SECRET}"
                )

    def __bool__(self) -> bool:
        return bool(self.password or self.token)

    def fits(self, header: str) -> str | None:
        """Return the user whom an Authorization header names; None if it does not fit.

        Each secret is compared, whichever the header has: the time tells nothing.
        """
        scheme, _, given = header[:4_000].partition(" ")
        if scheme.lower() == "bearer":
            return "token" if _is(given.strip(), self.token) else None
        if scheme.lower() != "basic":
            return None
        try:
            user, _, secret = base64.b64decode(given, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return None
        by_user = _is(user, self.user) & _is(secret, self.password)
        by_token = _is(secret, self.token)
        return user if by_user | by_token else None


class Door:
    """Lets whoever has the credentials in as administrator; an `access=` of a dashboard.

    Parameters:
        clock: seconds that only grow.
        sleep: waits so many seconds.
    """

    def __init__(
        self,
        credentials: Credentials,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._credentials, self._clock, self._sleep = credentials, clock, sleep
        self._failures: deque[float] = deque(maxlen=MOST_REMEMBERED)
        self._waiting = 0

    async def __call__(self, request: Request) -> Access:
        """Return the access of an administrator; raise Unauthorized, late."""
        header = request.headers.get("authorization", "")
        user = self._credentials.fits(header)
        if user is not None:
            return Access.admin(user)
        if header:  # a browser asks without, first
            await self._slow_down()
        raise Unauthorized

    async def _slow_down(self) -> None:
        now = self._clock()
        self._failures.append(now)
        recent = sum(now - each < REMEMBERED_FOR for each in self._failures)
        if self._waiting >= MOST_WAITING:
            raise Unauthorized(late=True)
        self._waiting += 1
        try:
            await self._sleep(min(FIRST_WAIT * 2 ** (recent - 1), LONGEST_WAIT))
        finally:
            self._waiting -= 1


async def loopback(request: Request) -> Access:
    """Let whoever reaches the loopback address in: users of this machine."""
    return Access.admin()


def _is(given: str, secret: str) -> bool:
    """Return whether a text is the secret; an empty one is none. In constant time."""
    digests = (
        hashlib.sha256(each.encode("utf-8", "surrogatepass")).digest() for each in (given, secret)
    )
    return hmac.compare_digest(*digests) & bool(secret)

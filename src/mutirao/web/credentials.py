"""The login of a dashboard of its own: a user and a password, or a token, or loopback only.

What is given is compared in constant time. A failure is answered late, the later the more there
were. While many wait for that, what has not fitted lately is not even compared: a client that does
not wait for the answer to a guess cannot try many either.
"""

import asyncio
import base64
import binascii
import hashlib
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from starlette.requests import Request

from mutirao.web.access import Access
from mutirao.web.scoped_tokens import SHORTEST_SECRET, ScopedTokens, is_secret

FIRST_WAIT, LONGEST_WAIT = 0.25, 8.0  # seconds until a failure is answered
REMEMBERED_FOR = 300.0  # seconds
MOST_REMEMBERED = 64
MOST_WAITING, MOST_OF_ADDRESS = 32, 8  # failures whose answers wait: of all, and of one address
MOST_KNOWN = 256  # headers that have fitted, which are let in while others fail


class Unauthorized(Exception):
    """A request without the right credentials. `late`: too many wait, so none were compared."""

    def __init__(self, *, late: bool = False) -> None:
        super().__init__(late)
        self.late = late


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The accepted credentials.

    `token`: as a bearer token, or as a password; the user given with it counts for nothing.
    `tokens`: of programs, each with its scope.
    """

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    tokens: ScopedTokens = field(default_factory=ScopedTokens)

    def __post_init__(self) -> None:
        for what, secret in (("password", self.password), ("token", self.token)):
            if secret and len(secret) < SHORTEST_SECRET:
                raise ValueError(
                    f"the {what} has {len(secret)} characters; expected at least {SHORTEST_SECRET}"
                )

    def __bool__(self) -> bool:
        return bool(self.password or self.token or self.tokens)

    def access_of(self, header: str) -> Access | None:
        """Return the access of the sender of an Authorization header; None if it does not fit."""
        by_token = self.tokens.access_of(header)
        user = self.fits(header)
        return by_token if user is None else Access.admin(user)

    def fits(self, header: str) -> str | None:
        """Return the user whose password an Authorization header has; None if it does not fit.

        A client with the token is "token", whatever name is given with it: the name is not
        checked. Each secret is compared, whichever the header has: the time tells nothing.
        """
        scheme, _, given = header[:4_000].partition(" ")
        if scheme.lower() == "bearer":
            return "token" if is_secret(given.strip(), self.token) else None
        if scheme.lower() != "basic":
            return None
        try:
            user, _, secret = base64.b64decode(given, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return None
        by_user = is_secret(user, self.user) & is_secret(secret, self.password)
        by_token = is_secret(secret, self.token)
        return user if by_user else "token" if by_token else None


class Door:
    """Lets a client with the credentials in; an `access=` of a dashboard.

    A user with the password is an administrator, and a client with the token is one, too.

    Parameters:
        clock: seconds that only grow.
        sleep: waits the given seconds.
    """

    def __init__(
        self,
        credentials: Credentials,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._credentials, self._clock, self._sleep = credentials, clock, sleep
        self._failures: deque[float] = deque(maxlen=MOST_REMEMBERED)
        self._waiting: Counter[str] = Counter()
        self._known: dict[bytes, None] = {}

    async def __call__(self, request: Request) -> Access:
        """Return the access for given credentials; raise Unauthorized, late."""
        header = request.headers.get("authorization", "")
        address = request.client.host if request.client is not None else ""
        digest = hashlib.sha256(header.encode("utf-8", "surrogatepass")).digest()
        if header and digest not in self._known and self._is_shut(address):
            raise Unauthorized(late=True)
        access = self._credentials.access_of(header)
        if access is not None:
            self._remember(digest)
            return access
        if header:  # a browser asks without, first
            await self._slow_down(address)
        raise Unauthorized

    def _is_shut(self, address: str) -> bool:
        of_all = self._waiting.total() >= MOST_WAITING
        return of_all or self._waiting[address] >= MOST_OF_ADDRESS

    def _remember(self, digest: bytes) -> None:
        self._known[digest] = self._known.pop(digest, None)
        if len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]

    async def _slow_down(self, address: str) -> None:
        now = self._clock()
        self._failures.append(now)
        recent = sum(now - each < REMEMBERED_FOR for each in self._failures)
        self._waiting[address] += 1
        try:
            await self._sleep(min(FIRST_WAIT * 2 ** (recent - 1), LONGEST_WAIT))
        finally:
            self._waiting[address] -= 1
            self._waiting += Counter()  # without entries of 0


async def loopback(request: Request) -> Access:
    """Accept every client of the loopback address: users of this machine."""
    return Access.admin()

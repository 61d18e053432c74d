"""One request of the API, read within bounds: its user, parameters and body."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request

from mutirao.model.audit.actions import MAX_WHO, About
from mutirao.model.filters.filter import Filter, parse
from mutirao.web.access import Access, asked
from mutirao.web.api.values import Id, id_of

if TYPE_CHECKING:
    from mutirao.web.dashboard_client import DashboardClient
    from mutirao.web.site import Site

T = TypeVar("T")
LONGEST_BODY = 1 << 20  # bytes
LONGEST_QUERY, MOST_PARAMETERS = 20_000, 50
LONGEST_NAME = 200  # characters of a name in a path


class UnreadableRequest(Exception):
    """What was sent cannot be read. `place`: where in it, as `body.ids[0]` or `query.size`."""

    def __init__(self, why: str, *, status: int = 422, place: str = "") -> None:
        super().__init__(why)
        self.status, self.place = status, place


class ApiCall:
    """One request.

    Parameters:
        access: what the caller may do.
    """

    def __init__(self, site: "Site", request: Request) -> None:
        self.site, self.request = site, request
        self.access = Access.none()
        self.now: datetime = site.clock()
        self.query: Any = None
        self.body: Any = None

    @property
    def client(self) -> "DashboardClient":
        """The client of the application's jobs."""
        return self.site.client

    def id(self) -> int:
        """Return the id in the path; raise UnreadableRequest if it is none."""
        given: str = self.request.path_params["id"]
        try:
            return id_of(msgspec.convert(given, Id))
        except (msgspec.ValidationError, ValueError) as unfit:
            raise UnreadableRequest(f"{given[:40]!r} is no id: {unfit}", place="path.id") from None

    def name(self) -> str:
        """Return the name in the path; raise UnreadableRequest if nothing has such a name."""
        given: str = self.request.path_params["name"]
        if not 0 < len(given) <= LONGEST_NAME or not _is_text(given):
            raise UnreadableRequest(
                f"a name has 1 to {LONGEST_NAME} characters, and no NUL among them",
                place="path.name",
            )
        return given

    def filter(self, text: str) -> Filter:
        """Return a filter with the one that the access has.

        Raises:
            InvalidFilter: it is none, or asks for what the caller may not see.
        """
        return asked(self.access, text, self.site.blanking) + parse(self.access.only)

    async def noted(self, about: About, work: Callable[[], Awaitable[T]]) -> T:
        """Act on another object than jobs, and record the caller in the audit."""
        return await self.client.actions.anote(acting(self.access), about, work)

    def url(self, path: str) -> str:
        """Return a path of the API, from where the host begins."""
        root = str(self.request.scope.get("root_path", "")).rstrip("/")
        return f"{root}{path}"

    async def read(self, query: Any, body: Any) -> None:
        """Read the parameters and the body as these types; raise UnreadableRequest."""
        self.query = _query(self.request.scope.get("query_string", b""), query)
        if body is not None:
            self.body = _body(self.request, await _bytes(self.request), body)


def acting(access: Access) -> str:
    """Return the user, for the audit; may be unknown."""
    return "".join(each for each in access.user if each.isprintable())[:MAX_WHO] or "unknown"


class _Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """No parameters."""


def _query(text: bytes, wanted: Any) -> Any:
    if len(text) > LONGEST_QUERY:
        raise UnreadableRequest(f"the query has more than {LONGEST_QUERY:,} bytes", place="query")
    try:
        pairs = parse_qsl(
            text.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_PARAMETERS,
            errors="strict",
        )  # fmt: skip
    except ValueError:  # not ASCII, not UTF-8 within, or too many
        raise UnreadableRequest("the query is not encoded as a URL's", place="query") from None
    given = dict(pairs)
    if len(given) < len(pairs):
        raise UnreadableRequest("a parameter is given twice", place="query")
    for name, value in pairs:
        if not _is_text(name + value):
            raise UnreadableRequest("there is a NUL or half a character in it", place="query")
    return _converted("query", lambda: msgspec.convert(given, wanted or _Nothing, strict=False))


def _body(request: Request, given: bytes, wanted: Any) -> Any:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given and kind != "application/json":
        raise UnreadableRequest(f"the body is {kind[:60]!r}; send application/json", status=415)
    return _converted("body", lambda: msgspec.json.decode(given or b"{}", type=wanted))


async def _bytes(request: Request) -> bytes:
    found = bytearray()
    try:
        async for part in request.stream():
            found += part
            if len(found) > LONGEST_BODY:
                raise UnreadableRequest(
                    f"the body has more than {LONGEST_BODY:,} bytes", status=413
                )
    except ClientDisconnect:
        raise UnreadableRequest("the body has not come to its end", status=400) from None
    return bytes(found)


def _converted(what: str, convert: Any) -> Any:
    try:
        return convert()
    except msgspec.ValidationError as unfit:
        why, _, place = str(unfit).partition(" - at `$")
        raise UnreadableRequest(why, place=f"{what}{place.rstrip('`')}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as unfit:
        raise UnreadableRequest(f"the {what} is no JSON: {unfit}", status=400, place=what) from None
    except RecursionError:
        raise UnreadableRequest(
            f"the {what} is nested too deeply", status=400, place=what
        ) from None


def _is_text(given: str) -> bool:
    return "\x00" not in given and not any("\ud800" <= each <= "\udfff" for each in given)

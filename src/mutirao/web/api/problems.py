"""Refusals and failures as RFC 9457 has them: `application/problem+json`.

`type` names the class of the error, by which a program distinguishes them; `detail` is for people.
Unexpected errors have no detail, and are in the log of the program.
"""

from collections.abc import Mapping

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from mutirao.errors import (
    ConfigurationError,
    InvalidFilter,
    MutiraoError,
    SchemaError,
    StoreBusy,
    StoreError,
    StoreUnavailable,
    TransportError,
    UnknownTask,
)
from mutirao.log import log
from mutirao.model.blanking import Blanking
from mutirao.web.access import Refused
from mutirao.web.api.call import UnreadableRequest
from mutirao.web.credentials import Unauthorized

MEDIA_TYPE = "application/problem+json"
TYPE = "urn:mutirao:"
TITLES: Mapping[int, str] = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Too large",
    415: "Not JSON",
    421: "Not this host",
    422: "Invalid",
    429: "Too many failures",
    500: "Failed",
    502: "Broker failed",
    503: "Not available",
}


class Problem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Why something was refused, or what has failed.

    Parameters:
        type: `urn:mutirao:` and the name of the class of the error.
        title: the same for all of this status.
        detail: what was found, what was expected, and what to do.
        place: where in what was sent, such as `body.ids[0]`.
        position: where in the text of a filter, in characters from 0.
        matched: how many jobs the filter of an action finds, if it is not what was expected.
    """

    type: str
    title: str
    status: int
    detail: str = ""
    place: str = ""
    position: int | None = None
    matched: int | None = None


class Conflict(Exception):
    """The state of things does not allow the request; `name` is that of the problem."""

    def __init__(
        self, name: str, why: str, *, status: int = 409, matched: int | None = None
    ) -> None:
        super().__init__(why)
        self.name, self.status, self.matched = name, status, matched


def answer(error: Exception, blanking: Blanking, path: str) -> Response:
    """Return the answer to a request that has failed with this error; log unexpected ones."""
    problem = problem_of(error, blanking)
    if problem.status >= 500 and not isinstance(error, StoreUnavailable | SchemaError):
        log.error("the API could not answer %s", path, exc_info=error)
    return sent(problem, _headers(error, problem.status))


def sent(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """Return a problem as an answer."""
    body = msgspec.json.encode(problem)
    return Response(body, problem.status, headers, media_type=MEDIA_TYPE)


def plain(status: int, detail: str = "") -> Problem:
    """Return a problem that only has a status, and no error of Mutirão."""
    title = TITLES.get(status, "Failed")
    return Problem(type="about:blank", title=title, status=status, detail=detail)


def problem_of(error: Exception, blanking: Blanking) -> Problem:
    """Return what an error is for the caller; secrets in its text are blanked."""
    match error:
        case HTTPException():
            return plain(error.status_code)
        case Unauthorized():
            return _named("Unauthorized", 429 if error.late else 401, "send a token as a bearer's")
        case Refused(needed=None):
            return _named("Refused", 403, "this is about all jobs, and you see only some")
        case Refused():
            role = error.needed.name.lower() if error.needed is not None else ""
            return _named("Refused", 403, f"this needs the scope {role}")
        case UnreadableRequest():
            found = _named("Unreadable", error.status, blanking.text(str(error)))
            found.place = error.place
            return found
        case Conflict():
            found = _named(error.name, error.status, blanking.text(str(error)))
            found.matched = error.matched
            return found
        case MutiraoError():
            found = _named(type(error).__name__, _status(error), _told(error, blanking))
            found.position = getattr(error, "position", None)
            return found
    return plain(500)


def _named(name: str, status: int, detail: str) -> Problem:
    return Problem(type=TYPE + name, title=TITLES[status], status=status, detail=detail)


def _status(error: MutiraoError) -> int:
    match error:
        case InvalidFilter() | UnknownTask():
            return 422
        case SchemaError() | StoreUnavailable():
            return 503
        case TransportError():
            return 502
        case StoreError() | ConfigurationError():
            return 500
        case LookupError():
            return 404
        case ValueError() | TypeError():
            return 422
    return 409


def _told(error: MutiraoError, blanking: Blanking) -> str:
    if isinstance(error, StoreBusy):
        return "the database took too long; ask again, or for less"
    return blanking.text(str(error))


def _headers(error: Exception, status: int) -> dict[str, str]:
    if isinstance(error, HTTPException) and error.headers:
        return {name.lower(): value for name, value in error.headers.items()}
    if status == 401:
        return {"www-authenticate": 'Bearer realm="Mutirao"'}
    return {"retry-after": "5"} if status in (429, 503) else {}

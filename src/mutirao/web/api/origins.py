"""Where a request that changes something comes from: a program, or one of our own pages.

A browser that is let in by a cookie, a password or its address could be made to send it by any
page. It sends a bearer token to no site by itself; and JSON to another site only after a preflight
request, which is not answered here, and never without `Origin`.
"""

from starlette.datastructures import Headers
from starlette.requests import Request

from mutirao.web.api.problems import Conflict
from mutirao.web.security import GateRules


class HostRules(GateRules):
    """The host names that are allowed; the rest is checked once the user is known."""

    def refusal(self, method: str, scheme: str, headers: Headers) -> tuple[int, str] | None:
        """Return why a request is refused, as a status and a key; None if it is not."""
        return super().refusal("GET", scheme, headers)


def check_origin(request: Request, rules: GateRules) -> None:
    """Raise Conflict if a page of another site may have sent this."""
    if _has_token_alone(request.headers) or _is_of_program(request.headers):
        return
    if rules.refusal("POST", request.url.scheme, request.headers) is not None:
        raise Conflict(
            "FromElsewhere",
            "a page of somebody else may have sent this; send it with a token as a bearer's, or,"
            " from no browser, as application/json",
            status=403,
        )


def _has_token_alone(headers: Headers) -> bool:
    given = headers.get("authorization", "").lower()
    return given.startswith("bearer ") and "cookie" not in headers


def _is_of_program(headers: Headers) -> bool:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" and not {"origin", "sec-fetch-site", "cookie"} & {*headers}

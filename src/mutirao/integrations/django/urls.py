"""The dashboard in a project's URLs, for staff: `path("jobs/", include(…this module…))`.

It is a plain view, so Django's middleware runs before it, by WSGI and by ASGI. The dashboard
itself runs in one event loop of the process, with two connections of its own.
"""

import atexit
from functools import cache
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import re_path
from django.views.decorators.csrf import csrf_exempt

from mutirao.integrations.django.models import BULK
from mutirao.integrations.django.project import application
from mutirao.integrations.django.transaction_client import outside_requests_transaction

app_name = "mutirao"

_ACT = tuple(f"mutirao.{each}_job" for each in BULK)
_ADMIN = tuple(
    f"mutirao.change_{each}" for each in ("schedule", "limit", "subscription", "endpoint")
)
_ACCESS = "mutirao.access"  # in the scope: no header of a request can stand there


def dashboard(request: HttpRequest, path: str) -> HttpResponse:
    """Answer with a page of the dashboard; send those who have not signed in to the login page.

    Raises:
        PermissionDenied: the caller is no staff, or may not see jobs.
        ConfigurationError: `mutirao[web]` is not installed; `manage.py check` reports that before.
    """
    user = request.user
    if not user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    if not (user.is_staff and user.has_perm("mutirao.view_job")):
        raise PermissionDenied
    scope = {**_scope(request, path), _ACCESS: _access_of(user)}
    answer: HttpResponse = application()._portal.call(_answered, scope, request.body)
    return answer


def _access_of(user: Any) -> tuple[str, str]:
    """Return the access of a user, by the permissions of the models, and the name."""
    name = user.get_username()
    if not user.has_perms(_ACT):
        return "read", name
    return "admin" if user.has_perms(_ADMIN) else "act", name


def _access(request: Any) -> Any:
    """Return the same as the dashboard's access, whose packages are installed by now."""
    from mutirao.web import Access

    extent, name = request.scope[_ACCESS]
    return getattr(Access, extent)(name)


@cache
def _site() -> Any:
    """Return the dashboard of the project, which opens nothing before its first request."""
    app = application()
    site = app.web(access=_access)
    atexit.register(lambda: app._portal.call(site.aclose))
    return site


def _scope(request: HttpRequest, path: str) -> dict[str, Any]:
    """Return a request as ASGI has it; the part of its path before `path` is where we stand."""
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in request.headers.items()
    ]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "raw_path": request.path.encode(),
        "root_path": request.path.removesuffix(path).rstrip("/"),
        "query_string": request.META.get("QUERY_STRING", "").encode("latin-1", "replace"),
        "headers": headers,
        "client": (request.META.get("REMOTE_ADDR", ""), 0),
        "server": (request.get_host(), None),
    }


async def _answered(scope: dict[str, Any], body: bytes) -> HttpResponse:
    """Return the whole answer: pages are small, and none of them is a stream."""
    answer, parts = HttpResponse(), list[bytes]()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            answer.status_code = message["status"]
            _give(answer, message["headers"])
        else:
            parts.append(message.get("body", b""))

    await _site()(scope, receive, send)
    answer.content = b"".join(parts)
    return answer


def _give(answer: HttpResponse, headers: Any) -> None:
    del answer["Content-Type"]
    for name, value in headers:
        if name.lower() == b"set-cookie":
            answer.cookies.load(value.decode("latin-1"))
        else:
            answer[name.decode("latin-1")] = value.decode("latin-1")


# Forms of the dashboard are protected by where browsers say that they come from. What is done is
# in transactions of its own, whatever ATOMIC_REQUESTS says.
_view = csrf_exempt(outside_requests_transaction(dashboard))

urlpatterns = [re_path(r"^(?P<path>.*)$", _view, name="dashboard")]

"""The dashboard as a WSGI application, in an event loop of its own, for Flask and Django.

The loop runs in one thread of the process, which begins with the first request: what a server has
loaded before it forks has no thread. The connections are closed when the process ends.
"""

import atexit
import os
from collections.abc import Awaitable, Callable, Iterable
from inspect import iscoroutinefunction
from io import BytesIO
from typing import TYPE_CHECKING, Any

from a2wsgi import ASGIMiddleware
from a2wsgi.asgi import build_scope
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from mutirao.client.portal import Portal
from mutirao.web.access import DECIDED, Access, Decide
from mutirao.web.api.call import LONGEST_BODY

if TYPE_CHECKING:
    from mutirao.web.site import Site

StartResponse = Callable[..., Any]
PART = 65_536  # bytes of a body that are read at once
WITHIN = 10.0  # seconds that the thread of a request waits for what its answer leaves behind


class WsgiSite:
    """The dashboard of an application, for servers that speak WSGI.

    Parameters:
        access: asked in the thread of each request, unless it is a coroutine function.
        close: closes what was opened in the event loop that runs.
    """

    def __init__(self, site: "Site", access: Decide, close: Callable[[], Awaitable[None]]) -> None:
        self._site, self._access, self._close = site, access, close
        self._portal = Portal()
        self._inner: ASGIMiddleware | None = None
        self._pid = 0

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        try:
            scope: Any = build_scope(environ)  # type: ignore[arg-type]
        except UnicodeError:  # a path that is no UTF-8, or a query that is not ASCII
            return _refused(start_response, b"The path or the query cannot be read.\n")
        if (body := _body(environ)) is None:
            return _refused(start_response, b"The body has not come to its end.\n")
        length = str(len(body))
        environ = {**environ, "wsgi.input": BytesIO(body), "CONTENT_LENGTH": length}
        if not _is_asynchronous(self._access):
            environ[DECIDED] = _said(self._access, Request({**scope, "client": _client(environ)}))
        # Whole: of an answer that nobody takes to its end, the task would wait forever.
        return [b"".join(self._opened()(environ, start_response))]

    def close(self) -> None:
        """Close what the requests of this process have opened. The next request opens it again."""
        if self._inner is not None and self._pid == os.getpid():
            atexit.unregister(self.close)
            self._portal.call(self._close)
            self._portal.close()
            self._inner = None

    def _opened(self) -> Any:
        if self._inner is None or self._pid != os.getpid():
            self._pid = os.getpid()
            answer: Any = self._answer
            self._inner = ASGIMiddleware(answer, wait_time=WITHIN, loop=self._portal.loop())
            atexit.register(self.close)
        return self._inner

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["client"] = _client(scope["wsgi_environ"])
        await self._site(scope, receive, send)


def _refused(start_response: StartResponse, why: bytes) -> Iterable[bytes]:
    start_response("400 Bad Request", [("Content-Type", "text/plain")])
    return [why]


def _body(environ: dict[str, Any]) -> bytes | None:
    """Return the body, of a larger one enough to be refused; None if it is not there as a whole.

    What is read of a connection that is closed is empty, whatever length was announced before.
    """
    said = str(environ.get("CONTENT_LENGTH") or "0")
    if not (said.isascii() and said.isdecimal()):
        return None
    left = LONGEST_BODY + 1 if len(said) > 9 else min(int(said), LONGEST_BODY + 1)
    found = bytearray()
    while left > 0:
        try:
            part = environ["wsgi.input"].read(min(left, PART))
        except OSError:
            return None
        if not part:
            return None
        found += part
        left -= len(part)
    return bytes(found)


def _said(access: Decide, request: Request) -> Callable[[], Access | Awaitable[Access]]:
    """Ask in this thread, with what the host keeps for it; the error comes where it is answered."""
    try:
        found = access(request)
    except Exception as error:  # noqa: BLE001 (it becomes a page, as those of other requests)
        return lambda refused=error: _raise(refused)  # type: ignore[misc]
    return lambda: found


def _raise(error: Exception) -> Access:
    raise error


def _is_asynchronous(access: Decide) -> bool:
    return iscoroutinefunction(access) or iscoroutinefunction(getattr(access, "__call__", None))  # noqa: B004


def _client(environ: dict[str, Any]) -> tuple[str, int] | None:
    address, port = environ.get("REMOTE_ADDR", ""), str(environ.get("REMOTE_PORT") or "0")
    return (address, int(port) if port.isdecimal() else 0) if address else None

"""The API as an ASGI application: finds the operation and the user, and answers in JSON."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from mutirao.model.blanking import Blanking
from mutirao.web.access import Decide, Permission, check, decided
from mutirao.web.api import health, metrics, problems
from mutirao.web.api.call import ApiCall
from mutirao.web.api.openapi import document
from mutirao.web.api.operation import PREFIX, Answered, Operation
from mutirao.web.api.operations import OPERATIONS
from mutirao.web.api.origins import HostRules, check_origin
from mutirao.web.security import Gate, GateRules

if TYPE_CHECKING:
    from mutirao.web.site import Site

Endpoint = Callable[[Request], Awaitable[Response]]


class Api:
    """The API of a dashboard.

    Parameters:
        access: decides for each request what its sender may do.
        rules: of the pages; by which names it may be asked.
        operations: those that exist.
        measured: whether it serves metrics of the store for Prometheus.
    """

    def __init__(
        self, site: "Site", access: Decide, rules: GateRules,
        operations: Sequence[Operation] = OPERATIONS, *, measured: bool = True,
    ) -> None:  # fmt: skip
        self._site, self._access, self._operations = site, access, operations
        self._metrics = metrics.SiteMetrics(site, access) if measured else None
        inner = Starlette(routes=self._routes(), exception_handlers={HTTPException: _failed})
        inner.router.redirect_slashes = False
        self._rules = rules
        self._guarded = Gate(inner, HostRules(hosts=rules.hosts), self._refuse)
        # Probes ask by whichever address they have; what they learn is no secret.
        self._probed = Gate(inner, HostRules(), self._refuse)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        gate = self._probed if _path(scope) in (health.LIVE, health.READY) else self._guarded
        await gate(scope, receive, send)

    @staticmethod
    def has(scope: Scope) -> bool:
        """Return whether a request is one of the API, and none of a page."""
        if scope["type"] != "http":
            return False
        path = _path(scope)
        return path in (health.LIVE, health.READY, metrics.PATH) or f"{path}/".startswith("/api/")

    def _routes(self) -> list[Route]:
        by_path: dict[str, dict[str, Operation]] = defaultdict(dict)
        its = self._metrics
        for each in self._operations:
            by_path[each.path][each.method] = each
        return [
            Route(health.LIVE, health.live, methods=["GET"]),
            Route(health.READY, self._ready, methods=["GET"]),
            *([] if its is None else [Route(metrics.PATH, its.scraped, methods=["GET"])]),
            Route(f"{PREFIX}/openapi.json", self._document, methods=["GET"]),
            *(
                Route(_route(path), self._endpoint(by_method), methods=[*by_method])
                for path, by_method in by_path.items()
            ),
        ]

    def _endpoint(self, by_method: Mapping[str, Operation]) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            operation = by_method["GET" if request.method == "HEAD" else request.method]
            call = ApiCall(self._site, request)
            try:
                return await self._answer(call, operation)
            except Exception as error:  # noqa: BLE001 (it becomes a problem, and what is new is logged)
                return problems.answer(error, self._site.blanking, request.url.path)

        return endpoint

    async def _answer(self, call: ApiCall, operation: Operation) -> Response:
        call.access = await decided(self._access, call.request)
        if operation.acts:
            check_origin(call.request, self._rules)
        check(call.access, operation.role, whole=operation.whole)
        await call.read(operation.query, operation.body)
        reply = await operation.run(call)
        if operation.acts:
            self._site.readings.forget()
        response = _sent(reply)
        return _tagged(call.request, response) if operation.tagged else response

    async def _document(self, request: Request) -> Response:
        try:
            check(await decided(self._access, request), Permission.READ)
        except Exception as error:  # noqa: BLE001 (as above)
            return problems.answer(error, self._site.blanking, request.url.path)
        root = str(request.scope.get("root_path", "")).rstrip("/")
        return _tagged(request, _sent(Answered(document(self._operations, root))))

    async def _ready(self, request: Request) -> Response:
        return await health.ready(self._site)

    async def _refuse(
        self, scope: Scope, receive: Receive, send: Send, status: int, key: str
    ) -> None:
        refused = problems.plain(status, "this host is not asked by that name")
        await problems.sent(refused)(scope, receive, send)


def _path(scope: Scope) -> str:
    """Return the path below where the dashboard is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "").rstrip("/"))


def _route(path: str) -> str:
    """Return the path of a route; a name may have slashes."""
    return PREFIX + path.replace("{name}", "{name:path}")


async def _failed(request: Request, error: Exception) -> Response:
    return problems.answer(error, Blanking(), request.url.path)


def _sent(reply: Answered) -> Response:
    return Response(
        _encoded(reply.value), reply.status, reply.headers, media_type="application/json"
    )


def _encoded(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # half a character, which JSON can have only escaped
        return json.dumps(msgspec.to_builtins(value)).encode()


def _tagged(request: Request, response: Response) -> Response:
    """Return an answer with its ETag, or without its body to a client that knows it."""
    tag = f'"{hashlib.sha256(bytes(response.body)).hexdigest()[:32]}"'
    headers = {"etag": tag, "cache-control": "private, no-cache"}
    known = {
        each.strip().removeprefix("W/")
        for each in request.headers.get("if-none-match", "").split(",")
    }
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    response.headers.update(headers)
    return response

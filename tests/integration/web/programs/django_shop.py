"""A shop on Django, with the dashboard beside its ASGI and within its WSGI application."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.http import JsonResponse
from django.urls import path
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from mutirao.web import Access
from tests.support.dashboard import application

settings.configure(
    SECRET_KEY="of this test only",
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["127.0.0.1"],
    SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware"],
)

from django.core.asgi import get_asgi_application  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402

shop = application(f"sqlite:///{os.environ['SHOP_FILE']}")


def sign_in(request: Any, user: str) -> JsonResponse:
    """Begin a session."""
    request.session["user"] = user
    return JsonResponse({"process": os.getpid()})


urlpatterns = [path("sign-in/<user>", sign_in)]


@sync_to_async
def access(request: Request) -> Access:
    """Let the session decide, as it decides everywhere else."""
    sessions = import_module(settings.SESSION_ENGINE)
    session = sessions.SessionStore(request.cookies.get(settings.SESSION_COOKIE_NAME))
    user = session.get("user")
    return Access.none() if user is None else Access.act(user)


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    """Close what the dashboard has opened."""
    yield
    await shop.aclose()


dashboard = shop.web(access=access)
asgi = Starlette(
    routes=[Mount("/jobs", dashboard), Mount("/", get_asgi_application())], lifespan=lifespan
)
wsgi = DispatcherMiddleware(get_wsgi_application(), {"/jobs": dashboard.wsgi()})

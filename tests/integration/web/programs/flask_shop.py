"""A shop on Flask with the dashboard below /jobs, for whoever has signed in."""

import os

from flask import Flask, session
from starlette.requests import Request
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from mutirao.web import Access
from tests.support.dashboard import application

website = Flask(__name__)
website.secret_key = "of this test only"
shop = application(f"sqlite:///{os.environ['SHOP_FILE']}")


def access(request: Request) -> Access:
    """Let the session decide, as it decides everywhere else."""
    with website.request_context(request.scope["wsgi_environ"]):
        user = session.get("user")
    return Access.none() if user is None else Access.act(user)


@website.post("/sign-in/<user>")
def sign_in(user: str) -> dict[str, int]:
    """Begin a session."""
    session["user"] = user
    return {"process": os.getpid()}


dashboard = shop.web(access=access).wsgi()
website.wsgi_app = DispatcherMiddleware(website.wsgi_app, {"/jobs": dashboard})  # type: ignore[method-assign]

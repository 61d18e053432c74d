"""The dashboard in applications of Flask and Django, under gunicorn and uvicorn."""

from __future__ import annotations

import os
import shutil
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.requests import Request

from mutirao.errors import MissingDriver
from mutirao.web import Access
from tests.support.dashboard import Shop
from tests.support.served import Served
from tests.support.waiting import wait_until

PROGRAMS = Path(__file__).parent / "programs"
HOSTS = {
    # Loaded before the processes are forked: what has a thread by then loses it.
    "flask": ("gunicorn", "--preload", "-w", "2", "--threads", "2", "-b", "127.0.0.1:PORT",
              "flask_shop:website"),
    "django by wsgi": ("gunicorn", "--threads", "2", "-b", "127.0.0.1:PORT", "django_shop:wsgi"),
    "django by asgi": ("uvicorn", "--port", "PORT", "django_shop:asgi"),
}  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
def test_it_works_where_it_is_mounted(
    shop_file: tuple[Path, Shop], tmp_path: Path, host: str
) -> None:
    """Whoever has signed in at the host sees and acts; links lead below the path; it ends well."""
    path, ids = shop_file
    copy = shutil.copy(path, tmp_path / "shop.db")
    root = Path(__file__).parents[3]
    served = Served(str(PROGRAMS), tmp_path, SHOP_FILE=str(copy), PYTHONPATH=f"{root}{os.pathsep}.")
    base = f"http://127.0.0.1:{served.port}"
    with served.running(*HOSTS[host]), httpx2.Client(base_url=base) as browser:
        wait_until(lambda: served.answers("/jobs/livez"))
        assert browser.get("/jobs/").status_code == 403
        # Those who have not signed in are told from others in every process.
        assert browser.request("POST" if host == "flask" else "GET", "/sign-in/ana").is_success
        for _ in range(4):
            page = browser.get("/jobs/jobs?q=state:dead")
            assert page.status_code == 200
            assert f'href="/jobs/jobs/{ids.dead}"' in page.text
        order = {"id": ids.scheduled, "back": "/jobs/audit"}
        refused = browser.post("/jobs/act/cancel", data=order)  # from a page of nobody
        assert refused.status_code == 403
        same = {"sec-fetch-site": "same-origin"}
        done = browser.post("/jobs/act/cancel", data=order, headers=same)
        assert (done.status_code, done.headers["location"]) == (303, "/jobs/audit")
        assert ">ana<" in browser.get("/jobs/audit").text
        assert (
            browser.get("/jobs/api/v1/openapi.json").json()["servers"][0]["url"] == "/jobs/api/v1"
        )


def answered(site: Any, path: str, **environ: str) -> tuple[str, bytes]:
    """Ask a WSGI application; return the status and the body."""
    said: list[str] = []
    full = {
        "REQUEST_METHOD": "GET", "SCRIPT_NAME": "/jobs", "PATH_INFO": path, "QUERY_STRING": "",
        "SERVER_NAME": "shop", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "shop", "wsgi.input": BytesIO(), "wsgi.url_scheme": "http",
        "REMOTE_ADDR": "192.0.2.7", **environ,
    }  # fmt: skip
    body = b"".join(site(full, lambda status, *_: said.append(status)))
    return said[0], body


def test_access_is_asked_in_the_thread_of_the_request(shop: Shop) -> None:
    """With Starlette's Request, that knows the environ and who is at the other end."""
    import threading

    seen: list[Any] = []

    def access(request: Request) -> Access:
        seen.append((threading.get_ident(), request.client and request.client.host,
                     request.scope["wsgi_environ"]["shop.user"]))  # fmt: skip
        if request.url.path.endswith("/workers"):
            raise ValueError("what the host's own code raises")
        return Access.read("ana")

    site = shop.app.web(access=access).wsgi()
    assert answered(site, "/jobs", **{"shop.user": "ana"})[0] == "200 OK"
    assert seen == [(threading.get_ident(), "192.0.2.7", "ana")]
    status, page = answered(site, "/workers", **{"shop.user": "ana"})
    assert status == "500 Internal Server Error"
    assert b"Something went wrong" in page
    site.close()


def test_what_no_server_should_hand_on_is_refused(shop: Shop) -> None:
    """A path that is no UTF-8, and a query that is not ASCII."""
    site = shop.app.web(access=lambda _: Access.read()).wsgi()
    assert answered(site, "/\xff")[0] == "400 Bad Request"
    assert answered(site, "/jobs", QUERY_STRING="q=é")[0] == "400 Bad Request"


class Endless:
    """A body without an end."""

    def read(self, size: int) -> bytes:
        """Return as much as is asked for."""
        return b" " * size


@pytest.mark.parametrize(
    ("length", "body", "status"),
    [("50", BytesIO(b'{"task"'), "400 Bad Request"), ("-5", Endless(), "400 Bad Request"),
     ("many", Endless(), "400 Bad Request"), ("9" * 30, Endless(), "413 ")],
)  # fmt: skip
def test_bodies_that_are_not_as_was_said(shop: Shop, length: str, body: Any, status: str) -> None:
    """Whoever sends one, and is gone, has no thread turn without an end."""
    import threading

    site = shop.app.web(access=lambda _: Access.admin("ana")).wsgi()
    sent = {"REQUEST_METHOD": "POST", "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": length,
            "wsgi.input": body}  # fmt: skip
    said: list[str] = []
    thread = threading.Thread(
        target=lambda: said.append(answered(site, "/api/v1/jobs", **sent)[0]), daemon=True
    )
    thread.start()
    thread.join(20)
    assert [each[: len(status)] for each in said] == [status]
    site.close()


def test_it_is_closed_when_the_process_ends(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was opened with the first request; nothing before. A later one opens it anew."""
    at_exit: list[Any] = []
    monkeypatch.setattr("atexit.register", at_exit.append)
    inner = shop.app.web(access=lambda _: Access.read())
    closed: list[str] = []
    ending = inner.aclose

    async def aclose() -> None:
        await ending()
        closed.append("site")

    monkeypatch.setattr(inner, "aclose", aclose)
    site = inner.wsgi()
    assert at_exit == []
    for times in (1, 2):
        assert answered(site, "/queues")[0] == "200 OK"
        assert answered(site, "/queues")[0] == "200 OK"
        assert at_exit == [site.close] * times
        at_exit[-1]()
        assert closed == ["site"] * times


def test_without_its_package_it_says_which_extra(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only whoever asks for WSGI needs it."""
    import sys

    monkeypatch.setitem(sys.modules, "a2wsgi", None)
    monkeypatch.delitem(sys.modules, "mutirao.web.wsgi", raising=False)
    with pytest.raises(MissingDriver, match=r"mutirao\[wsgi\]"):
        shop.app.web(access=lambda _: Access.read()).wsgi()

"""The OpenAPI document says what is answered: to what fits it, and to what does not."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from shutil import copy
from typing import Any, Self

import pytest
import requests
import schemathesis
import uvicorn
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from mutirao import Mutirao
from mutirao.web.api.openapi import document
from mutirao.web.api.operations import OPERATIONS
from mutirao.web.credentials import Credentials, Door
from mutirao.web.site import Settings, Site
from tests.integration.api.conftest import TOKENS, Ask, at_once, tokens

EXAMPLES = 12  # of each operation, always the same ones
# What fits the form may still not be: a filter has a grammar of its own, a task is not known.
NOT_ASKED: list[Any] = [positive_data_acceptance]
# Some of what it puts into queries is not sent; `test_jobs` has queries that are refused.
NOT_ASKED_OF_QUERIES: list[Any] = [*NOT_ASKED, negative_data_rejection]

schema = schemathesis.openapi.from_dict(document(OPERATIONS, ""))


class _Served:
    """A dashboard on a port of its own, in a thread with an event loop."""

    def __init__(self, url: str) -> None:
        self._app = Mutirao(url)
        access = Door(Credentials(tokens=tokens()), sleep=at_once)
        site = Site(self._app, Settings(access=access))
        config = uvicorn.Config(site, log_config=None, access_log=False)
        self._server = uvicorn.Server(config)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    async def _serve(self) -> None:
        app = self._app

        @app.task
        def send(order_id: int) -> None: ...

        for each in range(3):
            await send.aenqueue(each)
        await app.schedules.aput("nightly", send.job(1), every=3_600)
        await self._server.serve([self._socket])
        await app.aclose()


@pytest.fixture(scope="module")
def address(migrated_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a dashboard that is served, with some jobs."""
    file = copy(migrated_file, tmp_path_factory.mktemp("api") / "shop.db")
    with _Served(f"sqlite:///{file}") as served:
        yield served.address


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    """One connection for all requests."""
    with requests.Session() as session:
        yield session


@schema.parametrize()
@settings(
    max_examples=EXAMPLES, derandomize=True, database=None, deadline=None,
    suppress_health_check=[*HealthCheck],
)  # fmt: skip
def test_answers_are_as_documented(
    case: schemathesis.Case[Any], address: str, session: requests.Session
) -> None:
    """The status, the kind and the form of each answer; what does not fit is refused; no 500."""
    case.call_and_validate(
        base_url=f"{address}/api/v1",
        session=session,
        headers={"Authorization": f"Bearer {TOKENS['admin']}"},
        excluded_checks=NOT_ASKED_OF_QUERIES if case.method == "GET" else NOT_ASKED,
        timeout=10,
    )


async def test_the_document_is_served(ask: Ask) -> None:
    """As it is made of the code, with where the API is; with a tag, and to whoever may look."""
    answer = await ask("read", "GET", "/openapi.json")
    assert answer.json() == document(OPERATIONS, "")
    known = {"if-none-match": answer.headers["etag"]}
    assert (await ask("read", "GET", "/openapi.json", headers=known)).status_code == 304


def test_the_document_names_each_operation() -> None:
    """With its scope, and with every status that it may have."""
    made = document(OPERATIONS, "/jobs")
    assert made["servers"] == [{"url": "/jobs/api/v1"}]
    listed = {
        each["operationId"]: each["security"][0]["token"]
        for of_path in made["paths"].values()
        for each in of_path.values()
    }
    assert listed == {each.name: [each.role.name.lower()] for each in OPERATIONS}

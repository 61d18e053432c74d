"""The first example of each extra's page, run where nothing but this extra is installed.

A page's files are written until the first block that runs something, and that block is run, on
servers of our own. Packages that the page has installed besides, such as flask-sqlalchemy, are
installed then. Drivers of databases have a section of a page in common.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import TYPE_CHECKING, Self

from sqlalchemy import make_url

from tests.support.clones import environment
from tests.support.documents import Reader
from tests.support.followed import on_mysql
from tests.support.mariadb import MysqlServer, mysql_server
from tests.support.postgresql import PostgresServer
from tests.support.sqs import USUAL, moto_server

if TYPE_CHECKING:
    from tests.support.rabbitmq import RabbitServer

ROOT = Path(__file__).parents[2]
_SHOWN = "postgresql+psycopg://shop:secret@localhost/shop"  # of docs/first-steps.md
_OF_DJANGO_5 = {  # as docs/django.md says for Python 3.11
    "from django.tasks import": "from django_tasks import",
    '.django", "kiosk"]': '.django", "django_tasks", "kiosk"]',
}


class Servers:
    """What examples connect to; each is started when it is first asked for. A context manager."""

    def __init__(self) -> None:
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @cached_property
    def postgresql(self) -> PostgresServer:
        """A PostgreSQL."""
        return self._open.enter_context(PostgresServer({"fsync": "off"}))

    @cached_property
    def mysql(self) -> MysqlServer:
        """A MariaDB."""
        return self._open.enter_context(mysql_server())

    @cached_property
    def rabbitmq(self) -> RabbitServer:
        """A node of RabbitMQ."""
        from tests.support.rabbitmq import RabbitServer  # it needs the client

        return self._open.enter_context(RabbitServer())

    def sqs(self) -> str:
        """Start a server with the interface of SQS, whose queues are empty; return its URL."""
        return self._open.enter_context(moto_server())


def install(programs: Path) -> list[str]:
    """Return the command that installs packages beside these programs, by our own pip."""
    python = str(programs / "python")
    return [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-compile"]


@dataclass(frozen=True)
class Alone:
    """The programs of an environment that holds an extra and what its page has had installed."""

    place: Path
    variables: dict[str, str] = field(default_factory=dict)

    def directory(self, installed: frozenset[str]) -> Path:
        """Install the packages, but no extra; return where the programs are."""
        packages = sorted(each for each in installed if not each.startswith("["))
        if packages:
            command = [*install(self.place), *packages]
            subprocess.run(command, check=True, text=True, stdout=PIPE, stderr=STDOUT)
        return self.place

    def environment(self) -> dict[str, str]:
        """Return what an empty environment has, with this one's programs first."""
        own = environment(self.variables)
        return {**own, "PATH": f"{self.place}{os.pathsep}{own['PATH']}"}


@dataclass(frozen=True)
class Example:
    """A block of a page that runs something, and what it needs.

    Parameters:
        page: relative to the repository.
        having: what the block has; the page's first one by default.
        driver: of the database, in place of the page's psycopg.
        text: blocks of ours where the page describes without an example.
    """

    page: str
    having: str = ""
    driver: str = ""
    text: str = ""

    def show(self, programs: Path, python: str, servers: Servers) -> None:
        """Run it in an empty directory; AssertionError or CalledProcessError if it fails."""
        with tempfile.TemporaryDirectory(prefix="example-", dir=programs.parent) as place:
            meant, variables = self._there(python, servers)
            page = ROOT / self.page
            if self.text:
                page = Path(place, page.name)
                page.write_text(self.text)
            reader = Reader(Path(place), meant, "", "", programs=Alone(programs, variables))
            reader.show(page, self.having)

    def _there(self, python: str, servers: Servers) -> tuple[dict[str, str], dict[str, str]]:
        """Return what stands for what the page has, and variables."""
        match self.page:
            case "docs/rabbitmq.md":
                there = f"127.0.0.1:{servers.rabbitmq.port}"
                shown = ("guest:guest@localhost", "guest@localhost")
                return {each: each.replace("localhost", there) for each in shown}, {}
            case "docs/mysql.md":
                return on_mysql(servers.mysql), {}
            case "docs/sqs.md":
                return {}, {**USUAL, "AWS_ENDPOINT_URL_SQS": servers.sqs()}
            case "docs/django.md" if python == "3.11":
                return _OF_DJANGO_5, {}
        return (self._of_database(servers) if self.driver else {}), {}

    def _of_database(self, servers: Servers) -> dict[str, str]:
        server = servers.postgresql if "postgresql" in self.driver else servers.mysql
        url = make_url(server.url(server.create_database())).set(drivername=self.driver)
        hidden = url.render_as_string(hide_password=True)
        real = url.render_as_string(hide_password=False)
        return {_SHOWN: real, _SHOWN.replace("secret", "***"): hidden}


def _driver(name: str) -> Example:
    return Example("docs/first-steps.md", having="send_receipt '{", driver=name)


_RELOADED = """
```python
# shop.py
from mutirao import Mutirao

app = Mutirao("sqlite:///shop.db")


@app.task
async def send_receipt(order_id: int) -> None: ...
```

```console
$ mutirao migrate shop:app
sqlite:///shop.db is at revision …
$ mutirao worker shop:app --reload
2026-11-21T14:24:21.684Z INFO    mutirao: worker 1 (laptop:16520) started
^C
2026-11-21T14:24:24.180Z INFO    mutirao: worker 1 stopped
```
"""


EXAMPLES = {
    "": Example("README.md"),
    "postgresql": _driver("postgresql+psycopg"),
    "asyncpg": _driver("postgresql+asyncpg"),
    "psycopg2": _driver("postgresql+psycopg2"),
    "mysql": Example("docs/mysql.md"),
    "mysqlclient": _driver("mysql+mysqldb"),
    "reload": Example("docs/cli.md", text=_RELOADED),
    "rabbitmq": Example("docs/rabbitmq.md"),
    "sqs": Example("docs/sqs.md"),
    "webhooks": Example("docs/webhooks.md"),
    "http2": Example("docs/webhooks.md"),
    "federation": Example("docs/federation.md"),
    "web": Example("docs/dashboard.md", having="mutirao web"),
    "wsgi": Example("docs/dashboard.md", having="gunicorn"),
    "django": Example("docs/django.md"),
    "flask": Example("docs/flask.md"),
    "litestar": Example("docs/litestar.md"),
    "prometheus": Example("docs/telemetry.md"),
    "otel": Example("docs/tracing.md"),
    "sentry": Example("docs/sentry.md"),
}

"""A small application in a directory of its own, and the command line to use it with."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner, Result

from mutirao.cli import main
from mutirao.sql.store.jobs import SqlStore
from tests.support.history import History, make_history, opened

T = TypeVar("T")

# click 8.1 mixes the two streams unless it is told not to; later it cannot be told.
APART: dict[str, Any] = (
    {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
)

SHOP = '''
from mutirao import Mutirao

app = Mutirao({url!r})
orders: list[int] = []


class inner:
    app = app


@app.task(queue="mail", tags=["receipt"])
async def send(order_id: int = 0, note: str = "") -> None:
    """Send a receipt, or fail to."""
    if note == "fail":
        raise ValueError("no such order\\nsecond line")
'''


@dataclass
class Shell:
    """Runs commands in the directory of an application that is `shop:app`."""

    url: str
    directory: Path

    def run(self, *args: object, env: dict[str, str] | None = None, **options: Any) -> Result:
        """Run a command; any exception but an exit is the test's failure."""
        runner = CliRunner(env={"COLUMNS": "200", "LC_ALL": "C", **(env or {})}, **APART)
        return runner.invoke(main, [str(arg) for arg in args], catch_exceptions=False, **options)

    def ok(self, *args: object, **options: Any) -> str:
        """Run a command that succeeds; return what it printed."""
        result = self.run(*args, **options)
        assert (result.exit_code, result.stderr) == (0, "")
        return result.stdout

    def json(self, *args: object) -> Any:
        """Run a command that succeeds with --json; return the one document it printed."""
        return json.loads(self.ok(*args, "--json"))

    def refused(self, status: int, *args: object, **options: Any) -> str:
        """Run a command that fails with `status`; return what it said, without a traceback."""
        result = self.run(*args, **options)
        assert result.exit_code == status, result.output
        assert "Traceback" not in result.output
        return result.stderr

    def store(self, body: Callable[[SqlStore], Awaitable[T]]) -> T:
        """Do something with the store of the application's database."""

        async def done() -> T:
            async with opened(self.url) as store:
                return await body(store)

        return asyncio.run(done())

    def history(self) -> History:
        """Make a job for each state."""
        return self.store(make_history)


def make_shop(url: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Write the application, go to its directory, and forget its module afterwards."""
    (directory / "shop.py").write_text(SHOP.format(url=url))
    monkeypatch.chdir(directory)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("MUTIRAO_APP", raising=False)
    for name in ("shop", "other", "broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return Shell(url, directory)


@pytest.fixture
def shell(migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """The application on a migrated database, once on each kind."""
    yield make_shop(migrated_url, tmp_path, monkeypatch)
    sys.modules.pop("shop", None)


@pytest.fixture
def empty_shell(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shell]:
    """The application on a database without Mutirão's tables, once on each kind."""
    yield make_shop(database_url, tmp_path, monkeypatch)
    sys.modules.pop("shop", None)


@pytest.fixture
def sqlite_shell(
    migrated_sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shell]:
    """The application on SQLite, for what has nothing to do with the database."""
    yield make_shop(migrated_sqlite_url, tmp_path, monkeypatch)
    sys.modules.pop("shop", None)

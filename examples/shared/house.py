"""What the demonstrations share: a database of their own, the programs in it, and looks into it."""

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from sqlalchemy import URL, NullPool, create_engine, make_url, text
from sqlalchemy.exc import SQLAlchemyError

T = TypeVar("T")

DEADLINE = 120.0  # seconds, for a busy machine

DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}
WHATS = {"postgresql": "schema", "mysql": "database", "mariadb": "database"}
USUAL = "postgresql+psycopg://… or mysql+pymysql://…"


class House:
    """The programs of an example, and what is in their database."""

    def __init__(self, url: URL, example: Path, environment: dict[str, str]) -> None:
        self._engine = create_engine(url, poolclass=NullPool)
        self._example, self._environment = example, environment
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a program beside the example."""
        program = subprocess.Popen(command, cwd=self._example, env=os.environ | self._environment)
        self._running.append(program)
        return program

    def run(self, *command: str) -> None:
        """Run a program to its end."""
        if self.start(*command).wait() != 0:
            sys.exit(f"{' '.join(command)} failed")

    def kill(self, *pids: int) -> None:
        """End programs as a power cut would: they finish nothing and tell nobody."""
        for program in self._running:
            if program.pid in pids:
                program.kill()
                program.wait()

    def close(self) -> None:
        """Stop whatever still runs."""
        for program in self._running:
            program.terminate()
        for program in self._running:
            program.wait()

    def ask(self, question: str) -> list[Any]:
        """Return the rows that a query finds."""
        with self._engine.connect() as connection:
            return list(connection.execute(text(question)))

    def say(self, statement: str) -> None:
        """Have a statement change something."""
        with self._engine.begin() as connection:
            connection.execute(text(statement))


@contextmanager
def opened(name: str, example: Path, arguments: list[str], **more: str) -> Iterator[House]:
    """Lend a house in a database of its own; its programs are stopped at the end.

    Parameters:
        name: the example's; its programs find the database's URL in NAME_DATABASE.
        example: its directory.
        arguments: nothing, or the URL of a server.
        more: what else the programs find in their environment.
    """
    with database(arguments, name) as url:
        shown = url.render_as_string(hide_password=False)
        house = House(url, example, {f"{name.upper()}_DATABASE": shown} | more)
        try:
            yield house
        finally:
            house.close()


@contextmanager
def database(arguments: list[str], name: str) -> Iterator[URL]:
    """Lend a database where nothing else is: a new file, or what a server makes for it."""
    if arguments:
        with made(arguments[0]) as url:
            yield url
        return
    with TemporaryDirectory(prefix=f"mutirao-{name}-") as directory:
        print(f"All happens in the SQLite file {directory}/{name}.db, removed at the end.")
        yield make_url(f"sqlite:///{directory}/{name}.db")


@contextmanager
def made(server: str) -> Iterator[URL]:
    """Lend a schema of a PostgreSQL server, or a database of a MySQL or MariaDB server."""
    kind = server.partition(":")[0].partition("+")[0]
    if kind not in DRIVERS:
        sys.exit(f"Give the URL of a server, {USUAL}, or nothing for SQLite.")
    url, what = make_url(server).set(drivername=DRIVERS[kind]), WHATS[kind]
    new = f"mutirao_demo_{secrets.token_hex(4)}"
    print(f"All happens on {url!r}, in a {what} made now, {new}, dropped at the end.")
    engine = create_engine(url, poolclass=NullPool)
    try:
        with engine.begin() as connection:
            connection.execute(text(f"CREATE {what} {new}"))
    except SQLAlchemyError as error:
        sys.exit(f"The {what} cannot be made: {error}")
    try:
        yield inside(url, new)
    finally:
        with engine.begin() as connection:
            connection.execute(text(f"DROP {what} {new}{' CASCADE' * (what == 'schema')}"))


def inside(url: URL, new: str) -> URL:
    """Return the URL of a schema or database of a server."""
    if WHATS[url.get_backend_name()] == "database":
        return url.set(database=new)
    options = f"{url.query.get('options', '')} -csearch_path={new}"
    return url.update_query_dict({"options": options.strip()})


def decoded(found: str | dict[str, int]) -> dict[str, int]:
    """Return the arguments of a job from a view, which are text but on PostgreSQL."""
    args: dict[str, int] = json.loads(found) if isinstance(found, str) else found
    return args


def moment(found: str | datetime) -> datetime:
    """Return a moment of a view, which is text on SQLite, as Python knows it."""
    told = datetime.fromisoformat(found) if isinstance(found, str) else found
    return told if told.tzinfo else told.replace(tzinfo=UTC)


def until(look: Callable[[], T], complaint: str) -> T:
    """Return what `look` finds, once it finds something; give up after two minutes."""
    end = time.monotonic() + DEADLINE
    while not (found := look()):
        if time.monotonic() > end:
            sys.exit(f"The promise did NOT hold: {complaint} within {DEADLINE:.0f} s.")
        time.sleep(0.05)
    return found

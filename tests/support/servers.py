"""A private server of a database: real, thrown away afterwards, and stopped whatever happens.

It listens on a free port of 127.0.0.1, keeps its files in a temporary directory and runs as an
unprivileged user when it is started by root.
"""

from __future__ import annotations

import atexit
import itertools
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, TypedDict

DEADLINE = 100.0  # seconds; PostgreSQL 15 has noticed only after 60 that its last child had ended
# Below the range that systems give to outgoing connections: a client that knocks again and again
# while the server restarts could otherwise be given the very port it knocks at.
_PORTS = range(20_000, 30_000)

# Its standard input is a pipe that we hold: it closes when we end, even by SIGKILL.
_WATCHDOG = """
while read -r _; do :; done
pid=$(head -n 1 "$1/$2" 2>/dev/null) && kill -$3 "$pid"
while [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
rm -rf "$1"
"""

Command = Sequence[str | Path]


class ServerFailed(Exception):
    """The server did not start or did not stop; the message ends with its log."""


class RunAs(TypedDict, total=False):
    """Whom to run a program as."""

    user: int
    group: int
    extra_groups: list[int]


class PrivateServer(ABC):
    """One private server. Use it as a context manager.

    `name`: of the database. `pid_file`: where the server writes its process id, in its directory.
    `at_once`: the signal that ends it without waiting for anybody. `refusals`: the errors of a
    connection while it does not answer yet. `patience`: seconds within which it must answer.
    """

    name: ClassVar[str]
    pid_file: ClassVar[str]
    at_once: ClassVar[signal.Signals]
    refusals: ClassVar[type[Exception]]
    patience: ClassVar[float] = DEADLINE

    def __init__(self) -> None:
        self._names = itertools.count(1)
        self._owner = os.getpid()
        self._directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self.port = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process id of the running server. Raises `ServerFailed` where none runs."""
        if self._process is None:
            raise ServerFailed("The server is not running: start() it first.")
        return self._process.pid

    @property
    def directory(self) -> Path:
        """The temporary directory of the server. Raises `ServerFailed` where there is none."""
        if self._directory is None:
            raise ServerFailed("The server has no directory: start() it first.")
        return self._directory

    @abstractmethod
    def connect(self) -> Any:
        """Return a connection to the server."""

    @abstractmethod
    def _make(self) -> None:
        """Make the directory, and the files in it that the server needs to start."""

    @abstractmethod
    def _command(self) -> Command:
        """Return the command that is the server."""

    def start(self) -> None:
        """Start the server, making its files first if need be, and wait until it answers."""
        if self._process is not None:
            return
        try:
            if self._directory is None:
                self._make()
            self._launch()
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop the server at once and remove its directory."""
        # A forked child inherits this object and our exit handlers; the server is not its own.
        if self._directory is None or os.getpid() != self._owner:
            return
        try:
            self._end(self.at_once)
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None
            atexit.unregister(self.close)
            self._dismiss_watchdog()

    def crash(self) -> None:
        """End the server without waiting for anybody, and start it again: it has to recover."""
        self.fall()
        self.start()

    def fall(self) -> None:
        """End the server without waiting for anybody: it has to recover when it is started."""
        self._end(self.at_once)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise ServerFailed(self._explain(f"It did not stop within {DEADLINE} s.")) from None
        finally:
            self._process = None

    def _make_directory(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix=f"mutirao-{self.name.lower()}-"))
        atexit.register(self.close)
        arguments: Command = (self._directory, self.pid_file, self.at_once.name[3:])
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG, "watchdog", *arguments],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        run_as = unprivileged()
        if run_as:
            os.chown(self._directory, run_as["user"], run_as["group"])
        self.port = free_port()

    def _run(self, *command: str | Path) -> None:
        ran = subprocess.run(
            command,
            cwd=self.directory,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **unprivileged(),
        )
        if ran.returncode != 0:
            self.close()
            program = Path(command[0]).name
            raise ServerFailed(f"{program} failed with {ran.returncode} and said:\n{ran.stdout}")

    def _launch(self) -> None:
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C at the terminal is for us: we stop the server when we are done with it.
                start_new_session=True,
                **unprivileged(),
            )

    def _wait_until_ready(self) -> None:
        if self._process is None:
            raise ServerFailed("The server was not launched.")
        deadline = time.monotonic() + self.patience
        while True:
            try:
                self.connect().close()
            except self.refusals as error:
                if time.monotonic() > deadline:
                    raise ServerFailed(self._explain(f"It does not answer: {error}")) from error
            else:
                return
            try:
                status = self._process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            self._process = None
            raise ServerFailed(self._explain(f"It ended with status {status}."))

    def _explain(self, what: str) -> str:
        log = (self.directory / "log").read_text(errors="replace").splitlines()
        return "\n".join([f"The {self.name} server failed. {what} Its log ends:", *log[-20:]])

    def _dismiss_watchdog(self) -> None:
        if self._watchdog is not None:
            self._watchdog.communicate()
            self._watchdog = None


def unprivileged() -> RunAs:
    """Return whom to run as when we are root, whom databases refuse; otherwise nothing."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise ServerFailed(
        "PostgreSQL refuses to run as root, and there is no user postgres or nobody."
    )


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens."""
    for port in random.sample(_PORTS, k=100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ServerFailed(f"None of 100 ports tried between {_PORTS[0]} and {_PORTS[-1]} is free.")


def serve(server: PrivateServer, url: Callable[[], str]) -> None:
    """Run a server, print the URL that it has then, and stop it at Ctrl-C or SIGTERM."""
    for end in (signal.SIGINT, signal.SIGTERM):
        signal.signal(end, signal.default_int_handler)
    try:
        with server:
            print(url(), flush=True)
            while True:
                time.sleep(1)  # unlike a pause, it ends where a signal comes just before it
    except KeyboardInterrupt:
        print("stopped")

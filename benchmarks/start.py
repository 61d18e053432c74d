"""`start`: what it takes to import, and to start a worker, in time and in memory.

All in turns, each in a process of its own, so that load from elsewhere meets all alike. A worker is
ready at its first claim, of which it tells as a service of systemd does; those of others when they
log that they are. What is not installed here is left out, and said.
"""

import asyncio
import os
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic

from sqlalchemy import make_url

from benchmarks.figures import Figures
from benchmarks.ground import ground

PATIENCE = 60.0  # seconds until a worker must be ready
MEBIBYTE = 1 << 20
_TICKS, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")

_WAIT = "; print('ready', flush=True); input()"
_SHOP = """
import os
from mutirao import Mutirao
app = Mutirao(os.environ["URL"])
@app.task
async def nothing() -> None: ...
"""
_BARE = """
import os
from sqlalchemy import create_engine, text
with create_engine(os.environ["URL"]).connect() as connection:
    connection.execute(text("SELECT 1"))
    print("ready", flush=True)
    input()
"""
_ASYNCHRONOUS = """
import asyncio, os
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
async def main():
    async with create_async_engine(os.environ["URL"]).connect() as connection:
        await connection.execute(text("SELECT 1"))
        print("ready", flush=True)
        input()
asyncio.run(main())
"""
_CELERY = "from celery import Celery\napp = Celery(broker='memory://')\n"
_HUEY = "from huey import SqliteHuey\nhuey = SqliteHuey(filename='huey.db')\n"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A program: its words after the interpreter, and what it says once it is ready.

    Parameters:
        needs: the package without which it is left out.
        says: None: it tells systemd.
    """

    name: str
    words: Sequence[str]
    says: str | None
    needs: str = "mutirao"


_WITH_ASYNCIO = "SQLAlchemy connected, asyncio"
CANDIDATES = (
    Candidate("import sqlalchemy", ("-c", f"import sqlalchemy{_WAIT}"), "ready"),
    Candidate("import mutirao", ("-c", f"from mutirao import Mutirao{_WAIT}"), "ready"),
    Candidate("SQLAlchemy connected", ("-c", _BARE), "ready"),
    Candidate(_WITH_ASYNCIO, ("-c", _ASYNCHRONOUS), "ready"),
    Candidate("mutirao worker", ("-m", "mutirao", "worker", "start_shop:app"), None),
    Candidate(
        "celery worker, solo",
        ("-m", "celery", "-A", "start_celery:app", "worker", "-P", "solo", "-l", "info"),
        " ready.",
        "celery",
    ),
    Candidate(
        "huey consumer, 1 thread",
        ("-m", "huey.bin.huey_consumer", "start_huey.huey", "-v"),
        "Huey consumer started",
        "huey",
    ),
)


@dataclass(frozen=True, slots=True)
class Started:
    """A program when it was ready: seconds by the clock and of CPU, bytes of resident memory."""

    seconds: float
    cpu: float
    memory: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What it took each, in the order of the rounds; `missing`: the packages of those left out."""

    started: Mapping[str, Sequence[Started]]
    missing: Sequence[str]

    def figures(self) -> Figures:
        """Return medians, and our ratios to SQLAlchemy alone."""
        found: Figures = {}
        for name, rounds in self.started.items():
            found[f"{name}: s"] = median(each.seconds for each in rounds)
            found[f"{name}: s of CPU"] = median(each.cpu for each in rounds)
            found[f"{name}: MiB"] = median(each.memory for each in rounds) / MEBIBYTE
        found["import, CPU, times SQLAlchemy's"] = self._ratio(
            "import mutirao", "import sqlalchemy", lambda each: each.cpu
        )
        for bare in ("SQLAlchemy connected", _WITH_ASYNCIO):
            if bare in self.started:
                name = f"worker, memory, times {bare}"
                found[name] = self._ratio("mutirao worker", bare, lambda each: each.memory)
        return found

    def _ratio(self, ours: str, theirs: str, of: Callable[[Started], float]) -> float:
        pairs = zip(self.started[ours], self.started[theirs], strict=True)
        return median(of(mine) / of(bare) for mine, bare in pairs)


async def start(url: str, *, rounds: int = 5) -> Start:
    """Start each program so often, in turns.

    Parameters:
        url: a database that a benchmark may use, see `Ground.prepare`.
        rounds: how often.

    Raises:
        RuntimeError: a program ended, or was not ready in time.
        MutiraoError: the database is not ours to use.
    """
    async with ground(url):
        return await asyncio.to_thread(_rounds, url, rounds)


def _rounds(url: str, rounds: int) -> Start:
    both = make_url(url).drivername == "postgresql+psycopg"  # one driver for both
    fit = [each for each in CANDIDATES if both or each.name != _WITH_ASYNCIO]
    here = [each for each in fit if find_spec(each.needs)]
    found: dict[str, list[Started]] = defaultdict(list)
    with TemporaryDirectory() as directory:
        for name, code in (("shop", _SHOP), ("celery", _CELERY), ("huey", _HUEY)):
            (Path(directory) / f"start_{name}.py").write_text(code)
        for _ in range(rounds):
            for each in here:
                found[each.name].append(_start(each, url, directory))
    missing = [each.needs for each in fit if each not in here]
    return Start(started=found, missing=missing)


def _start(candidate: Candidate, url: str, directory: str) -> Started:
    with _told(directory) as line, _running(candidate, url, directory) as process:
        since = monotonic()
        if candidate.says is None:
            ready = line.recv(100).startswith(b"READY=1")
        else:
            assert process.stdout is not None
            ready = any(candidate.says in said for said in iter(process.stdout.readline, ""))
        if not ready:
            raise RuntimeError(f"{candidate.name} ended with status {process.wait()}")
        taken = monotonic() - since
        return Started(taken, *_spent(process.pid))


@contextmanager
def _told(directory: str) -> Iterator[socket.socket]:
    """Listen as systemd does."""
    path = Path(directory) / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind(str(path))
        line.settimeout(PATIENCE)
        try:
            yield line
        finally:
            path.unlink()


@contextmanager
def _running(candidate: Candidate, url: str, directory: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program until it is killed."""
    env = {**os.environ, "URL": url, "NOTIFY_SOCKET": f"{directory}/notify"}
    env["PYTHONPATH"] = os.pathsep.join([directory, *filter(None, [env.get("PYTHONPATH")])])
    with subprocess.Popen(
        [sys.executable, *candidate.words],
        cwd=directory,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _spent(pid: int) -> tuple[float, float]:
    """Return the seconds of CPU and the bytes of resident memory of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu = (int(fields[11]) + int(fields[12])) / _TICKS
    return cpu, int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE

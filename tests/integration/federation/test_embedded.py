"""The sites of the documentation, in several server processes, each with a worker inside."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from mutirao import Mutirao
from tests.integration.federation.test_delivering import Remote
from tests.support.documents import blocks
from tests.support.servers import free_port
from tests.support.waiting import until
from tests.support.webhooks import serving

PAGE = Path(__file__).parents[3] / "docs" / "federation.md"
INSIDE = 'Guard(schemes=["http"], ports=range(1, 65_536), networks=["127.0.0.0/8"])'
NOTES, EDITS = 20, 3
# How the programs are run, on a port. Hypercorn makes no further process: it is killed itself.
PROGRAMS = {
    "site_of_ann": "site_of_ann.py {}",
    "api_of_ann": "-m hypercorn api_of_ann:api --workers 0 --bind 127.0.0.1:{}",
}
SHOP = "postgresql+psycopg://shop:secret@localhost/shop"


@pytest.mark.repeats("api_of_ann", decided="tests/integration/federation/test_embedded.py")
@pytest.mark.parametrize("name", PROGRAMS)
async def test_what_servers_wrote_arrives_though_one_is_killed(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The last state of each note, once; what waits takes no threads.

    Of Django on SQLite, of FastAPI on PostgreSQL.
    """
    url = f"sqlite:///{tmp_path}/site.db"
    if name == "api_of_ann":
        url = request.getfixturevalue("postgresql_url")
    remote = Remote()
    async with serving(remote.behave) as there:
        site(tmp_path, name, {"https://b.example/inbox": there.url(), "Guard()": INSIDE, SHOP: url})
        app = Mutirao(url)
        app.migrate()
        await app.hosts.ahold("127.0.0.1")
        with server(tmp_path, name) as (first, port), server(tmp_path, name) as (second, other):
            for n in range(NOTES * EDITS):
                await write((port, other)[n % 2], n % NOTES, f"edit {n // NOTES}")
            await until(lambda: waiting(app))
            assert threads_of(first) < NOTES
            first.kill()
            first.wait()
            with server(tmp_path, name) as (third, again):
                await write(again, NOTES, "edit 2")
                await app.hosts.aflush("127.0.0.1")
                await remote.has_taken(NOTES + 1)
                await until(lambda: nothing_waits(app))
                pids = [each.pid for each in await app.aworkers()]
        await app.aclose()
        app.close()
    assert {second.pid, third.pid} <= set(pids)
    assert len(pids) == len(set(pids))  # one worker for each process
    assert {each["object"]["content"] for each in remote.taken} == {"edit 2"}
    assert len({each["object"]["id"] for each in remote.taken}) == NOTES + 1


def site(directory: Path, name: str, meant: dict[str, str]) -> None:
    """Write a program of the page, with what is there for what the page has."""
    [program] = [
        each.body for each in blocks(PAGE.read_text()) if each.body.startswith(f"# {name}.py")
    ]
    for shown, there in meant.items():
        program = program.replace(shown, there)
    (directory / f"{name}.py").write_text(program)


@contextmanager
def server(directory: Path, name: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run a server process; yield it, once it answers, and its port."""
    with ExitStack() as stack:
        port = free_port()
        command = [sys.executable, *PROGRAMS[name].format(port).split()]
        process = stack.enter_context(subprocess.Popen(command, cwd=directory))
        stack.callback(process.kill)
        yield process, port


async def write(port: int, number: int, content: str) -> None:
    """Change a note, as soon as the server answers."""
    url = f"http://127.0.0.1:{port}/notes/{number}?{urlencode({'content': content})}"

    def put() -> bool:
        try:
            with urlopen(Request(url, content.encode(), method="PUT"), timeout=60) as answer:
                return bool(answer.status == 202)
        except URLError:
            return False

    await until(lambda: asyncio.to_thread(put))


async def waiting(app: Mutirao) -> bool:
    """Return whether one delivery waits for each note, and no older one."""
    held = await app.ajobs(task="federation.deliver", state="blocked", limit=None)
    sends = await app.ajobs(task="federation.send", state="succeeded", limit=None)
    return (len(held), len(sends)) == (NOTES, NOTES * EDITS)


async def nothing_waits(app: Mutirao) -> bool:
    """Return whether all deliveries have ended."""
    return not await app.ajobs(task="federation.deliver", states=["blocked", "running", "ready"])


def threads_of(process: subprocess.Popen[bytes]) -> int:
    """Return how many threads a process has."""
    return len(list(Path(f"/proc/{process.pid}/task").iterdir()))

"""`app.reading`: what pages ask of an application, on SQLite."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mutirao import Mutirao
from mutirao.errors import InvalidFilter, UnknownJob
from mutirao.sql.statements.finding import paging


@pytest.fixture
async def app(migrated_sqlite_url: str) -> AsyncIterator[Mutirao]:
    """An application with two tasks."""
    app = Mutirao(migrated_sqlite_url)

    @app.task(queue="mail")
    def send(n: int) -> None: ...

    @app.task(queue="video")
    def resize(n: int) -> None: ...

    yield app
    await app.aclose()


async def test_a_walk_through_pages(app: Mutirao) -> None:
    """From page to page by cursors, until there is no next one."""
    send = app.tasks["send"]
    ids = [(await send.aenqueue(n=n)).id for n in range(5)]
    seen: list[object] = []
    cursor = None
    while True:
        page = await app.reading.asearch("queue:mail", cursor=cursor, size=2)
        seen += [job.id for job in page.jobs]
        if (cursor := page.next) is None:
            break
    assert seen == ids[::-1]
    assert (await app.reading.ahow_many("queue:mail", most=4)).at_least
    with pytest.raises(InvalidFilter):
        await app.reading.asearch("queue:mail", cursor="7")
    with pytest.raises(InvalidFilter):
        await app.reading.asearch("mail")


async def test_a_search_goes_on_where_it_stopped(
    app: Mutirao, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far down there is one: pages without a job say so, and lead to it."""
    monkeypatch.setattr(paging, "LOOKED_AT", 3)
    send, resize = app.tasks["send"], app.tasks["resize"]
    first = await resize.aenqueue(n=0)
    for n in range(10):
        await send.aenqueue(n=n)
    seen: list[tuple[list[int], bool]] = []
    cursor = None
    while True:
        page = await app.reading.asearch("task:resize", cursor=cursor)
        seen.append(([job.id for job in page.jobs], page.searched_all))
        if (cursor := page.next) is None:
            break
    assert seen == [([], False)] * 3 + [([first.id], True)]
    assert await app.reading.ahow_many("task:resize") == (
        await app.reading.ahow_many("task:nothing")
    )  # of the newest three, and it says that there may be more
    assert (await app.reading.ahow_many("task:resize")).at_least


async def test_why(app: Mutirao) -> None:
    """No worker; a pause; the end of a job; none of that id."""
    job = await app.tasks["send"].aenqueue(n=1)
    assert isinstance(job.id, int)
    assert [each.kind for each in await app.reading.awhy(job.id)] == ["no_worker"]
    await app.apause(queue="mail")
    assert [each.kind for each in await app.reading.awhy(job.id)] == ["paused", "no_worker"]
    await app.acancel(job.id)
    assert [each.text for each in await app.reading.awhy(job.id)] == ["it has ended: cancelled"]
    with pytest.raises(UnknownJob):
        await app.reading.awhy(4_711)


async def test_known_names(app: Mutirao) -> None:
    """Queues that have jobs; tasks of what has ended lately."""
    await app.tasks["send"].aenqueue(n=1)
    job = await app.tasks["resize"].aenqueue(n=1)
    assert isinstance(job.id, int)
    await app.acancel(job.id)
    known = await app.reading.aknown()
    assert known.queues == ("mail", "video")
    assert known.tasks == ("resize",)


def test_the_synchronous_face(migrated_sqlite_url: str) -> None:
    """Each operation has one."""
    app = Mutirao(migrated_sqlite_url)
    assert app.reading.search("state:dead").jobs == ()
    assert app.reading.how_many().jobs == 0
    assert not [*app.reading.figures(), *app.reading.minutes(), *app.reading.waits()]
    assert not [*app.reading.errors(), *app.reading.running()]
    app.close()

"""`app.reading`: what pages ask of an application, on SQLite."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mutirao import Mutirao, chain
from mutirao.errors import InvalidFilter, UnknownJob
from mutirao.model.reading.figures import Counted
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


async def test_what_a_filter_names_is_found_at_once(
    app: Mutirao, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key, a graph or a range of ids, far down: on the first page, and counted to the end."""
    send, resize = app.tasks["send"], app.tasks["resize"]
    keyed = await send.using(key="a").aenqueue(n=0)
    graph = await app.aenqueue_graph(chain(resize.job(n=1), resize.job(n=2)))
    await app.aenqueue_many([send.job(n=n) for n in range(20)])
    monkeypatch.setattr(paging, "LOOKED_AT", 4)
    step = graph.id
    for text, ids in [
        ("key:a", [keyed.id]),
        ("key:a,b queue:mail", [keyed.id]),
        (f"graph:{step}", [step + 1, step]),
        (f"id:1..{step + 1}", [step + 1, step, keyed.id]),
        (f"id:1..3 queue:mail id:..{step - 1}", [keyed.id]),
        (f"id:{keyed.id},{step}..{step + 1} queue:video", [step + 1, step]),
    ]:
        page = await app.reading.asearch(text)
        assert ([job.id for job in page.jobs], page.searched_all) == (ids, True), text
        assert await app.reading.ahow_many(text) == Counted(len(ids)), text
    for text in ("-id:1..3", "-key:a", "key:a*", "id:1.."):
        assert not (await app.reading.asearch(text)).searched_all, text


async def test_counts_go_on_where_they_stopped(
    app: Mutirao, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Window by window, as far as is asked for; then they say that there may be more."""
    monkeypatch.setattr(paging, "LOOKED_AT", 3)
    send, resize = app.tasks["send"], app.tasks["resize"]
    for task in (resize, send, send, send, resize, send, send):
        await task.aenqueue(n=0)
    how_many = app.reading.ahow_many
    assert await how_many("task:resize") == Counted(1, at_least=True)
    assert await how_many("task:resize", windows=2) == Counted(1, at_least=True)
    assert await how_many("task:resize", windows=3) == Counted(2)
    assert await how_many("task:resize", most=1, windows=3) == Counted(1, at_least=True)
    assert await how_many("task:resize", most=2, windows=3) == Counted(2)

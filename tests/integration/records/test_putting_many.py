"""`put_many` of schedules, subscriptions and endpoints: checked, then written in thousands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from threading import get_ident
from typing import Any

import pytest

from mutirao import Mutirao
from mutirao.client.many import PUT_AT_ONCE
from mutirao.errors import (
    InvalidEndpoint,
    InvalidJob,
    InvalidSchedule,
    InvalidSubscription,
    MutiraoError,
)
from mutirao.webhooks import new_secret

pytestmark = pytest.mark.repeats(
    "postgresql", "mysql", decided="conformance/src/mutirao_conformance/many.py"
)

URL = "https://erp.example/hook"
Given = dict[str, Any]


@pytest.fixture(params=["schedules", "subscriptions", "endpoints"])
def kind(request: pytest.FixtureRequest) -> str:
    """What is put."""
    return str(request.param)


class Kind:
    """One of the three, with a task or a secret for it."""

    def __init__(self, app: Mutirao, kind: str) -> None:
        @app.task
        def fetch(shop: int) -> None: ...

        @app.subscriber("send")
        def send(event: dict[str, int]) -> None: ...

        kinds: dict[str, tuple[str, Given, type[MutiraoError]]] = {
            "schedules": ("name", {"job": fetch.job(shop=1), "every": 60}, InvalidSchedule),
            "subscriptions": ("id", {"handler": send, "topic": "*"}, InvalidSubscription),
            "endpoints": ("id", {"url": URL, "topics": "*", "secret": None}, InvalidEndpoint),
        }
        key, rest, self.refusal = kinds[kind]
        self.one: Callable[..., Given] = lambda name, **more: {key: name, **rest, **more}
        self.face: Any = getattr(app, kind)
        self.put: Callable[[Iterable[Given]], Awaitable[tuple[Any, ...]]] = self.face.aput_many
        self.key, self.rest = key, rest

    async def names(self) -> list[str]:
        """Return the names of those there are."""
        return [getattr(each, self.key) for each in await self.face.alist()]


async def test_many(app: Mutirao, kind: str) -> None:
    """All are there, and are returned in the order given, also where there are several parts."""
    many = Kind(app, kind)
    names = [f"s{n:04}" for n in reversed(range(PUT_AT_ONCE + 1))]
    assert len(await many.put(many.one(name) for name in names)) == len(names)
    assert await many.names() == sorted(names)
    assert await many.put([]) == ()


async def test_nothing_is_written_of_what_is_refused(app: Mutirao, kind: str) -> None:
    """Twice the same name, none, an unknown option: said with the number and the name."""
    many = Kind(app, kind)
    first = [many.one(f"s{n:04}") for n in range(PUT_AT_ONCE)]
    with pytest.raises(many.refusal, match="'s0007' is given twice in one call"):
        await many.put([*first, many.one("s0007")])
    for wrong in (many.rest, many.one(7), "text"):
        with pytest.raises(many.refusal, match="number 1001 of this call is"):
            await many.put([*first, wrong])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="no option 'colour'") as raised:
        await many.put([*first, many.one("odd", colour="red")])
    assert raised.value.__notes__ == [f"{kind[:-1]} number 1001 of this call, 'odd'"]
    with pytest.raises(MutiraoError):
        await many.put([*first, {many.key: "bare"}])
    assert await many.names() == []


async def test_what_only_the_database_knows(app: Mutirao) -> None:
    """A schedule that is over, and what was written before it."""
    many = Kind(app, "schedules")
    first = [many.one(f"s{n:04}") for n in range(PUT_AT_ONCE)]
    over = many.one("over", until=datetime.now(UTC) - timedelta(days=1))
    with pytest.raises(InvalidSchedule, match="'over' would never make a job") as raised:
        await many.put([*first, many.one("fine"), over])
    assert "1,000 of the 1,002 of this call were written" in raised.value.__notes__[0]
    assert await many.names() == [each["name"] for each in first]


async def test_secrets_that_are_kept(app: Mutirao) -> None:
    """A new endpoint needs one, or None; nothing is written of a call that has one without."""
    many = Kind(app, "endpoints")
    first = [many.one(f"e{n:04}", secret=new_secret()) for n in range(PUT_AT_ONCE)]
    bare = {"id": "bare", "url": URL, "topics": "*"}
    for asked in ([*first, bare], [bare]):
        with pytest.raises(InvalidEndpoint, match="no endpoint 'bare' yet"):
            await many.put(asked)
    assert await many.names() == []
    await many.put(first[:1])
    await many.put([{"id": "e0000", "url": URL, "topics": "order.*"}])
    [kept] = await app.store.endpoints.to_send(["e0000"])
    assert getattr(kept, "secret", None) == first[0]["secret"]
    with pytest.raises(InvalidJob, match="tenant"):
        await many.put([many.one("x", tenant="t" * 10_000)])


def test_the_synchronous_face(pg_url: str, kind: str) -> None:
    """What is given is read in the caller's thread: it may be a query of the application."""
    app, threads = Mutirao(pg_url), set[int]()
    many = Kind(app, kind)

    def given() -> Iterator[Given]:
        threads.add(get_ident())
        yield many.one("one")

    assert len(many.face.put_many(given())) == 1
    assert threads == {get_ident()}
    app.close()

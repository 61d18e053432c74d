"""What is written together: a peer that fails does not keep others from being completed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, cast

from mutirao.model.webhooks.breakers import BreakerTerms
from mutirao.model.webhooks.endpoints import Endpoint
from mutirao.model.webhooks.webhook_attempts import Recorded, WebhookAttempt
from mutirao.ports import Store
from mutirao.webhooks import new_secret
from mutirao.webhooks.batches import KNOWN_FOR, AttemptWriter, EndpointCache


def attempt(job: int, endpoint: str, host: str, status: int = 200) -> WebhookAttempt:
    """Return an attempt that was answered."""
    return WebhookAttempt(
        job=job, run=1, endpoint=endpoint, host=host, status=status, milliseconds=1.0,
        failure=None, detail=None, body="", truncated=False, address=None, request_headers={},
        ok=status == 200,
    )  # fmt: skip


class Noting:
    """A store that notes which jobs' attempts it was given together; some batches fail."""

    def __init__(self, refused: int | None = None) -> None:
        self.batches, self._refused = list[list[int]](), refused
        self.endpoints = self  # the only part that is asked

    async def record(self, attempts: Sequence[WebhookAttempt], *_: Any) -> Recorded:
        """Note them."""
        self.batches.append(jobs := [each.job for each in attempts])
        if self._refused in jobs:
            raise RuntimeError("refused")
        return Recorded(False, set())


SECRETS = {"old": new_secret(), "new": new_secret()}


class Changing:
    """A store whose endpoint changes, and which may take its time to read it."""

    def __init__(self, clock: list[float]) -> None:
        self.secret, self.reads, self.takes, self._clock = "old", list[set[str]](), 0.0, clock
        self.endpoints = self  # the only part that is asked

    async def to_send(self, ids: Collection[str]) -> list[Endpoint]:
        """Return the endpoints as they are when it is asked."""
        self.reads.append({*ids})
        found = [replace(ENDPOINT, id=id, secret=SECRETS[self.secret]) for id in ids]
        self._clock[0] += self.takes
        await asyncio.sleep(0)
        return found


ENDPOINT = Endpoint(id="erp", url="https://erp.example/hook", topics=("order.*",))


async def test_a_change_of_an_endpoint_acts_soon() -> None:
    """By a clock that begins before it is read; what is asked for at once is read at once."""
    clock = [100.0]
    store = Changing(clock)
    known = EndpointCache(cast(Store, store), clock=lambda: clock[0])

    async def secrets(*ids: str) -> set[str | None]:
        found = await asyncio.gather(*map(known.get, ids))
        return {each.secret for each in found if isinstance(each, Endpoint)}

    store.takes = 0.75 * KNOWN_FOR
    assert await secrets("a", "a", "b") == {SECRETS["old"]}
    assert store.reads == [{"a", "b"}]
    store.secret = "new"  # while it was read, or right after that
    clock[0] += 0.2 * KNOWN_FOR
    assert await secrets("a") == {SECRETS["old"]}
    clock[0] += 0.1 * KNOWN_FOR
    assert await secrets("a", "b") == {SECRETS["new"]}
    assert store.reads == [{"a", "b"}, {"a", "b"}]
    assert KNOWN_FOR <= 0.1


async def written(store: Noting, *attempts: WebhookAttempt) -> list[BaseException | None]:
    """Write attempts that end together; return what was raised for each."""
    writer = AttemptWriter(cast(Store, store), BreakerTerms())
    with ExitStack() as others:
        for _ in range(2 * len(attempts)):  # as many again still go on
            others.enter_context(writer.expecting())
        return await asyncio.gather(*map(writer.write, attempts), return_exceptions=True)


async def test_all_of_a_peer_that_fails_are_apart() -> None:
    """Those of its endpoint, and of other endpoints at its host; the others have succeeded."""
    store = Noting(refused=3)
    raised = await written(
        store,
        attempt(1, "erp", "example.org"),
        attempt(2, "crm", "example.com"),
        attempt(3, "crm", "example.com", 500),
        attempt(4, "old", "example.com"),
    )
    assert store.batches == [[1], [2, 3, 4]]
    assert [each is None for each in raised] == [True, False, False, False]
    await written(store, attempt(5, "erp", "example.org"), attempt(6, "crm", "example.com"))
    assert store.batches[2:] == [[5, 6]]

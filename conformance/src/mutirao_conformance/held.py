"""The order in which deliveries to an endpoint go out that were held."""

import pytest

from mutirao.model.jobs.job import OutcomeKind
from mutirao.ports import Store
from mutirao_conformance.endpoints import (
    ERP,
    HOST,
    SOON,
    attempt,
    came,
    claimed,
    endpoint,
    seen,
)
from mutirao_conformance.kit import finish, join, take
from mutirao_conformance.topics import arguments_of, fan_out, publish


async def delivered_anyhow(store: Store, worker: int) -> list[int]:
    """Publish, and fan out in another order; return the publications."""
    published = [await publish(store) for _ in range(6)]
    claims = await take(store, worker, 6)
    assert len(claims) == 6
    for place in (3, 0, 5, 2, 4, 1):
        await fan_out(store, claims[place])
    return published


async def one_by_one(store: Store, worker: int) -> list[tuple[str, int]]:
    """Do all that is due, each before the next is claimed; return endpoints and publications."""
    order = []
    while claims := await claimed(store, worker):
        args = [arguments_of(claim) for claim in claims]
        order += [(each["endpoint"], each["event"]["id"]) for each in args]
        await came(store, [attempt(each) for each in claims])
        await finish(store, worker, claims, now=SOON)
    return order


class HeldContract:
    """Held deliveries are sent in the order of their publications, not in that of their jobs."""

    async def test_held_ones_go_out_in_the_order_of_publications(self, store: Store) -> None:
        """Not in the order in which workers created the deliveries; for each cause of the hold."""
        await store.endpoints.put(endpoint(concurrency=1))
        await store.endpoints.put(endpoint("other"))
        worker = await join(store)
        for id in ("erp", "other"):
            assert await store.endpoints.pause(id)
        published = await delivered_anyhow(store, worker)
        assert await claimed(store, worker) == []
        assert ((await seen(store)).held, (await seen(store, "other")).held) == (6, 6)
        for id in ("erp", "other"):
            assert await store.endpoints.resume(id)
        order = await one_by_one(store, worker)
        assert [event for id, event in order if id == "erp"] == published
        assert [event for id, event in order if id == "other"] == published

    @pytest.mark.parametrize("lets_out", ["its probe", "resume", "its host's probe"])
    async def test_in_order_after_a_breaker(self, store: Store, lets_out: str) -> None:
        """A breaker of the endpoint or of its host, closed by its probe or by a user."""
        await store.endpoints.put(endpoint(concurrency=1))
        worker = await join(store)
        published = await delivered_anyhow(store, worker)
        [failing] = await claimed(store, worker)
        published.remove(arguments_of(failing)["event"]["id"])
        silent = lets_out == "its host's probe"
        again = [failing._replace(run=failing.run + n) for n in range(5 if silent else 2)]
        await came(store, [attempt(each, None if silent else 500) for each in again])
        await finish(store, worker, [failing], OutcomeKind.DEAD, now=SOON)
        assert await claimed(store, worker) == []
        assert ((await seen(store)).breaker, (await seen(store)).held) == ("open", 5)
        if lets_out == "resume":
            assert await store.endpoints.resume("erp")
        else:
            for breaker in (ERP, HOST):
                assert await store.endpoints.probe(breaker, at_once=True, now=SOON) or not silent
        assert [event for _, event in await one_by_one(store, worker)] == published

"""The inbox: of all that process a message, one commits its effects and the record of it."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from mutirao.model.jobs.job import Claim, Gives
from mutirao.ports import Store
from mutirao_conformance.kit import deadline, due, job_of, join, lane, put
from mutirao_conformance.transactions import (
    Failed,
    Handler,
    Watched,
    children,
    each_kind,
)

NAME, MESSAGE = "bíll\N{SNOWMAN}", "018f-\N{SNOWMAN}"


async def handle(
    store: Store, claim: Claim, handler: Handler, *, gives: Gives = "session", fail: bool = False
) -> list[bool]:
    """Handle a message twice in the transaction of a job, with an effect where it is new."""
    transaction, new = store.transaction(job_of(claim), Watched(), gives=gives), list[bool]()

    def in_a_thread() -> None:
        with transaction as held:
            new.append(store.remember(NAME, MESSAGE, held))
            if new[0]:
                store.enqueue([due("child")], held)
            new.append(store.remember(NAME, MESSAGE, held))
            if fail:
                raise Failed

    async def in_the_loop() -> None:
        async with transaction as held:
            new.append(await store.aremember(NAME, MESSAGE, held))
            if new[0]:
                await store.aenqueue([due("child")], held)
            new.append(await store.aremember(NAME, MESSAGE, held))
            if fail:
                raise Failed

    with suppress(Failed):
        await (asyncio.to_thread(in_a_thread) if handler == "function" else in_the_loop())
    return new


async def claimed(store: Store, number: int) -> Sequence[Claim]:
    """Return claims of so many jobs, each of which brings the message."""
    await put(store, *(due() for _ in range(number)))
    return await store.claim(await join(store, now=None), [lane()], number)


class InboxContract:
    """`Store.remember`, and `Store.prune_inbox`."""

    def was_undone(self, error: Exception) -> bool:
        """Return whether the database has broken a transaction because of others; it may."""
        return False

    async def handle_at_last(
        self, store: Store, claim: Claim, handler: Handler, fail: bool
    ) -> list[bool]:
        """Handle a message, again where the database broke the transaction, as attempts are."""
        while True:
            try:
                return await handle(store, claim, handler, fail=fail)
            except Exception as error:
                if not self.was_undone(error):
                    raise

    @each_kind
    async def test_a_message_is_new_once(
        self, store: Store, handler: Handler, gives: Gives
    ) -> None:
        """Until its transaction commits it is new, and never again after that."""
        one, two, three = await claimed(store, 3)
        assert await handle(store, one, handler, gives=gives, fail=True) == [True, False]
        assert await children(store) == 0
        assert await handle(store, two, handler, gives=gives) == [True, False]
        assert await handle(store, three, handler, gives=gives) == [False, False]
        assert await children(store) == 1

    async def test_exactly_one_wins(
        self, store: Store, other_store: Store, handler: Handler
    ) -> None:
        """Of many connections with the same message at once; not one whose transaction fails."""
        claims = await claimed(store, 9)
        async with deadline():
            found = await asyncio.gather(
                *(
                    self.handle_at_last((store, other_store)[n % 2], claim, handler, n < 3)
                    for n, claim in enumerate(claims)
                )
            )
        assert [new[0] for new in found[3:]].count(True) == 1
        assert await children(store) == 1

    async def test_pruning_the_inbox(self, store: Store, handler: Handler) -> None:
        """Old messages are forgotten, a batch at a time; then they are new."""
        one, two, three = await claimed(store, 3)
        await handle(store, one, handler)
        assert await store.prune_inbox(60.0, 10) == 0
        assert await handle(store, two, handler) == [False, False]
        assert await store.prune_inbox(-60.0, 1) == 1
        assert await store.prune_inbox(-60.0, 1) == 0
        assert await handle(store, three, handler) == [True, False]

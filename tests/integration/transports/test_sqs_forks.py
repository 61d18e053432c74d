"""A child of a program that has used SQS."""

from __future__ import annotations

import asyncio
import os
import signal

from mutirao.transports.sqs import SQS

LIMIT = 60  # seconds, after which a child that hangs is ended by its alarm


class Client:
    """A client of its process."""

    def __init__(self) -> None:
        self.closed_in = 0

    def close(self) -> None:
        """Remember where."""
        self.closed_in = os.getpid()


def test_a_child_has_its_own() -> None:
    """It waits for no thread of its parent, and has clients of its own, which it closes."""
    made: list[Client] = []

    def clients() -> tuple[Client, Client]:
        made.extend((Client(), Client()))
        return made[-2], made[-1]

    transport = SQS(clients=clients)

    async def use_and_close() -> None:
        assert await transport._call(len, "abc") == 3
        await transport.aclose()

    async def use() -> int:
        return await transport._call(os.getpid)

    assert asyncio.run(use()) == os.getpid()
    child = os.fork()
    if not child:
        signal.alarm(LIMIT)
        asyncio.run(use_and_close())
        os._exit([each.closed_in for each in made] != [0, 0, os.getpid(), os.getpid()])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    asyncio.run(transport.aclose())
    assert [each.closed_in for each in made] == [os.getpid()] * 2

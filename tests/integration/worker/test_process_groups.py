"""Handlers in child processes that start processes of their own: those do not stay behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import wait
from pathlib import Path

import pytest

from tests.integration.worker import unruly
from tests.integration.worker.test_processes import Shop, abandoning, result, shop
from tests.support.engine import ProcessDied
from tests.support.waiting import DEADLINE, until, wait_until

__all__ = ["shop"]
METHODS = ["fork", "spawn", "forkserver"]


@contextmanager
def watched(path: Path) -> Iterator[list[int]]:
    """Give descriptors of the processes whose ids are in a file: readable when they have ended."""
    with ExitStack() as stack:
        watched = [os.pidfd_open(int(pid)) for pid in path.read_text().split()]
        for each in watched:
            stack.callback(os.close, each)
        yield watched


def all_ended(processes: list[int]) -> bool:
    """Wait until they have ended."""
    return all(wait([each], DEADLINE) for each in processes)


@pytest.mark.parametrize("method", METHODS)
async def test_a_handler_with_a_pool(shop: Shop, method: str) -> None:
    """Has what the pool computes, and its child is kept."""
    assert result(await shop.run(unruly.use_pool, method=method)) == [1, 2]
    first = await shop.pid()
    assert result(await shop.run(unruly.use_pool, method=method)) == [1, 2]
    assert await shop.pid() == first


@pytest.mark.parametrize("method", METHODS)
async def test_an_attempt_that_is_cut(shop: Shop, tmp_path: Path, method: str) -> None:
    """The processes of its pool end with its child."""
    path = tmp_path / "pids"
    attempt = asyncio.create_task(shop.run(unruly.hold_pool, method=method, path=str(path)))
    await until(path.exists)
    with watched(path) as processes:
        assert len(processes) == 3
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt
        assert await asyncio.to_thread(all_ended, processes)


async def test_a_child_that_dies(shop: Shop, tmp_path: Path) -> None:
    """As by the kernel's memory killer: the processes of its pool end, too."""
    path = tmp_path / "pids"
    attempt = asyncio.create_task(shop.run(unruly.hold_pool, method="fork", path=str(path)))
    await until(path.exists)
    with watched(path) as processes:
        os.kill(int(path.read_text().split()[0]), signal.SIGKILL)
        with pytest.raises(ProcessDied):
            await attempt
        assert await asyncio.to_thread(all_ended, processes)


@pytest.mark.repeats("forkserver", decided="tests/integration/worker/test_process_groups.py")
@pytest.mark.parametrize("method", METHODS)
def test_a_program_that_is_killed(tmp_path: Path, method: str) -> None:
    """Leaves neither its child nor the processes of the child's pool."""
    path = tmp_path / "pids"
    with abandoning("use a pool", method, str(path)) as program:
        wait_until(path.exists)
        with watched(path) as processes:
            assert len(processes) == 3
            program.kill()
            assert all_ended(processes)

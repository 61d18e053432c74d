"""The slots of a worker of several databases go round: none has all while others have due jobs."""

from __future__ import annotations

from functools import partial

from mutirao import JobState
from tests.integration.databases.conftest import Files
from tests.integration.databases.kit import Company, shown
from tests.support.waiting import until

SLOTS = 4


async def test_the_next_free_slot(files: Files) -> None:
    """A database that has none gets the next one, however many jobs another has."""
    company = Company(*files(2))
    busy, late = company.listed
    await company.enqueue(busy, "hold", 40)
    async with company.worker(concurrency=SLOTS):
        await until(lambda: company.running[shown(busy)] == SLOTS)
        await company.enqueue(late, "hold", 10)
        await until(partial(_claimed, company, late))
        company.let_end()
        await until(lambda: company.running[shown(late)] == 1)
        assert company.running[shown(busy)] == SLOTS - 1
        company.let_end(100)
        await until(lambda: len(company.ran) == 50)
    await company.close()


async def test_equal_shares(files: Files) -> None:
    """Of two that have much to do, each comes to have half of the slots."""
    company = Company(*files(2))
    busy, late = company.listed
    await company.enqueue(busy, "hold", 40)
    async with company.worker(concurrency=SLOTS):
        await until(lambda: company.running[shown(busy)] == SLOTS)
        await company.enqueue(late, "hold", 40)
        for number in (1, 2):
            await until(partial(_claimed, company, late))
            company.let_end()
            await until(partial(_has, company, late, number))
        assert company.running[shown(busy)] == company.running[shown(late)] == SLOTS // 2
        company.let_end(200)
        await until(lambda: len(company.ran) == 80)
    await company.close()


async def test_one_alone_has_all(files: Files) -> None:
    """Slots are not kept free for databases that have nothing to do."""
    company = Company(*files(3))
    await company.enqueue(company.listed[1], "hold", 10)
    async with company.worker(concurrency=SLOTS):
        await until(lambda: company.running[shown(company.listed[1])] == SLOTS)
        company.let_end(100)
        await until(lambda: len(company.ran) == 10)
    await company.close()


async def test_turns(files: Files) -> None:
    """With one slot, two databases take turns."""
    company = Company(*files(2))
    for url in company.listed:
        await company.enqueue(url, "hold", 3)
    async with company.worker(concurrency=1):
        for n in range(1, 7):
            await until(partial(_begun, company, n))
            if n < 6:
                other = next(url for url in company.listed if shown(url) != company.ran[-1][0])
                await until(partial(_claimed, company, other))
            company.let_end()
    names = [name for name, _ in company.ran]
    assert names == names[:2] * 3
    assert len({*names}) == 2
    await company.close()


def _begun(company: Company, number: int) -> bool:
    return len(company.ran) == number


def _has(company: Company, url: str, number: int) -> bool:
    return company.running[shown(url)] >= number and sum(company.running.values()) == SLOTS


async def _claimed(company: Company, url: str) -> bool:
    """Return whether the worker has claimed a job of this database that has not begun."""
    held = [job for job in await company.jobs(url) if job.state is JobState.RUNNING]
    return len(held) > company.running[shown(url)]

"""Whose job it is: what handlers, logs and handlers of deaths are told."""

from __future__ import annotations

import logging

import pytest

from mutirao import DeadJob, Job, Mutirao
from mutirao.errors import InvalidJob
from tests.integration.worker.kit import ended, working
from tests.support.waiting import until

pytestmark = pytest.mark.repeats("postgresql", decided="tests/conformance")


async def test_it_is_told(app: Mutirao, caplog: pytest.LogCaptureFixture) -> None:
    """The handler, the lines of the log about the job, and the handler of its death know it."""
    received: list[tuple[str | None, str | None]] = []

    @app.task(max_attempts=1)
    async def send(job: Job) -> None:
        received.append((job.tenant, job.group))
        raise OSError

    @send.on_dead
    async def mourn(job: Job, dead: DeadJob) -> None:
        received.extend([(job.tenant, job.group), (dead.tenant, dead.group)])

    with caplog.at_level(logging.INFO, "mutirao"):
        async with working(app):
            id = send.using(tenant="acme", group="north").enqueue().id
            await ended(app, id)
            await until(lambda: len(received) == 3)
    assert received == [("acme", "north")] * 3
    [line] = [each for each in caplog.records if getattr(each, "job", None) == id]
    assert (vars(line)["tenant"], vars(line)["group"]) == ("acme", "north")


@pytest.mark.parametrize("name", ["", "a" * 10_000, "a\x00b", "\ud83d"])
def test_no_name(app: Mutirao, name: str) -> None:
    """Is refused where it is given."""

    @app.task
    async def send() -> None:
        pass

    for option in ("tenant", "group"):
        with pytest.raises(InvalidJob, match=option):
            send.using(**{option: name}).enqueue()  # type: ignore[arg-type]

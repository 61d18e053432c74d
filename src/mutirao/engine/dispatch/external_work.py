"""Polls the probe of a task until the work that its handler started elsewhere has ended."""

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

from mutirao.errors import WorkFailed
from mutirao.log import log
from mutirao.model.jobs.job import Job
from mutirao.model.jobs.retry import Cancel, Dead, Retry, Snooze
from mutirao.model.jobs.work import Work
from mutirao.tasks.probing import Probe

InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


async def until_done(probe: Probe, job: Job, started: Any, in_thread: InThread) -> None:
    """Ask until the work is done. Each answer that it still runs is a sign of life.

    A probe that raises has no answer: that is logged, and is no sign of life. With the signals
    (`Dead`, `Retry`, `Snooze`, `Cancel`) it decides how the attempt ends.

    Raises:
        WorkFailed: it has failed.
    """
    while True:
        try:
            found = await _ask(probe, job, started, in_thread)
        except (Dead, Retry, Snooze, Cancel):
            raise
        except Exception:  # noqa: BLE001 (logged; what the user's code raises is no answer)
            log.exception(
                "the probe of job %s (%s) failed; it is asked again in %g s",
                *(job.id, job.task, probe.every),
                extra={"job": job.id, "task": job.task},
            )
        else:
            if found is Work.DONE:
                return
            if found is Work.FAILED:
                raise WorkFailed(f"its probe found that the work it started has failed: {started}")
            job.alive()
        await asyncio.sleep(probe.every)


async def _ask(probe: Probe, job: Job, started: Any, in_thread: InThread) -> Work:
    if probe.is_coroutine:
        answer = await probe.function(job, started)
    else:
        answer = await in_thread(lambda: probe.function(job, started))
        if isawaitable(answer):
            answer = await answer
    try:
        return Work(answer)
    except ValueError:
        known = ", ".join(repr(str(each)) for each in Work)
        raise ValueError(f"the probe returned {answer!r}; return one of {known}") from None

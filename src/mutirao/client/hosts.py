"""The hosts that activities go to: `app.hosts`, for operators.

Each operation has an asynchronous face, which does the work, and a synchronous one that calls it.
"""

import re
from dataclasses import replace
from typing import Protocol

from mutirao.client.portal import Portal, blocking
from mutirao.errors import UnknownHost
from mutirao.model.federation.hosts import (
    BY,
    DELIVER,
    Amend,
    Host,
    HostRecord,
    checked_concurrency,
    is_heard_from,
)
from mutirao.model.jobs.job import JobState
from mutirao.model.jobs.records import JobFilter
from mutirao.ports import Store

QUEUE = "federation"  # of the probes that a command may enqueue
_NAME = re.compile(r"[^\s/@A-Z]{1,200}")
_LIVE = (JobState.SCHEDULED, JobState.READY, JobState.RUNNING, JobState.BLOCKED)


class HostsApp(Protocol):
    """The application, as hosts see it."""

    store: Store


class Hosts:
    """The hosts that activities go to, as an application's database knows them."""

    def __init__(self, app: HostsApp, portal: Portal) -> None:
        self._app, self._portal = app, portal

    async def aflush(self, name: str) -> Host:
        """Try a host now: let a delivery through, and the others after it if that arrives.

        A held host is released.

        Raises:
            UnknownHost: the host is unknown, so nothing is held for it.
        """
        await self._known(name)
        return await self._change(name, lambda was, now: replace(is_heard_from(was), held=False))

    flush = blocking(aflush)

    async def ahold(self, name: str) -> Host:
        """Send nothing to a host until it is flushed.

        Raises:
            UnknownHost: it is no name of a host.
        """
        _check_name(name)
        return await self._change(name, lambda was, now: replace(was, held=True))

    hold = blocking(ahold)

    async def alimit(self, name: str, concurrency: int | None) -> Host:
        """Change how many requests a host gets at once; None: as many as others.

        It cannot be more than the federation's `concurrency`.

        Raises:
            InvalidLimit: it is not 1 to 1,000.
            UnknownHost: it is no name of a host.
        """
        _check_name(name)
        most = checked_concurrency(concurrency)
        return await self._change(name, lambda was, now: replace(was, concurrency=most))

    limit = blocking(alimit)

    async def aredrive(self, name: str, *, limit: int | None = None) -> list[int]:
        """Send the dead deliveries to a host again, oldest first; return the ids of the new jobs.

        Not those that were sent again before. A delivery is cancelled, not sent, if the host has
        received something newer about its object.

        Parameters:
            limit: how many; None: all.
        """
        return await self._app.store.redrive(_deliveries(name, JobState.DEAD, limit))

    redrive = blocking(aredrive)

    async def aforget(self, name: str) -> int:
        """Cancel the waiting deliveries to a host, and delete its state; return how many jobs.

        Raises:
            UnknownHost: the host is unknown, and nothing waits for it.
        """
        which = JobFilter(task=DELIVER, states=_LIVE, args={BY: name}, limit=None)
        cancelled = await self._app.store.cancel(which)
        if not await self._app.store.federation.forget_host(name) and not cancelled:
            raise _unknown(name)
        return len(cancelled)

    forget = blocking(aforget)

    async def _known(self, name: str) -> None:
        if await self._app.store.federation.host(name) is None:
            raise _unknown(name)

    async def _change(self, name: str, amend: Amend) -> Host:
        return await self._app.store.federation.change_host(name, amend, queue=QUEUE)

    async def alist(self, *, counted: bool = True) -> tuple[HostRecord, ...]:
        """List the hosts that have failed or have deliveries, by name.

        Of those that are `redrivable`, old deliveries may be sent again.

        Parameters:
            counted: whether deliveries are counted, for which all live and dead jobs are read;
                otherwise only hosts that have failed or were changed are listed.
        """
        return tuple(await self._app.store.federation.hosts(counted=counted))

    list = blocking(alist)


def _deliveries(host: str, state: JobState, limit: int | None) -> JobFilter:
    return JobFilter(task=DELIVER, state=state, args={BY: host}, limit=limit)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UnknownHost(
            f"{name!r:.200} is no name of a host; give it in small letters, as b.example of"
            " https://b.example/inbox"
        )


def _unknown(name: str) -> UnknownHost:
    return UnknownHost(
        f"nothing is known of the host {name!r}; `mutirao hosts list` shows those there are"
    )

"""Acts on all jobs that match a filter: `app.actions`. In batches, with progress, until stopped.

Each batch is a transaction of its own; its progress is written in another one after that. A program
that is killed half-way leaves an entry with its progress, which becomes `lost` by itself.
"""

import json
from asyncio import CancelledError
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TypeVar

from mutirao.client.portal import Portal, blocking
from mutirao.client.reading import HasStore
from mutirao.errors import InvalidFilter, StoreError
from mutirao.log import log
from mutirao.model.audit.actions import (
    MAX_IDS,
    MAX_WHO,
    About,
    Action,
    ActionKind,
    ActionState,
    AuditRecord,
    Came,
    NewAction,
)
from mutirao.model.filters.filter import Filter, parse
from mutirao.model.jobs.records import JobFilter, checked_id

BATCH = 1_000  # jobs
R = TypeVar("R")


class Actions:
    """Actions on many jobs of an application, and the audit of them."""

    def __init__(self, app: HasStore, portal: Portal) -> None:
        self._app, self._portal = app, portal

    async def arun(
        self,
        action: Action,
        which: str | Filter | None = None,
        *,
        by: str,
        ids: tuple[int, ...] | None = None,
        expected: int | None = None,
        batch: int = BATCH,
        progress: Callable[[int, Came], object] | None = None,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> AuditRecord:
        """Act on all jobs that match a filter, newest first, or on some by their ids.

        Jobs that are enqueued later are not among them. Ages in the filter are counted back from
        now, for all batches. It stops between two batches, once `stop` was called for it somewhere.

        Parameters:
            action: what is to be done.
            which: the filter, which has to have a term, unless ids are given.
            ids: the jobs; with a filter, those of them that match it.
            by: the user that does it, for the audit.
            expected: how many jobs matched when a person confirmed it, for the audit.
            batch: the number of jobs of a transaction.
            progress: called with the action's id, and its progress, after each batch.
            is_stopping: called after each batch: if it returns True, there is no further one.

        Returns its record in the audit.

        Raises:
            InvalidFilter: neither a filter nor ids are given, or they cannot be.
            StoreError: the database failed; finished batches stay done, and are in the audit.
        """
        text = _text(which, needed=ids is None)
        new = _new(action, text, ids, expected, by)
        store = self._app.store
        id = await store.audit.begin(new)
        came, state = Came(), ActionState.DONE
        try:
            stops = False
            async for part in self._parts(text, ids, batch):
                if stops:
                    state = ActionState.STOPPED
                    break
                came = await self._do(action, part, came)
                if progress is not None:
                    progress(id, came)
                stops = not await store.audit.advance(id, came) or is_stopping()
        except (Exception, CancelledError) as error:
            ended = ActionState.FAILED if isinstance(error, Exception) else ActionState.STOPPED
            await store.audit.end(id, ended, f"{type(error).__name__}: {error}")
            raise
        await store.audit.end(id, state)
        [record] = await store.audit.actions(id=id)
        return record

    run = blocking(arun)

    async def aobserve(
        self, new: NewAction, work: Callable[[], Awaitable[Sequence[int]]]
    ) -> Sequence[int]:
        """Act on jobs by a function that returns their ids, and record that in the audit.

        The ids are returned, also if the audit cannot be written: that is logged.
        """
        _who(new.who)
        store = self._app.store
        id = await store.audit.begin(new)
        try:
            done = await work()
        except (Exception, CancelledError) as error:
            await store.audit.end(id, ActionState.FAILED, f"{type(error).__name__}: {error}")
            raise
        try:
            await store.audit.advance(id, Came(len(done), len(done)))
            await store.audit.end(id, ActionState.DONE)
        except StoreError as error:  # the action is done, and its caller has to know
            log.error("the audit does not have that action %d is done", id, exc_info=error)
        return done

    async def anote(self, by: str, about: About, work: Callable[[], Awaitable[R]]) -> R:
        """Act on an object that is not a job, and record the action and its user in the audit.

        Raises the errors of `work`; they are in the audit, too.
        """
        made: list[R] = []

        async def once() -> Sequence[int]:
            made.append(await work())
            return (0,)

        new = NewAction(who=by, action=ActionKind.CHANGE, change=about.spelled())
        await self.aobserve(new, once)
        return made[0]

    async def astop(self, id: int) -> bool:
        """Ask an action to stop after its batch, wherever it runs; return whether it runs."""
        return await self._app.store.audit.stop(checked_id(id))

    stop = blocking(astop)

    async def alist(
        self, *, before: int | None = None, limit: int = 100
    ) -> tuple[AuditRecord, ...]:
        """Return the records of the audit, newest first; below an id, for the next page."""
        return tuple(await self._app.store.audit.actions(before=before, limit=limit))

    list = blocking(alist)

    async def aget(self, id: int) -> AuditRecord | None:
        """Return the audit record of one action; None if there is none of that id."""
        found = await self._app.store.audit.actions(id=checked_id(id))
        return found[0] if found else None

    get = blocking(aget)

    async def _parts(
        self, text: str | None, ids: tuple[int, ...] | None, batch: int
    ) -> AsyncIterator[tuple[JobFilter, Sequence[int]]]:
        """Yield filters of some jobs each, with the ids of these."""
        which = parse(text or "").at(datetime.now(UTC), limit=None)
        if ids is not None:
            for first in range(0, len(ids), batch):
                some = ids[first : first + batch]
                yield replace(which, ids=some), some
            return
        before: int | None = None
        while True:
            found, before = await self._app.store.audit.matching_ids(
                which, before=before, size=batch
            )
            if found:
                # Not as `ids`: a caller that names jobs means them, also for a second redrive.
                yield replace(which, among=tuple(found)), found
            if before is None:
                return

    async def _do(self, action: Action, part: tuple[JobFilter, Sequence[int]], came: Came) -> Came:
        which, found = part
        store = self._app.store
        match action.kind:
            case ActionKind.RETRY:
                done = await store.run_now(which)
            case ActionKind.CANCEL:
                done = await store.cancel(which)
            case ActionKind.REDRIVE:
                done = await store.redrive(which)
            case ActionKind.DELETE:
                done = await store.audit.delete(which)
            case ActionKind.CHANGE if action.change is not None:
                done = await store.change(which, action.change)
            case _:
                raise InvalidFilter(f"{action!r} has no change")
        why = Counter(came.why)
        if len(done) < len(found):
            left = found if action.kind is ActionKind.REDRIVE else [*{*found} - {*done}]
            asked = JobFilter(ids=tuple(left), limit=None)
            if which.ids is not None:  # only jobs that match the filter are reported
                asked = replace(asked, terms=which.terms)
            why.update(await self._states(asked, len(left), len(found) - len(done)))
        return Came(came.matched + len(found), came.done + len(done), dict(why))

    async def _states(self, left: JobFilter, asked: int, number: int) -> Counter[str]:
        """Return how many were passed over, by their current state."""
        found = await self._app.store.audit.states(left)
        states = Counter({str(state): jobs for state, jobs in found.items()})
        if missing := asked - states.total():
            states["gone" if left.terms is None else "not matching"] = missing
        return states if states.total() == number else Counter({"not possible": number})


def _new(
    action: Action, text: str | None, ids: tuple[int, ...] | None, expected: int | None, by: str
) -> NewAction:
    return NewAction(
        who=_who(by),
        action=action.kind,
        change=_spelled(action),
        filter=text,
        ids=_ids(ids),
        expected=expected,
    )


def _text(which: str | Filter | None, *, needed: bool) -> str | None:
    found = which if isinstance(which, Filter) else parse("" if which is None else which)
    if not found and not needed:
        return None
    if not found:
        raise InvalidFilter(
            "neither ids nor a filter is given, which would mean every job; give a filter, such as"
            " 'queue:mail older:2h'"
        )
    return str(found)


def _ids(ids: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if ids is None:
        return None
    if not 1 <= len(ids) <= MAX_IDS:
        raise InvalidFilter(f"{len(ids)} ids are given; give 1 to {MAX_IDS:,}, or a filter")
    return tuple(map(checked_id, ids))


def _who(by: str) -> str:
    if not 1 <= len(by) <= MAX_WHO or not by.isprintable():
        raise InvalidFilter(f"by is {by!r:.80}; give who does it, in 1 to {MAX_WHO} characters")
    return by


def _spelled(action: Action) -> str | None:
    """Return the new values of a change as JSON."""
    if action.change is None:
        return None
    given = {name: value for name, value in asdict(action.change).items() if value is not None}
    return json.dumps(given, default=str)

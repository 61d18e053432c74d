"""`job.transaction(connection=True)` past SQLAlchemy, on psycopg's and sqlite3's connections.

SQLAlchemy's connection, the contexts of its transaction and, for coroutines, its greenlets would
take half of the client's time for a job that writes one row.
"""

from typing import Any, NoReturn

from sqlalchemy import PoolProxiedConnection
from sqlalchemy.util import greenlet_spawn

from mutirao.errors import StoreUnavailable
from mutirao.model.jobs.job import Job
from mutirao.model.jobs.outcome import Settlement, completion
from mutirao.sql.connections.spare import SpareConnections
from mutirao.sql.connections.transaction import CompletingTransaction, wakes_of
from mutirao.sql.drivers.failures import judge, translate_errors, translated
from mutirao.sql.drivers.lendable import Lendable, lendable
from mutirao.sql.drivers.lending import would_end
from mutirao.sql.drivers.naming import named
from mutirao.sql.drivers.own import alent, lent
from mutirao.sql.drivers.resting import is_closed
from mutirao.sql.drivers.steps import COMMIT, ROLLBACK, Query, adrive, drive


def is_awaited(job: Job) -> bool:
    """Return whether other jobs or a result may wait for the job: more is written at its end."""
    return job.key is not None or job._keep is not None or job._claim.linked


class DirectTransaction(CompletingTransaction):
    """One whose connection never was SQLAlchemy's.

    Where the application opens connections that are not of a class of ours, it is like the others.
    """

    _lent: PoolProxiedConnection | None = None
    _spare: SpareConnections
    _driver: Lendable
    _lost = _cut_short = False
    _tried_rollback = False

    def _begin(self) -> Any:
        self._spare = self._engines.spare(alone=False)
        with translate_errors():
            taken = self._spare.take()
            if _is_left(taken):
                taken = self._replace(taken)
            if self._lend_own(taken):
                return taken.driver_connection
        self._spare.give_back(taken)
        return super()._begin()

    async def _abegin(self) -> Any:
        self._spare = self._engines.async_spare(alone=False)
        with translate_errors():
            taken = self._spare.at_hand()
            if taken is not None and _is_left(taken):
                taken = await greenlet_spawn(self._replace, taken)
            if taken is None:
                taken = await greenlet_spawn(self._spare.open)
        if self._lend_own(taken):
            return taken.driver_connection
        await greenlet_spawn(self._spare.give_back, taken)
        return await super()._abegin()

    def _replace(self, taken: PoolProxiedConnection) -> PoolProxiedConnection:
        self._spare.lose(taken, None)
        self._spare.give_back(taken)
        return self._spare.open()

    def _lend_own(self, taken: PoolProxiedConnection) -> bool:
        own = lendable(taken.driver_connection)
        if own is None:
            return False
        own.lend()
        own.refuse = self._refuse
        self._lent, self._driver = taken, own
        return True

    def _refuse(self, name: str) -> NoReturn:
        self._tried_rollback = self._tried_rollback or name == "rollback"
        raise would_end(name)

    def _close(self, error: BaseException | None) -> None:
        if self._lent is None:
            super()._close(error)
            return
        try:
            drive(self._last_steps(error), lent(self._lent))
        finally:
            self._driver.take_back()
            if self._must_go():
                self._discard(self._lent)
            self._spare.give_back(self._lent)

    async def _aclose(self, error: BaseException | None) -> None:
        if self._lent is None:
            await super()._aclose(error)
            return
        try:
            await self._run(self._last_steps(error), alent(self._lent))
        except BaseException as raised:
            self._cut_short = not isinstance(raised, Exception)
            raise
        finally:
            if self._must_go():
                await greenlet_spawn(self._discard, self._lent)
            if not self._spare.keep(self._lent):
                await greenlet_spawn(self._spare.close, self._lent)

    async def _run(self, steps: Query[None], driver: Any) -> None:
        at_once = getattr(driver, "run", None)  # aiosqlite's: all in one visit to its thread
        if at_once is not None and self._driver.is_open():
            await at_once(self._give_back_after(steps))
        else:
            await adrive(steps, driver)

    def _give_back_after(self, steps: Query[None]) -> Query[None]:
        """Release the write lock where this one ends, in the driver's thread."""
        try:
            yield from steps
        finally:
            self._driver.take_back()

    def _last_steps(self, error: BaseException | None) -> Query[None]:
        """Settle and commit, or roll back if the block raised; whatever it raised goes on."""
        self._driver.refuse = None
        if error is None:
            yield from self._complete()
            return
        if self._driver.is_lost():
            raise translated(error) or StoreUnavailable("the connection was lost") from error
        if self._driver.must_roll_back():
            with translate_errors():
                yield ROLLBACK

    def _complete(self) -> Query[None]:
        try:
            if self._tried_rollback or not self._driver.is_open():
                raise self._not_open()
            settlement = completion(self._job, self._attempt.started_ago())
            with translate_errors():
                self._woken = wakes_of(self._job, (yield from self._settled(settlement)))
        except BaseException as error:
            yield from self._undo(error)
            raise

    def _settled(self, settlement: Settlement) -> Query[set[int]]:
        try:
            rules, names = self._engines.dialect.rules, self._engines.names
            settled = yield from named(names, rules.complete(settlement))
            if settled and self._driver.is_open():
                yield COMMIT
        except Exception as error:
            self._lost = self._engines.note(judge(error))
            raise
        return settled

    def _undo(self, error: BaseException) -> Query[None]:
        if self._driver.must_roll_back():
            try:
                yield ROLLBACK
            except Exception as failure:  # noqa: BLE001 (added as a note to the original error)
                error.add_note(f"Rolling back failed too: {failure!r}")

    def _must_go(self) -> bool:
        """Return whether the connection must not be lent again."""
        fit = not (self._lost or self._cut_short or self._driver.is_lost())
        return not (fit and self._driver.is_idle())

    def _discard(self, taken: PoolProxiedConnection) -> None:
        if self._lost or self._driver.is_lost():
            self._spare.lose(taken, None)
        else:
            taken.invalidate()


def _is_left(taken: PoolProxiedConnection) -> bool:
    own = lendable(taken.driver_connection)
    return (own is not None and own.is_lost()) or is_closed(taken.driver_connection)

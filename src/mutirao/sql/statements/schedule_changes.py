"""Changes of schedules, many in one transaction, by functions of `model.schedules.schedule_rules`.

All rows are locked and read by one statement each, and those that are new are written by one. A
change of an existing one is a statement for each, sent in one batch where the driver can do that.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, delete, select, update

from mutirao.errors import InvalidSchedule
from mutirao.model.schedules.schedule import (
    Amend,
    Amended,
    Amendment,
    ScheduleFacts,
    ScheduleState,
)
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.enqueue.intake import Enqueue
from mutirao.sql.schema.tables import schedule, tick
from mutirao.sql.statements.schedules import deaths, facts_in, in_utc, make, read, to_row, with_last

_CHANGE = update(schedule).where(schedule.c.name == bindparam("of"))


class _Amended(NamedTuple):
    """A change of a schedule. `before`: what was found of it; None: there was none."""

    name: str
    before: ScheduleState | InvalidSchedule | None
    after: Amendment


@dataclass(frozen=True, slots=True)
class Amending:
    """Changes of schedules, to be written in one transaction: all of them, or none.

    Parameters:
        amends: by the names of the schedules, what is asked how each changes.
    """

    dialect: Dialect
    enqueue: Enqueue
    amends: Mapping[str, Amend]
    now: datetime | None

    def write(self, conn: Connection) -> list[Amended]:
        """Lock the schedules, ask how each changes, and write that; return it in their order."""
        done: dict[str, Amended] = {}
        left = sorted(self.amends)
        while left:
            decided = self._decide(conn, left)
            left = self._insert(conn, decided)  # another transaction just created these: again
            done |= self._write(conn, [each for each in decided if each.name not in {*left}])
        return [done[name] for name in self.amends]

    def _decide(self, conn: Connection, names: Sequence[str]) -> list[_Amended]:
        facts = self._hold(conn, names)
        return [_Amended(each, facts[each].found, self.amends[each](facts[each])) for each in names]

    def _hold(self, conn: Connection, names: Sequence[str]) -> dict[str, ScheduleFacts]:
        """Lock those that there are, and then read what the decisions need."""
        among = self.dialect.among(schedule.c.name, names)
        held = select(schedule.c.name).where(among).order_by(schedule.c.name).with_for_update()
        rows = read(conn, self.dialect, conn.scalars(held).all(), self.now)
        dead = deaths(conn, self.dialect, rows)
        facts = {row.name: facts_in(row, dead) for row in rows}
        if missing := [name for name in names if name not in facts]:
            now = in_utc(conn.execute(select(self.dialect.moment(self.now))).scalar_one())
            facts |= dict.fromkeys(missing, ScheduleFacts(None, now))
        return facts

    def _insert(self, conn: Connection, decided: Sequence[_Amended]) -> list[str]:
        """Write those that are new; return which of them another transaction has written."""
        new = [
            to_row(each.after.state)
            for each in decided
            if each.before is None and each.after.state is not None
        ]
        written = self.dialect.write_new_rows(conn, schedule, new)
        return [row["name"] for row in new if row["name"] not in written]

    def _write(self, conn: Connection, decided: Sequence[_Amended]) -> dict[str, Amended]:
        """Create their jobs, and write the new state of each schedule."""
        made = make(conn, self.enqueue, [(each.name, each.after.ticks) for each in decided])
        done, changed = dict[str, Amended](), list[dict[str, Any]]()
        for (name, before, after), jobs in zip(decided, made, strict=True):
            state = after.state and with_last(after.state, jobs)
            done[name] = Amended(state, jobs)
            if state is not None and state is not (before or after.state):
                changed.append({"of": name} | to_row(state))
        if changed:
            conn.execute(_CHANGE, changed)
        _remove(conn, [each.name for each in decided if each.before and each.after.state is None])
        return done


def _remove(conn: Connection, names: Collection[str]) -> None:
    for name in names:
        conn.execute(delete(tick).where(tick.c.schedule == name))
        conn.execute(delete(schedule).where(schedule.c.name == name))

"""Reads the jobs of a key in their present state, which the rules of keys need.

Where rows are locked, a plain read in a caller's transaction may show what was committed before its
first one, however new the locks are. So everything that may have changed since is read from locked
rows. Such a read must find the row: where there is none, it would lock the gap, and block all
inserts there until the caller's commit. Therefore

- a plain read comes first. A job that has ended there has ended for good, and is not locked;
- any other is locked by its primary key. If it has ended since, its row is still to be found, as
  it was deleted: the transaction that may still see it has not ended;
- where a row may never have been, one is put there first, and taken away (`Words.fill`).
"""

from collections.abc import Set
from typing import NamedTuple

from mutirao.model.keys.supersede import Done, Older, Supersede
from mutirao.model.keys.uniqueness import PARKED, KeyName
from mutirao.sql.drivers.steps import Execute, Query
from mutirao.sql.rules.words import Words
from mutirao.sql.schema.types import to_micros

NAME = ("scope", "task", "queue", "key")
IS_NAMED = "k.scope = ? AND k.task = ? AND k.queue = ? AND k.key = ?"

_PARKED = to_micros(PARKED)
_HOLDER = f"""
SELECT k.job, k.since, k.unique_for, j.version, (
        SELECT a.finished_at FROM mutirao_attempt a
        WHERE a.job = k.job AND a.outcome IN ('succeeded', 'dead')
    ), j.run_at, l.id, l.worker, l.run_at, l.attempt, p.id, p.worker, p.run_at, p.attempt
FROM mutirao_key k
LEFT JOIN mutirao_live l ON l.id = k.job
LEFT JOIN mutirao_job j ON j.id = k.job
LEFT JOIN mutirao_live p ON p.id = k.after
WHERE k.job <> 0 AND {IS_NAMED}
"""
# The last live job of a key: the last one of all, or the one that it waited for.
_LAST = f"""
SELECT l.id, l.worker, l.run_at, l.attempt, j.task, j.args, j.run_at, t.after
FROM mutirao_supersede_last k
LEFT JOIN mutirao_supersede_wait w ON w.job = k.last
JOIN mutirao_live l ON l.id IN (k.last, w.after)
JOIN mutirao_job j ON j.id = l.id
LEFT JOIN mutirao_supersede_wait t ON t.job = l.id
WHERE {IS_NAMED}
ORDER BY l.id = k.last DESC LIMIT 1
"""
# The last job of a key that has succeeded, if no attempt of another one has started after it.
DONE = f"""
SELECT d.id, d.task, {{}}
FROM mutirao_supersede_last k
LEFT JOIN mutirao_attempt a
    ON a.job = k.last AND a.outcome IN ('succeeded', 'dead', 'cancelled')
JOIN mutirao_job d ON d.id = CASE
    WHEN a.outcome = 'succeeded' THEN k.last
    WHEN a.outcome IS NULL OR a.outcome = 'cancelled' AND a.attempt = 0 THEN k.done
END
WHERE {IS_NAMED}
"""
_DONE = DONE.format("d.args")

_KEY = f"SELECT job, after, since, unique_for FROM mutirao_key k WHERE {IS_NAMED}"
_KEY_LAST = f"SELECT k.last, k.done FROM mutirao_supersede_last k WHERE {IS_NAMED}"
_SEEN = """
SELECT j.id, l.id, j.version, a.outcome, a.attempt, a.finished_at
FROM mutirao_job j {}
LEFT JOIN mutirao_live l {} ON l.id = j.id
LEFT JOIN mutirao_attempt a ON a.job = j.id AND a.outcome IN ('succeeded', 'dead', 'cancelled')
WHERE {} AND """
# Whether it was the last one of its key then, too, and what it waited for then.
_SEEN_LAST = """
SELECT (SELECT count(*) FROM mutirao_supersede_last k WHERE k.last = j.id), w.after
FROM mutirao_job j LEFT JOIN mutirao_supersede_wait w ON w.job = j.id WHERE j.id = ?
"""
_STANDS = """
SELECT l.id, l.worker, l.run_at, l.attempt, j.task, j.args, j.run_at, j.version
FROM mutirao_live l {} LEFT JOIN mutirao_job j {} ON j.id = l.id
WHERE {} ORDER BY l.id"""
# Its last attempt. Beginning with the first run, which is there as a rule, and ending with the last
# one, this locks no gap in which others have to write.
_ENDED = """
SELECT j.version, a.outcome, a.attempt, a.finished_at
FROM mutirao_attempt a {} JOIN mutirao_job j ON j.id = a.job
WHERE a.job = ? AND a.run >= 1 AND a.outcome IN ('succeeded', 'dead', 'cancelled')
ORDER BY a.run LIMIT 1"""
_WAITS = "SELECT after FROM mutirao_supersede_wait WHERE job = ?"
_DONE_JOB = "SELECT id, task, args FROM mutirao_job WHERE id = ?"


class Live(NamedTuple):
    """A live job: its row and its options. `run_at` is `PARKED` while it waits for another."""

    id: int
    worker: int | None
    run_at: int
    attempt: int = 0
    task: str = ""
    args: str = ""
    asked: int = 0
    version: float | None = None

    @property
    def due(self) -> int:
        """When it is due, even while it waits for another one."""
        return self.asked if self.run_at == _PARKED else self.run_at


class HowEnded(NamedTuple):
    """A job that has ended, and how: nothing is known of one that is pruned."""

    version: float | None = None
    outcome: str | None = None
    attempt: int | None = None
    finished_at: int | None = None

    @property
    def window_from(self) -> int | None:
        """When it has finished, if not by being cancelled."""
        return None if self.outcome == "cancelled" else self.finished_at


class Holding(NamedTuple):
    """The row of a key: the job that was enqueued last, and the job that it waits for.

    `live` and `ahead` are those of the two that are live. `finished_at`: when `job` succeeded or
    died.
    """

    job: int
    since: int
    unique_for: float | None
    version: float | None
    finished_at: int | None
    live: Live | None
    ahead: Live | None


class Last(NamedTuple):
    """The last live job of a key under a supersede rule, and the one that it waits for."""

    live: Live
    before: int | None

    @property
    def older(self) -> Older:
        """The older job, in the form that the rule takes."""
        live = self.live
        untouched = live.worker is None and live.attempt == 0
        return Older(live.id, live.task, live.args, untouched)


def holding(words: Words, name: KeyName) -> Query[Holding | None]:
    """Return the current state of the jobs that hold a key, or held it last. The key is held."""
    if words.locks:
        return (yield from _holding_now(words, name))
    found = yield Execute(_HOLDER, name)
    if not found:
        return None
    job, since, unique_for, version, finished_at, asked, *rest = found[0]
    live, ahead = (
        Live(*row)._replace(asked=asked) if row[0] else None for row in (rest[:4], rest[4:])
    )
    return Holding(job, since, unique_for, version, finished_at, live, ahead)


def last(words: Words, name: KeyName, rule: Supersede) -> Query[tuple[Last | None, Done | None]]:
    """Return the last live job of a key, as it is now, and the last successful one. It is held.

    The second only if the rule drops repeated jobs.
    """
    if words.locks:
        return (yield from _last_now(words, name, rule))
    found = yield Execute(_LAST, name)
    newest = Last(Live(*found[0][:-1]), found[0][-1]) if found else None
    return newest, (yield from last_done(rule, name, _DONE))


def last_done(rule: Supersede, name: KeyName, sql: str) -> Query[Done | None]:
    """Return the last successful job of a key, if the rule drops repeated jobs."""
    if not rule.drop_repeated:
        return None
    found = yield Execute(sql, name)
    return Done(*found[0]) if found else None


def hold(words: Words, jobs: Set[int]) -> Query[dict[int, Live]]:
    """Lock the live rows of jobs; return those that there are.

    Each was live when it was looked for, or began later: so no gap is locked.
    """
    if not jobs:
        return {}
    which, values = words.among("l.id", sorted(jobs))
    sql = _STANDS.format(words.by_key, words.by_key, which) + words.hold
    rows = yield Execute(sql, values)
    return {row[0]: Live(*row) for row in rows}


def _holding_now(words: Words, name: KeyName) -> Query[Holding | None]:
    [(job, after, since, unique_for)] = yield Execute(_KEY + words.hold, name)
    if not job:
        return None
    live, ended = yield from _stand(words, {job, after} - {None}, ends=True)
    stands = live.get(job)
    end = ended.get(job, HowEnded())
    version = end.version if stands is None else stands.version
    return Holding(job, since, unique_for, version, end.window_from, stands, live.get(after))


def _stand(
    words: Words, jobs: Set[int], *, ends: bool
) -> Query[tuple[dict[int, Live], dict[int, HowEnded]]]:
    """Return which of these jobs are live, and locks them; and which have ended.

    `ends`: and how, also those that ended after the snapshot of a plain read.
    """
    which, values = words.among("j.id", jobs)
    seen = yield Execute(_SEEN.format(words.by_key, words.by_key, words.placed) + which, values)
    ended = {row[0]: HowEnded(*row[2:]) for row in seen if row[1] is None}
    live = yield from hold(words, jobs - ended.keys())
    for job in jobs - ended.keys() - live.keys():
        ended[job] = (yield from _end(words, job)) if ends else HowEnded()
    return live, ended


def _end(words: Words, job: int) -> Query[HowEnded]:
    """Return how a job has ended that was live a moment ago."""
    rows = yield Execute(_ENDED.format(words.by_key) + words.hold, (job,))
    return HowEnded(*rows[0]) if rows else HowEnded()


def _last_now(
    words: Words, name: KeyName, rule: Supersede
) -> Query[tuple[Last | None, Done | None]]:
    [(job, known_done)] = yield Execute(_KEY_LAST + words.hold, name)
    if not job:
        return None, None
    [(was_last, after)] = (yield Execute(_SEEN_LAST, (job,))) or [(False, None)]
    after = after if was_last else None
    live, ended = yield from _stand(words, {job, after or job}, ends=rule.drop_repeated)
    newest = yield from _newest(words, job, live, after, known=bool(was_last))
    if not rule.drop_repeated:
        return newest, None
    return newest, (yield from _done(words, job, ended.get(job, HowEnded()), known_done))


def _newest(
    words: Words, job: int, live: dict[int, Live], after: int | None, *, known: bool
) -> Query[Last | None]:
    """Return the last live job, where `job` was enqueued last.

    `known`: `after` is what that waited for when a plain read showed it, or None. It waits for it
    still if that is live; else for one before it, or for none.
    """
    current = known and (after is None or after in live)
    if job in live:
        if live[job].run_at != _PARKED:
            return Last(live[job], None)
        return Last(live[job], after if current else (yield from _wait(words, job)))
    if not current:
        after = yield from _wait(words, job)
        live = live if after is None else (yield from hold(words, {after}))
    if after is None or after not in live:
        return None
    parked = live[after].run_at == _PARKED
    return Last(live[after], (yield from _wait(words, after)) if parked else None)


def _wait(words: Words, job: int) -> Query[int | None]:
    """Return the job that another one waits for; no other transaction has its row."""
    yield from words.fill("mutirao_supersede_wait", [job])
    [(after,)] = yield Execute(_WAITS + words.hold, (job,))
    if after:
        return int(after)
    yield from words.drop("mutirao_supersede_wait", [job])
    return None


def _done(words: Words, job: int, end: HowEnded, known: int | None) -> Query[Done | None]:
    """Return the last successful job, where `job` was enqueued last, and knew of another one."""
    untried = end.outcome is None or (end.outcome == "cancelled" and end.attempt == 0)
    done = job if end.outcome == "succeeded" else known if untried else None
    if done is None:
        return None
    rows = (yield Execute(_DONE_JOB, (done,))) or (yield Execute(_DONE_JOB + words.hold, (done,)))
    return Done(*rows[0]) if rows else None

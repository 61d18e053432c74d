"""Catches up with a change of limits for jobs that it skipped because others had locked them.

Where callers lock live rows as their calls come, a change of limits does not wait for rows while it
holds others: that would be a deadlock. So a job that runs may not be counted by a new limit, and
one that waits may stay behind a counter whose limit is gone. Both are seen in the tables, whatever
left them there. Times are in microseconds.
"""

from mutirao.sql.drivers.steps import Execute, Query
from mutirao.sql.rules import limits
from mutirao.sql.rules.counters import find_counters
from mutirao.sql.rules.words import Words

_BEHIND = """
SELECT p.job FROM mutirao_parked p JOIN mutirao_counter c ON c.id = p.counter
WHERE c.name >= ? AND c.name < ?
"""
_NAMES = (limits.CLOSED, chr(ord(limits.CLOSED) + 1))
_RUNS = "SELECT id FROM mutirao_live WHERE id = ? AND worker IS NOT NULL"


def left_out(words: Words) -> Query[list[int]]:
    """Return jobs that may have been left, in order. Reads only."""
    behind = {job for (job,) in (yield Execute(_BEHIND, _NAMES))}
    return sorted(behind | (yield from _uncounted(words)))


def _uncounted(words: Words) -> Query[set[int]]:
    """Return jobs that run, and that a limit covers and does not count, as it seems."""
    counting = [rule for rule in (yield from limits.rules()) if limits.counts_running(rule)]
    running = [id for (id,) in (yield limits.RUNNING)] if counting else []
    if not running:
        return set()
    found = [job.candidate(counting) for job in (yield from limits.asking(words, running)).values()]
    counters = yield from find_counters(words, {name for job in found for name in job.counters})
    held = {(job, counter) for job, counter in (yield limits.slots(words, running))}
    return {
        job.id
        for job in found
        for name in job.counters
        if name not in counters or (job.id, counters[name].id) not in held
    }


def catch_up(words: Words, job: int, moment: int) -> Query[None]:
    """Wait for the holder of a job, and do with it what was left; nothing else is locked before."""
    yield from words.hold_jobs([job])
    yield from words.keep_limits()
    if (yield Execute(_RUNS, (job,))):
        rules = [rule for rule in (yield from limits.rules()) if limits.counts_running(rule)]
        yield from limits.count_those(words, [job], rules, moment)
    elif (yield Execute(f"{_BEHIND} AND p.job = ?", (*_NAMES, job))):
        yield from limits.mend(words, moment)

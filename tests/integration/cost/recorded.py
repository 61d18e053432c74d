"""The recorded figures: what a job costs where the machine does not matter.

Whoever changes one does so on purpose, and says in the commit why. CONTRIBUTING.md has the rules.
"""

from __future__ import annotations

from tests.integration.cost.meters import Cost

# What each step costs: statements, commits and round trips, exactly so many.
_ON_THE_WIRE = {
    "enqueue 1": Cost(1, 1, 1),
    # A transaction around: the time, ids, COPY of jobs and of live rows, a wake-up.
    "enqueue 1,000": Cost(9, 1, 9),
    "claim 1": Cost(1, 1, 1),
    "claim 500": Cost(1, 1, 1),
    "finish 1": Cost(1, 1, 1),
    "finish 500": Cost(1, 1, 1),
    "retry 1": Cost(1, 1, 1),
    "retry 500": Cost(1, 1, 1),
    "job.transaction()": Cost(3, 1, 3),
}
STEPS = {
    "psycopg": _ON_THE_WIRE,
    "asyncpg": _ON_THE_WIRE,
    "sqlite": {
        "enqueue 1": Cost(2, 1),
        "enqueue 1,000": Cost(9, 1),
        # BEGIN, COMMIT, and three in between, whatever the number of jobs.
        "claim 1": Cost(5, 1),
        "claim 500": Cost(5, 1),
        "finish 1": Cost(5, 1),
        "finish 500": Cost(5, 1),
        "retry 1": Cost(5, 1),
        "retry 500": Cost(5, 1),
        "job.transaction()": Cost(5, 1),
    },
}
IN_YOUR_TRANSACTION = {
    "psycopg": {1: Cost(1, 0, 1), 1_000: Cost(7, 0, 7)},
    "asyncpg": {1: Cost(1, 0, 1), 1_000: Cost(7, 0, 7)},
    "sqlite": {1: Cost(1, 0), 1_000: Cost(7, 0)},
}

# What a worker's life with 1,000 jobs costs, and 9,000 more of them: at the most. How full its
# batches are depends a little on which loop's turn comes first; hence room for four more statements
# than were seen. A driver's own questions about types when it connects are in the first figure.
DRAINING = {
    "psycopg": (Cost(67, 42, 74), Cost(48, 48, 48)),
    "asyncpg": (Cost(82, 70, 102), Cost(48, 48, 48)),
    "sqlite": (Cost(83, 16), Cost(192, 42)),
}
# A minute of an idle worker, at the most: a look at the lanes each second, 12 heartbeats, 24 looks
# for vanished workers, one at what to prune. Room for two more, where the minute's ends fall.
IDLE_MINUTE = {
    "psycopg": Cost(206, 153, 210),
    "asyncpg": Cost(206, 153, 210),
    "sqlite": Cost(363, 66),
}
# And on SQLite so many looks whether the file has changed.
LOOKS_A_MINUTE = 3_001

# Rows touched for each job of a batch: inserted, updated (and how many of these without new index
# entries: none, while the indexes of live rows tell the waiting from the running), deleted, and
# read, by index or in a scan. Exactly so many.
ROWS: dict[str, dict[str, dict[str, float]]] = {
    "enqueue many": {"job": {"n_tup_ins": 1}, "live": {"n_tup_ins": 1}},
    "claim": {"job": {"idx_tup_fetch": 1}, "live": {"idx_tup_fetch": 2, "n_tup_upd": 1}},
    "finish": {"live": {"idx_tup_fetch": 1, "n_tup_del": 1}, "attempt": {"n_tup_ins": 1}},
    "resume": {"live": {"idx_tup_fetch": 1, "n_tup_upd": 1}, "attempt": {"n_tup_ins": 1}},
    "release": {"live": {"idx_tup_fetch": 1, "n_tup_upd": 1}},
}

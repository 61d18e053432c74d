"""The recorded figures: what a job costs where the machine does not matter.

Whoever changes one does so on purpose, and says in the commit why. docs/contributing/tests.md
has the rules.
"""

from __future__ import annotations

import sys

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
    # With one statement of the handler's own.
    "job.transaction()": Cost(4, 1, 4),
    "job.transaction(connection=True)": Cost(4, 1, 4),
}
STEPS = {
    # It sends BEGIN together with the first statement, and COMMIT together with the last one.
    "psycopg": _ON_THE_WIRE
    | {"job.transaction()": Cost(4, 1, 2), "job.transaction(connection=True)": Cost(4, 1, 2)},
    "asyncpg": _ON_THE_WIRE,
    "sqlite": {
        "enqueue 1": Cost(2, 1),
        "enqueue 1,000": Cost(9, 1),
        # BEGIN, COMMIT, and three in between, whatever the number of jobs.
        "claim 1": Cost(6, 1),  # one asks whether the worker is registered
        "claim 500": Cost(6, 1),
        "finish 1": Cost(5, 1),
        "finish 500": Cost(5, 1),
        "retry 1": Cost(5, 1),
        "retry 500": Cost(5, 1),
        "job.transaction()": Cost(6, 1),
        "job.transaction(connection=True)": Cost(6, 1),
    },
}
IN_YOUR_TRANSACTION = {
    "psycopg": {1: Cost(1, 0, 1), 1_000: Cost(7, 0, 7)},
    "asyncpg": {1: Cost(1, 0, 1), 1_000: Cost(7, 0, 7)},
    "sqlite": {1: Cost(1, 0), 1_000: Cost(7, 0)},
}

# What a worker's life with 1,000 jobs costs, and 9,000 more of them: at the most. 18 claims and 18
# settlements are what full batches need. How full they are depends a little on which loop's turn
# comes first, and a shared duty may come due meanwhile, hence room for some more: on SQLite 64 to
# 70 were seen, under load. asyncpg also asks about types on each new connection.
DRAINING = {
    # Up to three are looks for what was open when it began to listen.
    "psycopg": (Cost(52, 47, 60), Cost(44, 45, 45)),
    "asyncpg": (Cost(84, 80, 106), Cost(58, 52, 58)),
    "sqlite": (Cost(72, 12), Cost(205, 42)),
}
# A minute of an idle worker, at the most: looks at the lanes, heartbeats, looks for vanished
# workers, at what to prune, and what to add up. Room for a few more, where the minute's ends and
# the random parts of intervals fall: 120 to 127 statements, 131 round trips were seen in 55 runs.
# On SQLite each of its 32 own writes may wake it for a look of three statements (one asks what is
# new), or for none where two are noticed together, as the machine has it: 342 is all.
IDLE_MINUTE = {
    "psycopg": Cost(132, 128, 136),
    "asyncpg": Cost(132, 128, 136),
    "sqlite": Cost(342, 43),
}
# And on SQLite so many looks whether the file has changed, by the worker's own writes; where the
# system does not tell of writes, one every 20 ms.
LOOKS_A_MINUTE = 155 if sys.platform == "linux" else 3_001

# Rows touched for each job of a batch: inserted, updated (and how many of these without new index
# entries: all that are claimed), deleted, and read, by index or in a scan. Exactly so many.
ROWS: dict[str, dict[str, dict[str, float]]] = {
    "enqueue many": {"job": {"n_tup_ins": 1}, "live": {"n_tup_ins": 1}},
    "claim": {
        "job": {"idx_tup_fetch": 1},
        "live": {"idx_tup_fetch": 2, "n_tup_upd": 1, "n_tup_hot_upd": 1},
    },
    "finish": {"live": {"idx_tup_fetch": 1, "n_tup_del": 1}, "attempt": {"n_tup_ins": 1}},
    "resume": {"live": {"idx_tup_fetch": 1, "n_tup_upd": 1}, "attempt": {"n_tup_ins": 1}},
    "release": {"live": {"idx_tup_fetch": 1, "n_tup_upd": 1}},
}

# Bytes of WAL for a job, by the bytes of its arguments. Either way: what fell is recorded, too.
WAL_OF_ENQUEUEING: dict[int, dict[str, float]] = {
    60: {"enqueue 1": 534, "enqueue 1,000": 410},
    1_000: {"enqueue 1": 1_480, "enqueue 1,000": 1_364},
    8_000: {"enqueue 1": 9_175, "enqueue 1,000": 9_070},
}
WAL_OF_WORKING: dict[str, float] = {"claim": 163, "finish": 336}
# Of the figure. On one server they repeat to the byte; other versions split index pages elsewhere.
WAL_TOLERANCE = 0.1

# Pages touched for each lane that is looked into, at the most: the way down the index of lanes,
# a leaf or two, and a row of the table.
PAGES_A_LANE = 5

# Blocks of memory for each attempt, at the most: where its handler has ended, and where it waits.
# They repeat to the second digit. Other versions of Python lay objects out otherwise: hence half a
# block more. Before Python 3.12 the task of an attempt outlives its handler by a turn of the loop.
BLOCKS = {"at once": 4.7 if sys.version_info >= (3, 12) else 6.5, "waits": 33.0}
# After 10,000 jobs. None were seen; threads of the tests' own machinery may have taken a few.
BLOCKS_LEFT = 50

# What a thousand cost that are put at once: as much as two.
_PUT_MANY = {
    "schedules, new": Cost(5, 1, 5),
    "schedules, again": Cost(4, 1, 4),
    "subscriptions, new": Cost(6, 1, 6),
    "subscriptions, again": Cost(5, 1, 5),
    "endpoints, new": Cost(11, 1, 11),
    "endpoints, again": Cost(9, 1, 9),
}
PUT_MANY: dict[str, dict[str, Cost]] = {
    "psycopg": _PUT_MANY,
    "asyncpg": _PUT_MANY,
    "sqlite": {
        "schedules, new": Cost(5, 1),
        "schedules, again": Cost(4, 1),
        "subscriptions, new": Cost(6, 1),
        "subscriptions, again": Cost(5, 1),
        "endpoints, new": Cost(10, 1),
        "endpoints, again": Cost(8, 1),
    },
}

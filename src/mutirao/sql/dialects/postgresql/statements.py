"""The frequent statements on PostgreSQL. Each is one statement, hence one round trip.

Tests hold their plans (`EXPLAIN`) with a million finished jobs and with generic plans.
"""

# The functions are in the migrations, with the reason why they are functions. Arrays of numbers
# travel as text: joining them costs a tenth of what the drivers take to dump a list.
LANES = """
SELECT * FROM mutirao_lanes(%s::text[], %s::timestamptz)
"""

_CLAIM = """
SELECT * FROM {}(
    %s, %s::text::text[], %s::text::smallint[], %s::text::timestamptz[], %s::text::bigint[], %s,
    %s::text[], %s::timestamptz
)
"""
CLAIM = _CLAIM.format("mutirao_claim")
CLAIM_BY_FAIRNESS = _CLAIM.format("mutirao_claim_by_fairness")

RING = """
SELECT * FROM mutirao_ring(
    %s::text[], %s::smallint[], %s::timestamptz[], %s::bigint[], %s, %s::timestamptz
)
"""
ANSWER = """
SELECT * FROM mutirao_answer(%s, %s::text::bigint[], %s::text::integer[], %s::timestamptz)
"""

_ENDED = """
    %s::text::bigint[], %s::text::integer[], %s::text[], %s::text::bigint[], %s::text::bigint[],
    %s::text[], %s::text[]
"""
# Where limits call jobs into the place of those that ended, the transaction knows where to.
_CALLED = "current_setting('mutirao.called', true)"
_FINISH = f"mutirao_finish({_ENDED}, %s::timestamptz), {_CALLED}"
# Where others wait for their end, or the transaction settles more.
_HELD = "mutirao_hold(%s::text::bigint[]), "
# Of workers: who has locked a row for long, in a prepared transaction perhaps, holds up that job,
# and not all that travels with it.
_IMPATIENTLY = "set_config('lock_timeout', '1s', true), "
# By whether rows are to be held first, and whether a handler's transaction waits for them.
FINISH = {
    (False, False): f"SELECT {_IMPATIENTLY}{_FINISH}",
    (False, True): f"SELECT {_FINISH}",
    (True, False): f"SELECT {_IMPATIENTLY}{_HELD}{_FINISH}",
    (True, True): f"SELECT {_HELD}{_FINISH}",
}

# A list of objects is one value, which costs a driver less than an array for each column.
DELIVERED = f"""
SELECT written, settled, {_CALLED} FROM mutirao_delivered(
    %s::text::json, {_ENDED}, %s, %s, %s::timestamptz
)
"""  # noqa: S608 (constants)

# It raises an error if it must not be committed, so the COMMIT may travel with it.
COMPLETE = "SELECT mutirao_complete(%s, %s, %s)"

FAN_OUT = "SELECT done, last FROM mutirao_fan_out(%s, %s, %s, %s::text[], %s::text, %s)"

HOLD = "SELECT mutirao_hold(%s::text::bigint[], false)"

RESUME = f"""
SELECT mutirao_resume(
    %s, {_ENDED}, %s::integer[], %s::timestamptz[], %s::double precision[], %s::timestamptz
), {_CALLED}
"""

# These functions switch sequential scans off, and wake workers: to the planner the scan of the few
# rows of workers seems so dear then that it compiles it: 69 ms of the processor, not 0.5.
_UNCOMPILED = "set_config('jit', 'off', true), "
RELEASE = f"SELECT {_UNCOMPILED}mutirao_release(%s::text::bigint[], %s::text::integer[])"

LOSE = f"""
SELECT {_UNCOMPILED}mutirao_lose_runs(
    %s::text::bigint[], %s::text::integer[],
    %s::timestamptz
)
"""

RESCUE = "SELECT * FROM mutirao_rescue(%s, %s::timestamptz)"

WAKE = "SELECT mutirao_wake()"
WAKE_ALL = "SELECT pg_notify('mutirao', '')"

NOTIFY_ENDED = "SELECT mutirao_tell_waiters(%s::text::bigint[])"

ROLL_UP = "SELECT mutirao_roll_up(%s::double precision * interval '1 second', %s::timestamptz)"
COUNT_BACKLOG = "SELECT mutirao_count_backlog(%s::bigint, %s::timestamptz)"

# Limits.
SIFT = """
SELECT mutirao_sift(
    %s::text[], %s::smallint[], %s::timestamptz[], %s::bigint[], %s, %s::text[], %s::timestamptz
)
"""

LET_GO = """
SELECT mutirao_let_go(%s::text::bigint[], %s::timestamptz)
WHERE EXISTS (SELECT FROM mutirao_counter)
"""

OPEN_LIMIT = "SELECT mutirao_open_limit(%s, %s::timestamptz)"

CLOSE_LIMIT = "SELECT mutirao_close_limit(%s, %s::timestamptz)"

MEND = """
SELECT mutirao_mend(%s::timestamptz) WHERE EXISTS (SELECT FROM mutirao_counter)
"""

"""The hot statements in PostgreSQL's words. Each is one statement, hence one round trip.

Tests hold their plans (`EXPLAIN`) with a million finished jobs and with generic plans. What is
written with `%s` is asked in steps, past SQLAlchemy.
"""

from sqlalchemy import text

# The functions are in the migrations, with the reason why they are functions. Arrays of numbers
# travel as text: joining them costs a tenth of what the drivers take to dump a list.
LANES = text("""
SELECT * FROM mutirao_lanes(CAST(:queues AS text[]), CAST(:now AS timestamptz))
""")

_CLAIM = """
SELECT * FROM {}(
    %s, %s::text[], %s::smallint[], %s::timestamptz[], %s::bigint[], %s, %s::text[],
    %s::timestamptz
)
"""
CLAIM = _CLAIM.format("mutirao_claim")
CLAIM_IN_TURN = _CLAIM.format("mutirao_claim_in_turn")

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

HOLD = text("SELECT mutirao_hold(CAST(CAST(:jobs AS text) AS bigint[]), false)")

RESUME = f"""
SELECT mutirao_resume(
    %s, {_ENDED}, %s::integer[], %s::timestamptz[], %s::double precision[], %s::timestamptz
), {_CALLED}
"""

RELEASE = "SELECT mutirao_release(%s::text::bigint[], %s::text::integer[])"

LOSE = text("""
SELECT mutirao_lose_runs(
    CAST(CAST(:ids AS text) AS bigint[]), CAST(CAST(:runs AS text) AS integer[]),
    CAST(:now AS timestamptz)
)
""")

RESCUE = text("SELECT * FROM mutirao_rescue(:orphans, CAST(:now AS timestamptz))")

WAKE = text("SELECT mutirao_wake()")

TELL_ENDED = text("SELECT mutirao_tell_waiters(CAST(CAST(:jobs AS text) AS bigint[]))")

# Limits.
SIFT = """
SELECT mutirao_sift(
    %s::text[], %s::smallint[], %s::timestamptz[], %s::bigint[], %s, %s::text[], %s::timestamptz
)
"""

LET_GO = text("""
SELECT mutirao_let_go(CAST(CAST(:ids AS text) AS bigint[]), CAST(:now AS timestamptz))
WHERE EXISTS (SELECT FROM mutirao_counter)
""")

OPEN_LIMIT = text("SELECT mutirao_open_limit(:name, CAST(:now AS timestamptz))")

CLOSE_LIMIT = text("SELECT mutirao_close_limit(:name, CAST(:now AS timestamptz))")

MEND = text("""
SELECT mutirao_mend(CAST(:now AS timestamptz)) WHERE EXISTS (SELECT FROM mutirao_counter)
""")

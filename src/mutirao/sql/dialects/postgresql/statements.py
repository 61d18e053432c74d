"""The hot statements in PostgreSQL's words. Each is one statement, hence one round trip.

Tests hold their plans (`EXPLAIN`) with a million finished jobs and with generic plans.
"""

from sqlalchemy import text

# The functions are in the migrations, with the reason why they are functions. Arrays of numbers
# travel as text: joining them costs a tenth of what the drivers take to dump a list.
LANES = text("""
SELECT * FROM mutirao_lanes(CAST(:queues AS text[]), CAST(:now AS timestamptz))
""")

_CLAIM = """
SELECT * FROM {}(
    :worker, CAST(:queues AS text[]), CAST(:priorities AS smallint[]),
    CAST(:run_ats AS timestamptz[]), CAST(:ids AS bigint[]), :limit,
    CAST(:without AS text[]), CAST(:now AS timestamptz)
)
"""
CLAIM = text(_CLAIM.format("mutirao_claim"))
CLAIM_IN_TURN = text(_CLAIM.format("mutirao_claim_in_turn"))

_ENDED = """
    CAST(CAST(:ids AS text) AS bigint[]), CAST(CAST(:runs AS text) AS integer[]),
    CAST(:outcomes AS text[]), CAST(CAST(:started AS text) AS bigint[]),
    CAST(CAST(:finished AS text) AS bigint[]), CAST(:error_types AS text[]),
    CAST(:errors AS text[])
"""
# Where limits call jobs into the place of those that ended, the transaction knows where to.
_CALLED = "current_setting('mutirao.called', true)"
_FINISH = f"mutirao_finish({_ENDED}, CAST(:now AS timestamptz)), {_CALLED}"
FINISH = text(f"SELECT {_FINISH}")
_HOLD = "mutirao_hold(CAST(CAST(:all_ids AS text) AS bigint[]))"
FINISH_SOME = text(f"SELECT {_HOLD}, {_FINISH}")  # of those that a transaction settles

RESUME = text(f"""
SELECT mutirao_resume(
    :worker, {_ENDED}, CAST(:back AS integer[]), CAST(:ats AS timestamptz[]),
    CAST(:afters AS double precision[]), CAST(:now AS timestamptz)
), {_CALLED}
""")

RELEASE = text("""
SELECT mutirao_release(CAST(CAST(:ids AS text) AS bigint[]), CAST(CAST(:runs AS text) AS integer[]))
""")

RESCUE = text("SELECT * FROM mutirao_rescue(:orphans, CAST(:now AS timestamptz))")

WAKE = text("SELECT mutirao_wake()")

TELL_ENDED = text("SELECT mutirao_tell_waiters(CAST(CAST(:jobs AS text) AS bigint[]))")

# Limits.
SIFT = text("""
SELECT mutirao_sift(
    CAST(:queues AS text[]), CAST(:priorities AS smallint[]), CAST(:run_ats AS timestamptz[]),
    CAST(:ids AS bigint[]), :look, CAST(:without AS text[]), CAST(:now AS timestamptz)
)
""")

LET_GO = text("""
SELECT mutirao_let_go(CAST(CAST(:ids AS text) AS bigint[]), CAST(:now AS timestamptz))
WHERE EXISTS (SELECT FROM mutirao_counter)
""")

OPEN_LIMIT = text("SELECT mutirao_open_limit(:name, CAST(:now AS timestamptz))")

CLOSE_LIMIT = text("SELECT mutirao_close_limit(:name, CAST(:now AS timestamptz))")

MEND = text("""
SELECT mutirao_mend(CAST(:now AS timestamptz)) WHERE EXISTS (SELECT FROM mutirao_counter)
""")

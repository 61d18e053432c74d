"""The hot statements in PostgreSQL's words. Each is one statement, hence one round trip.

Tests hold their plans (`EXPLAIN`) with a million finished jobs and with generic plans.
"""

from sqlalchemy import text

# The functions are in the migrations, with the reason why they are functions. Arrays of numbers
# travel as text: joining them costs a tenth of what the drivers take to dump a list.
LANES = text("""
SELECT * FROM mutirao_lanes(CAST(:queues AS text[]), CAST(:now AS timestamptz))
""")

CLAIM = text("""
SELECT * FROM mutirao_claim(
    :worker, CAST(:queues AS text[]), CAST(:priorities AS smallint[]),
    CAST(:run_ats AS timestamptz[]), CAST(:ids AS bigint[]), :limit,
    CAST(:without AS text[]), CAST(:now AS timestamptz)
)
""")

_ENDED = """
    CAST(CAST(:ids AS text) AS bigint[]), CAST(CAST(:runs AS text) AS integer[]),
    CAST(:outcomes AS text[]), CAST(CAST(:started AS text) AS bigint[]),
    CAST(CAST(:finished AS text) AS bigint[]), CAST(:error_types AS text[]),
    CAST(:errors AS text[])
"""
FINISH = text(f"SELECT mutirao_finish({_ENDED}, CAST(:now AS timestamptz))")

RESUME = text(f"""
SELECT mutirao_resume(
    :worker, {_ENDED}, CAST(:back AS integer[]), CAST(:ats AS timestamptz[]),
    CAST(:afters AS double precision[]), CAST(:now AS timestamptz)
)
""")

RELEASE = text("""
SELECT mutirao_release(CAST(CAST(:ids AS text) AS bigint[]), CAST(CAST(:runs AS text) AS integer[]))
""")

RESCUE = text("SELECT * FROM mutirao_rescue(:orphans, CAST(:now AS timestamptz))")

WAKE = text("SELECT mutirao_wake()")

TELL_ENDED = text("SELECT mutirao_tell_waiters(CAST(CAST(:jobs AS text) AS bigint[]))")

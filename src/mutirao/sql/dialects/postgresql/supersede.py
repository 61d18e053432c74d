"""A supersede rule on PostgreSQL: asked when a job is enqueued, or for jobs that SQL enqueued.

The functions of `uniqueness.sql` lock the last job of the key, and do at the commit what was
decided.
"""

from mutirao.errors import InvalidJob
from mutirao.model.keys.supersede import Decision, Older, Supersede, decide, repeated_because
from mutirao.model.keys.uniqueness import KeyName
from mutirao.sql.drivers.steps import Execute, Query
from mutirao.sql.rules.keys import DONE, last_done
from mutirao.sql.rules.supersede import UNJUDGED

_LAST = "SELECT * FROM mutirao_lock_supersede_last(%s::text, %s::text, %s::text, %s::text)"
_DONE = DONE.format("d.args::text").replace("?", "%s")
_UNJUDGED = UNJUDGED.format("j.args::text").replace("?", "%s")
# Nothing if another program has judged it meanwhile; NULL if it was cancelled.
_TAKE = """DELETE FROM mutirao_unjudged u WHERE u.job = %s::bigint
RETURNING (SELECT l.id FROM mutirao_live l WHERE l.id = u.job)"""
_PLACE_JUDGED = """SELECT mutirao_place_judged(
    %s::bigint, %s::text, %s::text, %s::text, %s::text, %s::bigint, %s::text, %s::text::json,
    %s::bigint
)"""
_CANCEL = "SELECT mutirao_cancel_superseded(%s::bigint, %s::text)"


def ask(
    name: KeyName, rule: Supersede, task: str, args: str
) -> Query[tuple[int | None, str | None, Decision]]:
    """Lock a key and ask the rule about a newer job.

    Returns the id of the older one; what becomes of that at the commit, if anything; and all of it.
    """
    found = yield Execute(_LAST, name)
    older = Older(*found[0]) if found else None
    done = yield from last_done(rule, name, _DONE)
    decision = decide(rule, task, args, older, done)
    fate = None if decision.how in ("inserted", "follows") else decision.how
    return older and older.id, fate, decision


def judge(name: KeyName, task: str, rule: Supersede) -> Query[None]:
    """Ask the rule about the jobs of a key that SQL enqueued. To be done in a transaction.

    One about which the rule cannot say anything is cancelled.
    """
    for id, args, *_ in (yield Execute(_UNJUDGED, (*name, task))):
        try:
            older, fate, decision = yield from ask(name, rule, task, args)
        except InvalidJob as unfit:
            older, fate, decision = None, str(unfit), None
        taken = yield Execute(_TAKE, (id,))
        if not taken or taken[0][0] is None:
            continue
        if decision is None:
            yield Execute(_CANCEL, (id, fate))
        elif decision.how == "repeated" and decision.done is not None:
            yield Execute(_CANCEL, (id, repeated_because(decision.done)))
        else:
            place = (older, fate, decision.args, decision.done)
            yield Execute(_PLACE_JUDGED, (id, *name, *place))

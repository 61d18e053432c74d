"""The parameters of `app.change(…)`, and the checks of their values."""

from datetime import datetime
from typing import Annotated, TypedDict

from mutirao.errors import InvalidJob
from mutirao.model.jobs.change import Change
from mutirao.tasks.options import Duration, length_of_time, refuse_unknown
from mutirao.tasks.validation import check_attempts, check_priority, check_queue, check_when


class ChangeTerms(TypedDict, total=False):
    """The new values of `app.change(…)`, with their texts on the command line.

    What is left out stays as it is.

    Parameters:
        priority: smaller priorities run first; -32768 to 32767.
        queue: the queue in which the jobs wait from now on.
        run_at: the jobs are due at this aware datetime.
        delay: the jobs are due so many seconds (or a `timedelta`) from now; instead of `run_at`.
        max_attempts: the number of executions in all, those included that have been.
    """

    priority: Annotated[int | None, "Their new priority; smaller runs first."]
    queue: Annotated[str | None, "Their new queue."]
    run_at: Annotated[datetime | None, "Not before this moment."]
    delay: Annotated[Duration | None, "Not before so long from now (90, 15m, 2h)."]
    max_attempts: Annotated[int | None, "How often they run in all."]


def change_of(terms: ChangeTerms) -> Change:
    """Return the change for the given terms.

    Raises:
        InvalidJob: nothing is given, or a value is out of range.
        TypeError: a value is unknown.
    """
    refuse_unknown("a change", terms, ChangeTerms)
    change = Change(
        priority=terms.get("priority"),
        queue=terms.get("queue"),
        run_at=terms.get("run_at"),
        delay=length_of_time("delay", terms.get("delay")),
        max_attempts=terms.get("max_attempts"),
    )
    if not change.changes:
        raise InvalidJob(
            "no new value is given; give priority, queue, run_at, delay or max_attempts"
        )
    if change.priority is not None:
        check_priority(change.priority)
    if change.queue is not None:
        check_queue(change.queue)
    check_when(change.run_at, change.delay)
    check_attempts(change.max_attempts)
    return change

"""What failed is tried again later, by its error; once the cause is mended, all of it at once.

In a table of one's own the worker that caught an error, and the operator later on, write:

    UPDATE task SET status = 'error', attempt = attempt + 1, error = :error,
        delayed_to = now() + interval '5 minutes' * (attempt + 1) WHERE id = :id;
    SELECT error, count(*) FROM task WHERE status = 'error' GROUP BY error;
    UPDATE task SET delayed_to = now() WHERE status = 'error' AND error = :error;

and tasks that are new and tasks that were put off are taken by two queries, each with its index.
Here a policy says what follows from which error, the view `mutirao_errors` counts, and `app.retry`
makes due. New jobs and later attempts are in one lane, and are claimed by one query.
"""

from datetime import datetime

from mutirao import Retry
from mutirao.testing import drain
from reindex import app, ask

STATES = """
SELECT state, error_type, count(*) FROM mutirao_jobs WHERE task = 'errors.index'
GROUP BY state, error_type ORDER BY state
"""
COUNTED = "SELECT message, jobs FROM mutirao_errors WHERE task = 'errors.index' ORDER BY message"

mended = False


class Unreadable(Exception):
    """There is no sense in trying again."""


@app.task(name="errors.index", retry=Retry.linear(10, interval=300, never=(Unreadable,)))
def index(document: int) -> None:
    """Index a document, unless it cannot be read, or the search engine is down."""
    if document == 1:
        raise Unreadable("this is no document")
    if not mended:
        raise ConnectionError("the search engine is down")


def show() -> None:
    """Print how many jobs are in which state, and why."""
    print(*(f"{count} {state} ({error})" for state, error, count in ask(STATES)), sep=", ")


if __name__ == "__main__":
    waiting = [index.enqueue(number) for number in (1, 2, 3)][-1]
    drain(app)
    show()
    print(*(f"{message}: {jobs} jobs" for message, jobs in ask(COUNTED)), sep="\n")
    job = app.job(waiting.id)
    failed: datetime = job.attempts[-1].finished_at
    print(f"the next attempt is {(job.run_at - failed).total_seconds() / 60:.0f} minutes later")
    mended = True
    print(f"{len(app.retry(task='errors.index', error_type='ConnectionError'))} are due now")
    drain(app)
    show()

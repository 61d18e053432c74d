"""`enqueue`: enqueue one job, checked like a call in code."""

from datetime import datetime, timedelta
from typing import Any

import click

from mutirao.cli.options import (
    as_json,
    ask,
    duration,
    json_object,
    moment,
    number_or_moment,
    option,
    target,
    window,
)
from mutirao.cli.output import fields_of, print_json
from mutirao.cli.target import AppCommand, load_app
from mutirao.model.uniqueness import How, OnConflict

_SAID: dict[How, str] = {
    "inserted": "enqueued {}",
    "replaced": "enqueued {} in place of the one that waited,",
    "rerun": "enqueued {} to run after the one that runs now,",
    "found": "nothing to do: {} has the key,",
    "outdated": "nothing to do: {} is of a newer version,",
    "follows": "enqueued {} to run after the one before it,",
    "merged": "enqueued {}, merged with the one that waited,",
    "repeated": "nothing to do: {} has done the same,",
    "superseded": "nothing to do: {} and the one that waited make each other redundant,",
}


@click.command(cls=AppCommand)
@target
@click.argument("task")
@click.argument("args", type=json_object, default="{}")
@option("--queue", help="Instead of the task's.")
@option("--priority", type=int, help="Smaller runs first.")
@option("--run-at", type=moment, help="Not before this moment.")
@option("--delay", type=duration, help="Not before so long from now (90, 15m, 2h).")
@option("--max-attempts", type=int, help="Instead of the task's.")
@option("--timeout", type=duration, help="Instead of the task's.")
@option("--key", help="At most one job has it until it has finished.")
@option(
    "--on-conflict", type=click.Choice([*map(str, OnConflict)]), help="If another one has the key."
)
@option(
    "--unique-for",
    type=window,
    help="Hold the key so long after the job has finished, or: forever.",
)
@option("--scope", help="Who shares keys, instead of the task's jobs in the queue.")
@option(
    "--as-of",
    "version",
    type=number_or_moment,
    help="The update's number or moment: nothing is enqueued if a newer one was.",
)
@option("--debounce-limit", type=duration, help="The longest that replacing may put a job off.")
@option("--tag", "tags", multiple=True, help="Added to the task's; may be repeated.")
@option("--metadata", type=json_object, help="A JSON object kept with the job.")
@option("--traceparent", help="W3C trace context.")
@as_json
def enqueue(
    target: str,
    task: str,
    args: dict[str, Any],
    as_json: bool,
    run_at: datetime | None,
    delay: timedelta | None,
    timeout: timedelta | None,
    **options: Any,
) -> None:
    """Enqueue a job of TASK with ARGS, a JSON object of its arguments by name.

    \b
    mutirao enqueue shop:app send_receipt '{"order_id": 7}' --delay 15m
    """
    app = load_app(target)
    call = app.task_named(task).using(run_at=run_at, delay=delay, timeout=timeout, **options)
    handle = ask(app, lambda: call.aenqueue(**args))
    if as_json:
        print_json(fields_of(handle))
    else:
        said = _SAID[handle.how].format(f"job {handle.id} ({handle.task})")
        click.echo(f"{said} in queue {handle.queue}")

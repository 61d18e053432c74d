"""`enqueue`: enqueue one job, checked like a call in code."""

from typing import Any

import click

from mutirao.cli.options import as_json, ask, json_object, target
from mutirao.cli.output import fields_of, print_done
from mutirao.cli.target import ApiCommand, load_app
from mutirao.cli.terms import options_of
from mutirao.model.keys.uniqueness import How
from mutirao.tasks.options import CallTerms

SAID: dict[How, str] = {
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


@click.command(cls=ApiCommand)
@target
@click.argument("task")
@click.argument("args", type=json_object, default="{}")
@options_of(CallTerms, version=("--as-of", "version"), tags=("--tag", "tags"))
@as_json
def enqueue(
    target: str,
    task: str,
    args: dict[str, Any],
    as_json: bool,
    **options: Any,
) -> None:
    """Enqueue a job of TASK with ARGS, a JSON object of its arguments by name.

    \b
    mutirao enqueue shop:app send_receipt '{"order_id": 7}' --delay 15m
    """
    app = load_app(target)
    call = app.task_named(task).using(**options)
    handle = ask(app, lambda: call.aenqueue(**args))
    said = SAID[handle.how].format(f"job {handle.id} ({handle.task})")
    print_done(fields_of(handle), f"{said} in queue {handle.queue}", as_json)

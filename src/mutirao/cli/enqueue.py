"""`enqueue`: one job, checked like a call in code."""

import json
from datetime import datetime, timedelta
from typing import Any

import click

from mutirao.cli.options import Duration, Moment, as_json, ask, option, target
from mutirao.cli.output import print_json
from mutirao.cli.target import AppCommand, load_app


class JsonObject(click.ParamType[Any]):
    """A JSON object, such as {"order_id": 7}."""

    name = "json"

    def convert(self, value: Any, param: Any, ctx: Any) -> dict[str, Any]:
        """Return the object that a text stands for."""
        if isinstance(value, dict):
            return value
        try:
            found = json.loads(value)
        except ValueError as error:
            self.fail(f"{value!r} is no JSON: {error}")
        if not isinstance(found, dict):
            self.fail(f'{value!r} is no JSON object; name the arguments, as in {{"order_id": 7}}')
        return found


@click.command(cls=AppCommand)
@target
@click.argument("task")
@click.argument("args", type=JsonObject(), default="{}")
@option("--queue", help="Instead of the task's.")
@option("--priority", type=int, help="Smaller runs first.")
@option("--run-at", type=Moment(ago=False), help="Not before this moment.")
@option("--delay", type=Duration(), help="Not before so long from now (90, 15m, 2h).")
@option("--max-attempts", type=int, help="Instead of the task's.")
@option("--timeout", type=Duration(), help="Instead of the task's.")
@option("--key", help="Kept with the job.")
@option("--tag", "tags", multiple=True, help="Added to the task's; may be repeated.")
@option("--metadata", type=JsonObject(), help="A JSON object kept with the job.")
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
    handle = ask(app, lambda _: call.aenqueue(**args))
    if as_json:
        print_json(handle)
    else:
        click.echo(f"enqueued job {handle.id} ({handle.task}) in queue {handle.queue}")

"""Commands that use the HTTP API, if the database is out of reach.

Each function here is one command, by its name; it prints as the command itself does. All other
commands need the database.
"""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from mutirao.cli import care, jobs, schedules, stats
from mutirao.cli.enqueue import SAID
from mutirao.cli.options import text_of
from mutirao.cli.output import print_done, print_json, say
from mutirao.cli.web.api_client import ApiClient, ApiRefused, in_path, record
from mutirao.model.audit.actions import ActionKind
from mutirao.model.jobs.job import JobState
from mutirao.model.jobs.records import QueueCount

MOST_OF_PAGE, MOST_NAMED = 100, 10_000
LOOK = 0.5  # seconds between two reads of an action's progress

Given = Mapping[str, Any]


def list_(api: ApiClient, given: Given) -> None:
    """List jobs."""
    text, limit = _filter(given), given["limit"]
    found: list[dict[str, Any]] = []
    cursor = ""
    while len(found) < limit:
        size = min(MOST_OF_PAGE, limit - len(found))
        page = api.get("/jobs", filter=text, size=size, cursor=cursor)
        found += page["jobs"]
        cursor = page["next"]
        if not cursor:
            break
    if given["as_json"]:
        print_json(found)
    else:
        jobs.print_jobs([record(each) for each in found])


def show(api: ApiClient, given: Given) -> None:
    """Show a job."""
    found = api.get(f"/jobs/{given['id']}")
    if given["as_json"]:
        print_json(found)
        return
    job = record(found)
    job.attempts = [record(each) for each in found["attempts"]]
    jobs.print_job(job)


def ordered(kind: ActionKind) -> Callable[[ApiClient, Given], None]:
    """Return the command that acts on jobs."""

    def act(api: ApiClient, given: Given) -> None:
        jobs.confirm(str(kind), given["wanted"], given["yes"], _of_filter(given))
        body: dict[str, Any] = {"action": str(kind)}
        if kind is ActionKind.CHANGE:
            body["change"] = _new_values(given)
        _tell(api, api.post("/actions", {**body, **_which(api, given, kind)}), given["as_json"])

    return act


def _which(api: ApiClient, given: Given, kind: ActionKind) -> dict[str, Any]:
    if given["limit"] is not None:
        raise click.UsageError("by --api there is no --limit; narrow the filter, such as by id:")
    if given["wanted"].ids:
        return {"ids": [str(id) for id in given["wanted"].ids]}
    text = _filter(given)
    counted = text
    if kind is ActionKind.REDRIVE and "state:" not in text:
        counted = f"{text} state:dead"
    number = api.get("/counts", filter=counted, most=100_000)
    if number["at_least"]:
        raise ApiRefused(f"more than {number['jobs']:,} jobs match; narrow the filter")
    return {"filter": counted, "expected": number["jobs"]}


def _tell(api: ApiClient, begun: dict[str, Any], as_json: bool) -> None:
    """Wait for the end of an action, print its result, and fail if it reached no job."""
    its = begun
    while its["state"] == "running":
        time.sleep(LOOK)
        its = api.get(f"/actions/{its['id']}")
    if as_json:
        print_json(its)
    else:
        why = ", ".join(f"{number} {state}" for state, number in its["why"].items())
        passed = f", passed over: {why}" if why else ""
        say(f"action {its['id']} is {its['state']}: {its['done']} of {its['matched']}{passed}")
    if its["state"] != "done" or (its["ids"] and its["done"] < len(its["ids"])):
        raise click.exceptions.Exit(1)


def _new_values(given: Given) -> dict[str, Any]:
    names = {"to_queue": "queue", "priority": "priority", "run_at": "run_at", "delay": "delay",
             "max_attempts": "max_attempts"}  # fmt: skip
    new = {its: _plain(given[name]) for name, its in names.items() if given.get(name) is not None}
    if not new:
        raise click.UsageError("say which values are new, such as --priority -5")
    return new


def enqueue(api: ApiClient, given: Given) -> None:
    """Enqueue a job."""
    others = ("target", "task", "args", "as_json")
    options = {
        name: _plain(value)
        for name, value in given.items()
        if name not in others and value not in (None, ())
    }
    made = api.post("/jobs", {"task": given["task"], "args": given["args"], **options})
    said = SAID[made["how"]].format(f"job {made['id']} ({made['task']})")
    print_done(made, f"{said} in queue {made['queue']}", given["as_json"])


def stats_(api: ApiClient, given: Given) -> None:
    """Count jobs, and list the workers."""
    queues = api.get("/queues")["queues"]
    workers = api.get("/workers")["workers"]
    if given["as_json"]:
        print_json({"queues": queues, "workers": workers})
        return
    now = datetime.now(UTC)
    counts = [
        QueueCount(
            queue=each["name"],
            state=JobState(state),
            jobs=number,
            oldest_age=_age(each["oldest_ready_at"], now) if state == "ready" else None,
        )
        for each in queues
        for state, number in each["jobs"].items()
        if number
    ]
    stats.print_stats(counts, [record(each) for each in workers])


def audit(api: ApiClient, given: Given) -> None:
    """List what people did, or stop an action."""
    if given["stop"] is not None:
        api.post(f"/actions/{given['stop']}/stop")
        told = f"action {given['stop']} stops after its batch"
        print_done({"id": given["stop"]}, told, given["as_json"])
        return
    found: list[dict[str, Any]] = []
    cursor = ""
    while len(found) < given["limit"]:
        size = min(100, given["limit"] - len(found))
        page = api.get("/actions", size=size, cursor=cursor)
        found += page["actions"]
        cursor = page["next"]
        if not cursor:
            break
    if given["as_json"]:
        print_json(found)
        return
    entries = [record(each) for each in found]
    for each in entries:
        each.about = each.about and record(each.about)
    care.print_audit(entries)


def paused(verb: str) -> Callable[[ApiClient, Given], None]:
    """Return the command that pauses or resumes a queue."""

    def act(api: ApiClient, given: Given) -> None:
        if given["queue"] is None or any(given[name] for name in ("task", "by", "key")):
            raise click.UsageError("by --api a whole queue is paused and resumed: give --queue")
        api.post(f"/queues/{in_path(given['queue'])}/{verb}")
        done = f"{verb}d"
        print_done({done: {"queue": given["queue"]}}, f"queue {given['queue']} is {done}",
                   given["as_json"])  # fmt: skip

    return act


def list_schedules(api: ApiClient, given: Given) -> None:
    """List schedules."""
    found = api.get("/schedules")["schedules"]
    if given["as_json"]:
        print_json(found)
    else:
        schedules.print_schedules([record({"declared_by": None, "declared_at": None, **each})
                                   for each in found])  # fmt: skip


def schedule(verb: str, done: str) -> Callable[[ApiClient, Given], None]:
    """Return the command that pauses, resumes or runs a schedule."""

    def act(api: ApiClient, given: Given) -> None:
        body = {"reason": given["reason"]} if given.get("reason") else None
        said = api.post(f"/schedules/{in_path(given['name'])}/{verb}", body)
        line = done.format(name=given["name"], job=said.get("job"))
        print_done(said, line, given["as_json"])

    return act


def _filter(given: Given) -> str:
    ids = given["wanted"].ids
    text = text_of(given["wanted"], _of_filter(given)) or ""
    return f"id:{','.join(map(str, ids))} {text}".strip() if ids else text


def _of_filter(given: Given) -> dict[str, Any]:
    """Return the options that select jobs."""
    names = ("states", "queues", "task", "tag", "key", "tenant", "group", "args", "graph",
             "error_type", "before", "after", "limit")  # fmt: skip
    return {name: given[name] for name in names}


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    return [*value] if isinstance(value, tuple) else value


def _age(moment: datetime | None, now: datetime) -> float | None:
    return None if moment is None else max(0.0, (now - moment).total_seconds())


COMMANDS: Mapping[str, Callable[[ApiClient, Given], None]] = {
    "list": list_,
    "show": show,
    "retry": ordered(ActionKind.RETRY),
    "cancel": ordered(ActionKind.CANCEL),
    "redrive": ordered(ActionKind.REDRIVE),
    "change": ordered(ActionKind.CHANGE),
    "enqueue": enqueue,
    "stats": stats_,
    "audit": audit,
    "pause": paused("pause"),
    "resume": paused("resume"),
    "schedules list": list_schedules,
    "schedules pause": schedule("pause", "schedule {name} is paused"),
    "schedules resume": schedule("resume", "schedule {name} is resumed"),
    "schedules run": schedule("run", "enqueued job {job} of schedule {name}"),
}

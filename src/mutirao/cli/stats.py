"""`stats`: the number of jobs by queue and state, and the workers."""

from collections import defaultdict
from typing import Any

import click

from mutirao.cli.options import as_json, ask, target
from mutirao.cli.output import print_json, print_table
from mutirao.cli.target import ApiCommand, load_app
from mutirao.model.jobs.job import JobState
from mutirao.model.jobs.records import QueueCount, WorkerRecord


@click.command(cls=ApiCommand)
@target
@as_json
def stats(target: str, as_json: bool) -> None:
    """Count jobs by queue and state, and list the workers."""

    app = load_app(target)

    async def body() -> tuple[list[QueueCount], list[WorkerRecord]]:
        return await app.acounts(), await app.aworkers()

    counts, workers = ask(app, body)
    if as_json:
        print_json({"queues": counts, "workers": workers})
        return
    print_stats(counts, workers)


def print_stats(counts: list[QueueCount], workers: list[WorkerRecord]) -> None:
    """Print the numbers of jobs, and the workers."""
    print_table(("queue", *JobState, "oldest ready, s"), _by_queue(counts), empty="no jobs")
    click.echo()
    print_table(
        (
            "worker",
            "name",
            "host",
            "pid",
            "queues",
            "tasks",
            "running",
            "of",
            "stuck",
            "beat",
            "life",
        ),
        [_worker(worker) for worker in workers],
        empty="no workers",
    )


def _by_queue(counts: list[QueueCount]) -> list[tuple[Any, ...]]:
    queues: dict[str, dict[JobState, QueueCount]] = defaultdict(dict)
    for count in counts:
        queues[count.queue][count.state] = count
    return [
        (
            queue,
            *(states[state].jobs if state in states else 0 for state in JobState),
            states[JobState.READY].oldest_age if JobState.READY in states else None,
        )
        for queue, states in sorted(queues.items())
    ]


def _worker(worker: WorkerRecord) -> tuple[Any, ...]:
    return (
        *(worker.id, worker.name, worker.host, worker.pid),
        *(_queues(worker), "all" if worker.tasks is None else worker.tasks),
        *(worker.running, worker.concurrency, worker.stuck, worker.beat_at),
        "alive" if worker.alive else "expired",
    )


def _queues(worker: WorkerRecord) -> Any:
    if worker.queues is not None:
        return worker.queues
    but = ", ".join(worker.exclude_queues)
    return f"all but {but}" if but else "all"

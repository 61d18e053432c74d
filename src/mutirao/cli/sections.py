"""Help in sections: for a command with more options than fit on a screen."""

from collections.abc import Mapping
from typing import Any

import click

from mutirao.cli.target import AppCommand

# The options of a worker, by how their names begin. What is in none of them comes last.
WORKER: Mapping[str, tuple[str, ...]] = {
    "What it serves": ("queues", "exclude", "tasks", "database", "app_version", "drain"),
    "How much at once, and its end": ("concurrency", "processes", "grace", "exit", "connections"),
    "Looking and being alive": ("poll", "heartbeat", "expiry", "doorbell"),
    "Tasks without options of their own": ("retry", "max_attempts", "timeout"),
    "What is kept": ("keep", "prune"),
    "Webhooks": ("webhook",),
    "Metrics": ("metrics",),
}
OTHERS = "Logs, development and help"


class WorkerCommand(AppCommand):
    """The command of a worker, whose help has sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, each in its section."""
        sections: dict[str, list[tuple[str, str]]] = {each: [] for each in (*WORKER, OTHERS)}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                sections[_section_of(param)].append(record)
        for name, records in sections.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


def _section_of(param: Any) -> str:
    return next((name for name, begin in WORKER.items() if param.name.startswith(begin)), OTHERS)

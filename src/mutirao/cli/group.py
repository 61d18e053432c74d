"""All commands, and their exit statuses.

A command's module is imported when the command is called: to import all of them with their
dependencies took as long as the rest of the package, and a worker needs only its own.
"""

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from mutirao.cli.logs import mute_echoes
from mutirao.cli.target import HostProgram
from mutirao.errors import (
    ConfigurationError,
    InvalidTask,
    MutiraoError,
    SchemaError,
    StoreUnavailable,
)

WHOLE = 1_000  # characters of a first sentence; click cuts it at the end of the line
REFUSED, MISUSED, SCHEMA, UNREACHABLE = 1, 2, 3, 4
_STATUSES: tuple[tuple[type[MutiraoError], int], ...] = (
    (ConfigurationError, MISUSED),
    (InvalidTask, MISUSED),
    (SchemaError, SCHEMA),
    (StoreUnavailable, UNREACHABLE),
    (MutiraoError, REFUSED),
)


# The location of each command: a module of this package, and its name in it.
_COMMANDS = {
    "audit": ("care", "audit"),
    "cancel": ("jobs", "cancel"),
    "change": ("jobs", "change"),
    "doctor": ("care", "doctor"),
    "endpoints": ("endpoints", "endpoints"),
    "enqueue": ("enqueue", "enqueue"),
    "grafana": ("telemetry.grafana", "grafana"),
    "graphs": ("graphs", "graphs"),
    "hosts": ("hosts", "hosts"),
    "hub": ("hub", "hub"),
    "init": ("init.project_files", "init"),
    "limits": ("limits", "limits"),
    "list": ("jobs", "list_"),
    "metrics": ("telemetry.metrics", "metrics"),
    "migrate": ("schema", "migrate"),
    "pause": ("limits", "pause"),
    "probe": ("probing.probe", "probe"),
    "prune": ("care", "prune"),
    "publish": ("topics", "publish"),
    "redrive": ("jobs", "redrive"),
    "relay": ("relay", "relay"),
    "replay": ("topics", "replay"),
    "resume": ("limits", "resume"),
    "retry": ("jobs", "retry"),
    "schedules": ("schedules", "schedules"),
    "schema": ("schema", "schema"),
    "show": ("jobs", "show"),
    "stats": ("stats", "stats"),
    "subscriptions": ("topics", "subscriptions"),
    "transports": ("transports", "transports"),
    "web": ("web.command", "web"),
    "webhooks": ("webhooks", "webhooks"),
    "worker": ("worker", "worker"),
}

# The first sentence of each one's help: to write all of them, no command is imported.
SUMMARIES = {
    "audit": "List what people did, newest first; or stop an action that runs.",
    "cancel": "Cancel jobs, by id or by filter; running ones learn of it with the next heartbeat.",
    "change": "Give waiting jobs new values, by id or by filter: a priority, a queue, a time.",
    "doctor": "Examine the database and the workers; report problems and what to do about them.",
    "endpoints": "Put, list, pause and test endpoints of webhooks, and send deliveries again.",
    "enqueue": "Enqueue a job of TASK with ARGS, a JSON object of its arguments by name.",
    "grafana": "Write dashboards for Grafana and alert rules for Prometheus.",
    "graphs": "List, show and cancel chains, groups and other graphs of jobs.",
    "hosts": "List, try, hold, redrive and forget the hosts that activities go to.",
    "hub": "Pass wake-ups on until SIGTERM or SIGINT, and look at the databases that are given.",
    "init": "Write a start: an application, a task, their test, settings, and a file for Docker"
    " Compose.",
    "limits": "List, put and remove limits on how many jobs run at once, or start in a period.",
    "list": "List jobs, newest first: all, or those of a filter.",
    "metrics": "Serve depths, ages and lags for Prometheus until SIGTERM or SIGINT; one for a whole"
    " fleet.",
    "migrate": "Migrate the application's database to the newest schema.",
    "pause": "Pause a queue, a task or a key: no more of its jobs start until it is resumed.",
    "probe": "Ask an address how a process does; exit status 0 if it does well, 1 if not.",
    "prune": "Delete finished jobs and their attempts, in small batches.",
    "publish": "Publish EVENT, a JSON object, on TOPIC: each subscription gets a job of it.",
    "redrive": "Enqueue finished jobs again, by id or by filter; the new ones are linked to them.",
    "relay": "Carry due jobs of carried queues to their brokers until SIGTERM or SIGINT; run none"
    " of them.",
    "replay": "Deliver to SUBSCRIPTION again what was published, as new deliveries of it.",
    "resume": "Resume what was paused with the same options.",
    "retry": "Make waiting jobs due now, by id or by filter.",
    "schedules": "List, put, change, pause, resume, run and remove schedules.",
    "schema": "Print the SQL that creates the tables, or that grants roles the rights they need.",
    "show": "Show a job with all its attempts.",
    "stats": "Count jobs by queue and state, and list the workers.",
    "subscriptions": "List, put, disable, enable and remove subscriptions to topics.",
    "transports": "Make what queues need at their brokers, and look after dead messages there.",
    "web": "Serve the dashboard until SIGTERM or SIGINT: all jobs, and what can be done about"
    " them.",
    "webhooks": "Deliver webhooks until SIGTERM or SIGINT; a second signal ends at once.",
    "worker": "Run jobs until SIGTERM or SIGINT; a second signal ends at once.",
}


class WholeHelp(click.Group):
    """A group whose help has the whole first sentence of each command."""

    group_class = type  # those within it are like it

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names and summaries of the commands."""
        with formatter.section("Commands"):
            formatter.write_dl(self.summaries(ctx))

    def summaries(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Return the name and the summary of each command."""
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        return [(name, each.get_short_help_str(WHOLE)) for name, each in found if each]

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the command that is called; suggest those of similar names if there is none.

        Newer versions of click do so too, but do not know commands that are imported when needed.
        """
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-") and not ctx.resilient_parsing:
            near = " or ".join(map(repr, get_close_matches(name, known)))
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {near}?" if near else ""))
        return super().resolve_command(ctx, args)


class Refusing(WholeHelp):
    """A group whose commands may raise the library's errors."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn the library's errors into exit statuses."""
        try:
            return super().invoke(ctx)
        except MutiraoError as error:
            from mutirao.cli.output import say  # others need no tables

            say(f"{self.name}: {' '.join(str(error).split())}", error=True)
            status = next(status for kind, status in _STATUSES if isinstance(error, kind))
            raise click.exceptions.Exit(status) from error


class Commands(Refusing):
    """The commands of `mutirao`, imported when needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands' names, in order."""
        return sorted(_COMMANDS)

    def summaries(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Return the name and the summary of each command."""
        return [(name, SUMMARIES[name]) for name in self.list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name, if there is one."""
        if cmd_name not in _COMMANDS:
            return None
        module, name = _COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(f"mutirao.cli.{module}"), name)
        return command


@click.group(
    "mutirao",
    cls=Commands,
    context_settings={"auto_envvar_prefix": "MUTIRAO", "help_option_names": ["-h", "--help"]},
    epilog=(
        "Exit status: 0 done; 1 refused, or some of it failed; 2 called or configured wrongly;"
        " 3 the schema is missing, too old or too new; 4 the database cannot be reached;"
        " of a worker: 5 a loop failed, 6 all slots are lost, 7 handlers were cut off."
    ),
)
@click.version_option(package_name="mutirao")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, if a command can.")
def main(as_json: bool) -> None:
    """Background jobs that live in your application's SQL database."""
    mute_echoes()


class Within(Commands):
    """The commands as part of a program that has the application: `flask mutirao worker`."""

    def __init__(self, find: Callable[[click.Context], HostProgram]) -> None:
        """Set the function that finds the program's application once a command is called."""
        super().__init__(
            main.name,
            callback=main.callback,
            params=main.params,
            help=main.help,
            epilog=main.epilog,
            context_settings=main.context_settings,
        )
        self._find = find

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands that need an application, or accept one."""
        return [name for name in super().list_commands(ctx) if name != "init"]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command with the program's application."""
        self._find(ctx).keep(ctx)
        return super().invoke(ctx)

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


class WholeHelp(click.Group):
    """A group whose help has the whole first sentence of each command."""

    group_class = type  # those within it are like it

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names of the commands, and what they do."""
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, each.get_short_help_str(WHOLE)) for name, each in found if each]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

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
        """Set what finds the program's application once a command is called."""
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
        """Return the names of those that need an application, or go with any."""
        return [name for name in super().list_commands(ctx) if name != "init"]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command with the program's application."""
        self._find(ctx).keep(ctx)
        return super().invoke(ctx)

"""Finds the application that `module:attribute` names, with errors that help."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from mutirao.errors import ConfigurationError
from mutirao.model.filters.qualifiers import QUALIFIERS

if TYPE_CHECKING:
    from mutirao.app import Mutirao

APP_VARIABLE, API_VARIABLE = "MUTIRAO_APP", "MUTIRAO_API"
_API, _TOKEN_FILE = "mutirao.api", "mutirao.token_file"  # keys of a context, as below
_NO_APPLICATION = "no:application"
_DATABASE = "mutirao.database"  # the key of a context under which the option is kept
_HOST = "mutirao.host"  # the key under which the program is kept that has the application
_TARGET = re.compile(r"[^:/\\]+:[^:/\\]+")
_TERM = re.compile(rf"-?({'|'.join(QUALIFIERS)})[:.]")


@dataclass(frozen=True)
class HostProgram:
    """A program that includes Mutirão's commands, and knows the application.

    Parameters:
        find: returns the application, when a command needs it.
        name: the application's name, for places that otherwise show `module:attribute`.
        command: starts that program with Mutirão's commands, for processes of their own:
            `[sys.executable, "manage.py", "mutirao"]`.
    """

    find: Callable[[], Mutirao]
    name: str
    command: Sequence[str]

    def keep(self, context: click.Context) -> None:
        """Give the application of this program to all commands of a context."""
        context.meta[_HOST] = self


def host() -> HostProgram | None:
    """Return the program that includes the running command; None: the command runs by itself."""
    context = click.get_current_context(silent=True)
    found: HostProgram | None = None if context is None else context.meta.get(_HOST)
    return found


class AppCommand(click.Command):
    """A command whose first argument, the application, may be left out if MUTIRAO_APP is set.

    If the command is part of a program that has an application, there is no such argument.

    An argument in the form of `module:attribute` is the application. Otherwise the first argument
    is the one after it, and the variable names the application.

    `--database` is an option of each command, unless it has one of its own: the database with the
    jobs, instead of the application's own.
    """

    is_by_api = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not any("--database" in each.opts for each in self.params):
            self.params.append(_database())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the variable's application as first argument if none is given."""
        if not self.is_by_api and any(each.partition("=")[0] == "--api" for each in args):
            raise click.UsageError(
                f"{ctx.command_path} needs the database: it cannot ask an API; give an application"
            )
        program: HostProgram | None = ctx.meta.get(_HOST)
        if program is not None:
            return super().parse_args(ctx, [program.name, *args])
        given = self.make_parser(ctx).parse_args(args=list(args))[0].get("target")
        from_variable = os.environ.get(APP_VARIABLE)
        if from_variable and not (isinstance(given, str) and self.is_application(given)):
            args = [from_variable, *args]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Leave the application out if it is known."""
        found = super().collect_usage_pieces(ctx)
        return found if ctx.meta.get(_HOST) is None else [each for each in found if ":" not in each]

    def is_application(self, argument: str) -> bool:
        """Return whether the first argument has the form of an application."""
        return _TARGET.fullmatch(argument) is not None


class ApiCommand(AppCommand):
    """A command that can also ask the HTTP API of a dashboard: `--api`, without an application."""

    is_by_api = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _api()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert a placeholder for the application if the API is asked."""
        options = self.make_parser(ctx).parse_args(args=list(args))[0]
        url = options.get("api") or os.environ.get(API_VARIABLE)
        if not url:
            return super().parse_args(ctx, args)
        given = options.get("target")
        if isinstance(given, str) and self.is_application(given):
            raise click.UsageError(f"--api is given, and an application, {given}; leave one out")
        return click.Command.parse_args(self, ctx, [_NO_APPLICATION, *args])

    def invoke(self, ctx: click.Context) -> Any:
        """Ask the API, if one is given."""
        asked = ctx.meta.get(_API)
        if asked is None:
            return super().invoke(ctx)
        from mutirao.cli.web import api_client, by_api  # others need neither

        name = ctx.command_path.removeprefix(ctx.find_root().command_path).strip()
        return by_api.COMMANDS[name](
            api_client.ApiClient.of(asked, ctx.meta.get(_TOKEN_FILE)), ctx.params
        )


class FilterCommand(AppCommand):
    """A command that takes ids, or a filter's text, after the application.

    If MUTIRAO_APP is set, `state:dead` is a term and no application. A negated term looks like an
    option, but is none.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move negated terms after all options."""
        end = args.index("--") if "--" in args else len(args)
        terms = [each for each in args[:end] if each.startswith("-") and _TERM.match(each)]
        others = [each for each in args[:end] if each not in terms]
        return super().parse_args(ctx, [*others, "--", *terms, *args[end + 1 :]])

    def is_application(self, argument: str) -> bool:
        """Return whether the first argument is the application and not a term of a filter."""
        return _TERM.match(argument) is None and super().is_application(argument)


class ApiFilterCommand(FilterCommand, ApiCommand):
    """A command that takes ids or a filter, and can also ask the HTTP API."""


def _api() -> list[click.Parameter]:
    def keep(context: click.Context, its: click.Parameter, value: Any) -> None:
        context.meta[_API if its.name == "api" else _TOKEN_FILE] = value

    file = click.Path(exists=True, dir_okay=False, path_type=Path)
    return [
        click.Option(
            ["--api"], metavar="URL", envvar=API_VARIABLE, show_envvar=True, expose_value=False,
            callback=keep, help="Ask the API of a dashboard there, instead of an application.",
        ),
        click.Option(
            ["--token-file"], type=file, envvar="MUTIRAO_API_TOKEN_FILE", show_envvar=True,
            expose_value=False, callback=keep, help="File of the token for --api.",
        ),
    ]  # fmt: skip


def _database() -> click.Option:
    def keep(context: click.Context, _: click.Parameter, url: str | None) -> None:
        context.meta[_DATABASE] = url

    return click.Option(
        ["--database"],
        metavar="URL",
        envvar="MUTIRAO_DATABASE",
        show_envvar=True,
        expose_value=False,
        callback=keep,
        help="Where the jobs are, if not in the application's own database.",
    )


def load_app(target: str) -> Mutirao:
    """Return the application that `module:attribute` names; the attribute may be dotted.

    Modules can also be imported from the current directory. It has the database that the command
    was given, if any.

    Raises:
        ConfigurationError: there is none; the message lists what there is.
    """
    program = host()
    return _with_database(_imported(target) if program is None else program.find())


def _with_database(app: Mutirao) -> Mutirao:
    """Return the application; it gets the database that the command was given, if any."""
    context = click.get_current_context(silent=True)
    if context is not None and (url := context.meta.get(_DATABASE)) is not None:
        app.use_database(url)
    return app


def _imported(target: str) -> Mutirao:
    name, colon, path = target.partition(":")
    if not _TARGET.fullmatch(target):
        raise ConfigurationError(
            f"{target!r} names no application: write module:attribute, such as"
            f" {(name if name.isidentifier() and not colon else 'shop')}:app"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module = _import(name)
    found: Any = module
    for step in path.split("."):
        try:
            found = getattr(found, step)
        except AttributeError:
            _refuse_attribute(module, path, step, found)
    if not _is_application(found):
        raise ConfigurationError(
            f"{target} is {_described(found)}, not a Mutirao application;{_applications(module)}"
        )
    application: Mutirao = found
    return application


def _is_application(found: object) -> bool:
    from mutirao.app import Mutirao  # which a help needs not

    return isinstance(found, Mutirao)


def _import(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{name}.".startswith(f"{missing.name}."):
            _refuse_module(name, missing)
        near = get_close_matches(name, _modules_here(), n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ConfigurationError(
            f"there is no module {missing.name!r} in {Path.cwd()} nor among the installed"
            f" packages{hint}"
        ) from None
    except Exception as error:  # noqa: BLE001 (a user's module may raise anything)
        _refuse_module(name, error)


def _refuse_module(name: str, error: Exception) -> NoReturn:
    last = traceback.extract_tb(error.__traceback__)[-1]
    raise ConfigurationError(
        f"importing {name!r} failed with {type(error).__name__}: {error}"
        f" ({last.filename}, line {last.lineno})"
    ) from error


def _refuse_attribute(module: ModuleType, path: str, step: str, found: Any) -> NoReturn:
    near = get_close_matches(step, [name for name in dir(found) if name[0] != "_"], n=3)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise ConfigurationError(
        f"module {module.__name__!r} ({module.__file__}) has no {path!r};"
        f"{_applications(module)}{hint}"
    ) from None


def _applications(module: ModuleType) -> str:
    names = sorted(name for name, value in vars(module).items() if _is_application(value))
    if not names:
        return f" there is none in {module.__name__}: make one with app = Mutirao(url)."
    return f" there is {', '.join(f'{module.__name__}:{name}' for name in names)}."


def _modules_here() -> list[str]:
    found = [path.stem for path in Path.cwd().glob("*.py")]
    return found + [path.parent.name for path in Path.cwd().glob("*/__init__.py")]


def _described(value: Any) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"

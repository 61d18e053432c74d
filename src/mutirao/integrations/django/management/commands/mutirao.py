"""`manage.py mutirao …`: the commands of `mutirao`, about the application of the project."""

import argparse
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from mutirao.cli import main
from mutirao.cli.target import APP_VARIABLE
from mutirao.integrations.django.code_watch import reloaded

_APP = "mutirao.integrations.django.standalone:app"


class Command(BaseCommand):  # type: ignore[misc]
    """Runs them as programs, with their own options and exit statuses."""

    help = "Run a worker, and look after jobs: the commands of `mutirao` for this project."
    requires_system_checks: tuple[str, ...] = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the command after `manage.py mutirao`."""
        self._called_from_command_line = True
        words = _ours(argv[2:])
        program = f"{Path(argv[0]).name} {argv[1]}"
        try:
            sys.exit(self._run(program, words, standalone_mode=True))
        finally:
            connections.close_all()

    def print_help(self, prog_name: str, subcommand: str) -> None:
        """Print the list of commands."""
        self._run(f"{Path(prog_name).name} {subcommand}", ["--help"], standalone_mode=False)

    def add_arguments(self, parser: Any) -> None:
        """Take everything: the commands have options of their own."""
        parser.add_argument("words", nargs=argparse.REMAINDER)

    def handle(self, *args: Any, words: list[str], **options: Any) -> None:
        """Run a command for `call_command("mutirao", "list", "--json")`.

        Raises:
            CommandError: it was called wrongly, or ends with another status than 0.
        """
        try:
            with redirect_stdout(options.get("stdout") or self.stdout._out):
                status = self._run("mutirao", [*args, *words], standalone_mode=False)
        except click.ClickException as refused:
            raise CommandError(refused.format_message()) from refused
        if status:
            raise CommandError(f"mutirao ended with status {status}", returncode=status)

    def _run(self, program: str, words: list[str], **how: Any) -> Any:
        os.environ[APP_VARIABLE] = _APP  # for processes that it starts, too
        if words[:1] == ["worker"]:
            if "--help" not in words and "-h" not in words:
                self.check(tags=["mutirao"])
            if "--reload" in words:
                words = [each for each in words if each not in ("--reload", "--no-reload")]
                return reloaded(lambda: main(words, program, **how))
        return main(words, program, **how)


def _ours(words: list[str]) -> list[str]:
    """Return the words without Django's own options, which `manage.py` has heeded already."""
    theirs = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    theirs.add_argument("--settings")
    theirs.add_argument("--pythonpath")
    for flag in ("--traceback", "--no-color", "--force-color", "--skip-checks"):
        theirs.add_argument(flag, action="store_true")
    return theirs.parse_known_args(words)[1]

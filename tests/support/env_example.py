"""The file `deploy/.env.example`: every variable that is read, with its meaning.

`python -m tests.support.env_example` writes it again; a test compares.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from textwrap import wrap

import click

from mutirao.cli import main
from mutirao.cli.probing.probe import OF_A_WORKER
from mutirao.transports.rabbitmq import RabbitOptions
from mutirao.transports.sqs.options import SqsOptions

ROOT = Path(__file__).parents[2]
FILE = ROOT / "deploy" / ".env.example"
SERVING = ("worker", "relay", "web", "hub", "webhooks")  # commands that run for long
MEANT = {"MUTIRAO_APP", "MUTIRAO_DATABASE"}  # of several commands
WIDTH = 100

HEAD = """\
# Variables of Mutirão: each that is read, with its usual value. What is empty or commented out is
# as usual. Copy it to .env, and change the secrets. This file is made of the code.

# -- What deploy/compose.yaml needs

POSTGRES_PASSWORD=change-me
RABBITMQ_PASSWORD=change-me
# Who opens the dashboard as `admin`: at least 12 characters.
MUTIRAO_WEB_PASSWORD=change-me-too
# What the hub asks for, and what its clients give.
MUTIRAO_HUB_TOKEN=change-me-three

# -- Of all commands

# The application: module:attribute. An argument of a command counts before it.
# MUTIRAO_APP=shop:app
# Where the jobs are, if not in the application's own database; compose.yaml sets it.
# MUTIRAO_DATABASE=postgresql+psycopg://shop:change-me@localhost/shop
# text, json or logfmt, of commands that run for long; MUTIRAO_WORKER_LOG_FORMAT counts before it.
# MUTIRAO_LOG_FORMAT=text
# debug, info, warning or error
# MUTIRAO_LOG_LEVEL=info
# 1: our own records from DEBUG on.
# MUTIRAO_LOG_DEBUG=
# 1: commands that print a result print it as JSON.
# MUTIRAO_JSON=
# The hub that is told of jobs and wakes workers, if there is one: tcp://host:8770.
# MUTIRAO_HUB=
# A dashboard that commands ask instead of the database, and the file of its token.
# MUTIRAO_API=
# MUTIRAO_API_TOKEN_FILE=
# What `mutirao probe` asks.
# MUTIRAO_PROBE_URL={probe}

# Options of the other commands have variables, too: `mutirao list --help` names them.
"""
# Set by others for us: no setting.
GIVEN = """
# -- Set by whoever starts it; not to be set by hand

# By systemd, for a service of Type=notify.
# NOTIFY_SOCKET=
# WATCHDOG_USEC=
# WATCHDOG_PID=
# By `mutirao worker --processes`, for its processes.
# MUTIRAO_TELLS_UNFIT=
"""


def text() -> str:
    """Return the whole file."""
    parts = [HEAD.format(probe=OF_A_WORKER)]
    named = set(re.findall(r"^#? ?([A-Z_]+)=", parts[0], re.M))
    for name in SERVING:
        lines = "\n".join(_of_command(name, named))
        parts.append(f"\n# -- mutirao {name}\n\n{lines}\n")
    for kind, options in (("RABBITMQ", RabbitOptions), ("SQS", SqsOptions)):
        names = [f"# MUTIRAO_{kind}_{each.name}=".upper() for each in fields(options)]
        what = f"options of {kind} that the application does not give; docs/{kind.lower()}.md"
        parts.append(f"\n# -- {what}\n\n" + "\n".join(names) + "\n")
    return "".join([*parts, GIVEN])


def _of_command(name: str, named: set[str]) -> Iterator[str]:
    """Yield the lines of a command's variables, but for those of all commands."""
    with click.Context(main, info_name="mutirao", auto_envvar_prefix="MUTIRAO") as outer:
        command = main.get_command(outer, name)
        assert command is not None
        context = click.Context(
            command, parent=outer, info_name=name, auto_envvar_prefix=f"MUTIRAO_{name.upper()}"
        )
        for each in command.params:
            if not isinstance(each, click.Option) or each.is_eager:
                continue
            own = variable(each, name)
            if own in named:
                continue
            yield from (f"# {line}" for line in wrap(each.help or OF_ALL, WIDTH - 2))
            yield f"# {own}={usual(each, context)}"


OF_ALL = "As MUTIRAO_LOG_FORMAT and MUTIRAO_LOG_LEVEL, of this command alone."


def variable(option: click.Option, command: str) -> str:
    """Return the variable that an option of a command may be given by."""
    if isinstance(option.envvar, str):
        return option.envvar
    return f"MUTIRAO_{command}_{option.name}".upper()


def usual(option: click.Option, context: click.Context) -> str:
    """Return the default as a user writes it; empty if there is none, or it is no."""
    value = option.get_default(context)
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value) if isinstance(value, str | int | float) and value is not False else ""


if __name__ == "__main__":
    FILE.write_text(text())

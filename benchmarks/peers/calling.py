"""Calling an adapter: one process, one line of JSON, and what the database spent meanwhile."""

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.spent import measured

Answer = dict[str, Any]
PATIENCE = 900.0  # seconds that a call may take


class CallFailed(Exception):
    """An adapter did not do its work; the message ends with what it said last."""


def call(command: Sequence[str], work: str, url: str = "", /, **options: object) -> Answer:
    """Let an adapter do `work` and return its answer.

    `options` become the command line: `jobs=5` is `--jobs 5`, a flag is given as True.

    Raises:
        CallFailed: it ended with an error or took more than `PATIENCE`.
    """
    arguments = [*command, work, *_arguments({"url": url, **options})]
    process = subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONWARNINGS": "ignore", "PGOPTIONS": ""},
    )
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired as late:
        raise CallFailed(f"{work} took more than {PATIENCE:.0f} s") from late
    finally:
        if process.poll() is None:  # it ends its workers when it is told to end
            process.send_signal(signal.SIGTERM)
            process.communicate()
    if process.returncode != 0:
        raise CallFailed(f"{work} ended with {process.returncode}: {_last_words(err)}")
    answer: Answer = json.loads(out.splitlines()[-1])
    return answer


def call_measured(
    command: Sequence[str], work: str, url: str, watched: str, /, **options: object
) -> Answer:
    """As `call`; the answer also has what the server spent, starts and stops included.

    `watched` is the SQLAlchemy URL of the database at `url`.
    """
    with measured(watched) as spent:
        answer = call(command, work, url, **options)
    found = asdict(spent)
    return (
        answer
        | {key: found[key] for key in ("server_cpu", "wal_bytes", "commits")}
        | {"dead_tuples": found["dead_tuples"]}
    )


def _arguments(options: dict[str, object]) -> list[str]:
    arguments: list[str] = []
    for key, value in options.items():
        flag = f"--{key.replace('_', '-')}"
        if value is True:
            arguments.append(flag)
        elif value not in (None, False):
            arguments += [flag, str(value)]
    return arguments


def _last_words(err: str) -> str:
    lines = [line.strip() for line in err.splitlines() if line.strip()]
    return " | ".join(lines[-3:])[-500:]

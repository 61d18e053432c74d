"""Installs each extra alone, in a fresh environment on each Python, and uses it: `make extras`.

What is installed is the wheel, not this tree. Then what the extra is for is imported, the program
is asked for its version and its help, and the first example of the extra's page is run, as
`tests/matrix/first_examples.py` has it. Prints a table; exits with 1 if something failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.matrix.first_examples import EXAMPLES, Servers, install

CLONE = Path(__file__).parents[2]
PLACE = CLONE / ".matrix"  # not a directory of all programs, from which others remove what is old
PYTHONS = ("3.11", "3.12", "3.13")
# What a program that uses an extra imports.
IMPORTS = {
    "": "mutirao, mutirao.testing",
    "postgresql": "psycopg, mutirao",
    "asyncpg": "asyncpg, mutirao",
    "psycopg2": "psycopg2, mutirao",
    "mysql": "pymysql, aiomysql, mutirao",
    "mysqlclient": "MySQLdb, mutirao",
    "reload": "watchfiles, mutirao",
    "rabbitmq": "mutirao.transports.rabbitmq",
    "sqs": "mutirao.transports.sqs",
    "webhooks": "mutirao.webhooks",
    "http2": "h2, mutirao.webhooks",
    "federation": "mutirao.federation",
    "web": "mutirao.web",
    "wsgi": "a2wsgi, mutirao.web",
    "django": "django, mutirao.integrations.django",
    "flask": "mutirao.integrations.flask",
    "litestar": "mutirao.integrations.litestar",
    "prometheus": "prometheus_client, mutirao.telemetry.prometheus.listener",
    "otel": "mutirao.telemetry.opentelemetry",
    "sentry": "mutirao.telemetry.sentry",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Try what was asked for; return the exit status."""
    asked = _parser().parse_args(arguments)
    pythons = asked.python or PYTHONS
    PLACE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="extras-", dir=PLACE) as place, Servers() as servers:
        wheel = _built(Path(place))
        print(f"| extra | its first example | {' | '.join(f'Python {each}' for each in pythons)} |")
        print(f"|---|---|{'---|' * len(pythons)}")
        failed = False
        for extra in asked.extra or IMPORTS:
            answers = [_try(each, extra, wheel, Path(place), servers) for each in pythons]
            failed = failed or any(answer != "works" for answer in answers)
            page = EXAMPLES[extra].page
            print(f"| {extra or 'none'} | {page} | {' | '.join(answers)} |", flush=True)
    return int(failed)


def _built(place: Path) -> Path:
    _run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", place, CLONE)
    return next(place.glob("*.whl"))


def _try(version: str, extra: str, wheel: Path, place: Path, servers: Servers) -> str:
    """Return `works`, or what failed; the reason goes to standard error."""
    environment = place / f"{version}-{extra or 'none'}"
    bin_ = environment / "bin"
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    try:
        # A pip of its own would take longer than most of what is installed.
        _run(_python(version), "-m", "venv", "--without-pip", environment)
        _run(*install(bin_), wanted)
        _run(bin_ / "python", "-c", f"import {IMPORTS[extra]}")
        _run(bin_ / "mutirao", "--version")
        _run(bin_ / "mutirao", "worker", "--help")
        EXAMPLES[extra].show(bin_, version, servers)
    except subprocess.CalledProcessError as error:
        print(error.output, file=sys.stderr)
        return f"failed: `{Path(error.cmd[0]).name} {' '.join(map(str, error.cmd[1:4]))}`"
    except AssertionError as error:
        print(error, file=sys.stderr)
        return f"failed: {EXAMPLES[extra].page}"
    except FileNotFoundError as error:
        return str(error)
    finally:
        shutil.rmtree(environment, ignore_errors=True)  # sixty of them are several GB
    return "works"


def _run(*command: object) -> None:
    words = [str(each) for each in command]
    subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _python(version: str) -> Path:
    for each in _candidates(version):
        if each.exists():
            return each
    raise FileNotFoundError(f"there is no Python {version} here")


def _candidates(version: str) -> Iterator[Path]:
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted((home / "versions").glob(f"{version}.*/bin/python"))
    yield from (Path(each) / f"python{version}" for each in os.get_exec_path())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix.extras", description=__doc__)
    parser.add_argument("--python", action="append", metavar="3.12", help="only this one")
    parser.add_argument("--extra", action="append", choices=IMPORTS, metavar="EXTRA")
    return parser


if __name__ == "__main__":
    sys.exit(main())

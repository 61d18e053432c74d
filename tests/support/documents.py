"""Executes the examples of a Markdown page, so that the page cannot rot.

| block | what is done |
|---|---|
| python, first line `# name.py` | written to that file |
| python, first line `# name.py, continued` | added to it |
| python, first line `# name.py, changed` | each line replaces that which begins so, up to `(` |
| sh | each line is run; if the next block is text, that must be the output of them all |
| console | each `$` command is run; what follows it must be its output |
| sh by-hand, console by-hand | not run: it needs the network, or a whole machine |
| sql sqlite, sql postgresql, sql mysql | executed on the page's database of that kind |
| text, ini | only looked at |

In expected output `…` stands for anything, alone on a line for any lines; moments, lengths of time
and names of workers stand for any others. A command followed by `^C` runs on: its lines are waited
for, others may come between them, and then it is interrupted.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Protocol

import psycopg

from tests.support.mariadb import MysqlServer

DEADLINE = 120.0  # seconds a command may take; generous, only a failure waits this long
# What is printed comes in order, and pytest is as whoever reads has it: without our plugins.
ENVIRONMENT = {
    "PYTHONUNBUFFERED": "1",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTHONWARNINGS": "ignore:pkg_resources is deprecated",  # of pyramid, which Sentry looks at
}
INERT = {"text", "ini", "sh by-hand", "console by-hand"}

_FENCE = re.compile(r"^```(?P<kind>[a-z -]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (?P<name>[\w/]+\.py)(?:, (?P<how>continued|changed))?$")
_EXTRAS = re.compile(r"pip install '(?:\.|mutirao)\[([\w,]+)\]'")
_PACKAGE = re.compile(
    r"(?:^|[Ww]ith `)(?:python -m )?pip install (?:'\S+' )?([a-z][\w-]*)", re.MULTILINE
)
_VARIABLE = (
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?Z"), "<moment>"),
    (re.compile(r"\b\d+\.\d{3}\b"), "<seconds>"),
    (re.compile(r"\([\w.-]+:\d+\)"), "(<worker>)"),
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    kind: str
    body: str
    line: int


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page, in order."""
    for found in _FENCE.finditer(text):
        yield Block(found["kind"], found["body"], text.count("\n", 0, found.start()) + 1)


def plain(text: str) -> str:
    """Return a page without code, comments, targets of links and what is made of the code."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!-- made of the code.*?<!-- end of .*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"`[^`]*`", "X", text)


def installed(text: str, line: int) -> frozenset[str]:
    """Return what a page has had installed up to this line: extras of Mutirão, and packages."""
    before = "\n".join(text.splitlines()[:line])
    named = set(_PACKAGE.findall(before))
    for extras in _EXTRAS.findall(before):
        named |= {f"[{extra}]" for extra in extras.split(",")}
    return frozenset(named)


class Programs(Protocol):
    """Where the commands of a page are, and the variables of their environment."""

    def directory(self, installed: frozenset[str]) -> Path:
        """Return where `python` and `mutirao` are, after a page has had this installed."""
        ...

    def environment(self) -> dict[str, str]:
        """Return the variables that a command is started with."""
        ...


class Here:
    """The environment of these very tests."""

    def directory(self, installed: frozenset[str]) -> Path:
        """Return where everything is."""
        return Path(sys.executable).parent

    def environment(self) -> dict[str, str]:
        """Return that of the tests."""
        return dict(os.environ)


class Reader:
    """A reader who follows a page, in an empty directory.

    Parameters:
        meant: what the page has → what is there, such as the URL of a database.
        postgresql: libpq's URL of the database that `sql postgresql` blocks are for.
        sqlite: the file in the directory that `sql sqlite` blocks are for.
        mysql: the server of `sql mysql` blocks; `meant` has the name of the database.
        programs: where commands are, and the environment in which they run.
        variables: others that are set.
    """

    def __init__(
        self,
        directory: Path,
        meant: Mapping[str, str],
        postgresql: str,
        sqlite: str,
        mysql: MysqlServer | None = None,
        *,
        programs: Programs | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._directory, self._meant = directory, meant
        self._programs, self._variables = programs or Here(), variables or {}
        self._installed: frozenset[str] = frozenset()
        self._postgresql, self._sqlite = postgresql, directory / sqlite
        self._mysql = mysql

    def follow(self, page: Path) -> None:
        """Do everything that a page shows; AssertionError, with the line, where it is wrong."""
        text = page.read_text(encoding="utf-8")
        shown = list(blocks(text))
        for block, following in zip_longest(shown, shown[1:]):
            self._installed = installed(text, block.line + block.body.count("\n"))
            output = following.body if following and following.kind == "text" else ""
            try:
                self._do(block.kind, self._translated(block.body), self._translated(output))
            except Exception as error:
                error.add_note(f"in {page.name}, the block at line {block.line}")
                raise

    def show(self, page: Path, having: str = "") -> None:
        """Write the files before the first block that is run and has this text, and run that one.

        AssertionError, with the line, if it is wrong, or there is none.
        """
        text = page.read_text(encoding="utf-8")
        for block, following in pairwise([*blocks(text), Block("", "", 0)]):
            if block.kind == "python":
                self._write(self._translated(block.body))
            elif block.kind in ("sh", "console") and having in block.body:
                self._installed = installed(text, block.line)
                output = following.body if following.kind == "text" else ""
                self._do(block.kind, self._translated(block.body), self._translated(output))
                return
        raise AssertionError(f"{page.name} runs nothing that has {having!r}")

    def write(self, page: Path) -> None:
        """Write the files that a page shows, and do nothing else."""
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.kind == "python":
                self._write(self._translated(block.body))

    def _do(self, kind: str, body: str, output: str) -> None:
        match kind:
            case "python":
                self._write(body)
            case "sh":
                self._run_all(body.splitlines(), _lines(output))
            case "console":
                for command, expected in _commands(body):
                    self._run_all([command], expected)
            case "sql postgresql":
                with psycopg.connect(self._postgresql) as connection:
                    connection.execute(body.encode())
            case "sql sqlite":
                with closing(sqlite3.connect(self._sqlite, isolation_level=None)) as file:
                    file.executescript(body)
            case "sql mysql":
                assert self._mysql
                name = self._meant['database="shop"'].split('"')[1]
                with self._mysql.connect(name) as server, server.cursor() as cursor:
                    cursor.execute(body)
            case _:
                assert kind in INERT, f"nobody knows how to try a block of {kind!r}"

    def _translated(self, text: str) -> str:
        for said, meant in self._meant.items():
            text = text.replace(said, meant)
        return text

    def _write(self, body: str) -> None:
        first, _, rest = body.partition("\n")
        target = _FILE.match(first)
        assert target, f"the block does not say which file it is: {first!r}"
        path = self._directory / target["name"]
        path.parent.mkdir(exist_ok=True)
        match target["how"]:
            case "continued":
                path.write_text(f"{path.read_text()}\n\n{rest.strip()}\n")
            case "changed":
                path.write_text(_changed(path.read_text(), rest.strip().splitlines()))
            case _:
                path.write_text(rest.lstrip())

    def _run_all(self, commands: list[str], expected: list[str]) -> None:
        """Run commands whose joined output is expected; a `^C` is for the last one."""
        said: list[str] = []
        for command in commands[:-1]:
            said += self._run(command)
        before, interrupted, after = _split(expected)
        if interrupted:
            own = before[len(said) :]
            assert _matches_all(before[: len(said)], said), _differs(commands, before, said)
            self._interrupt(commands[-1], own, after)
        else:
            said += self._run(commands[-1])
            assert _matches_all(expected, said), _differs(commands, expected, said)

    def _run(self, command: str) -> list[str]:
        with self._started(command) as process:
            said = process.communicate()[0]
        assert process.returncode == 0, f"`{command}` ended with {process.returncode}:\n{said}"
        return _lines(said)

    def _interrupt(self, command: str, before: list[str], after: list[str]) -> None:
        with self._started(command) as process:
            _await(process, before, command)
            process.send_signal(signal.SIGINT)
            _await(process, after, command)
            process.communicate()  # a killed one leaves its processes behind
        assert process.returncode != -signal.SIGKILL, f"`{command}` does not end at ^C"

    @contextmanager
    def _started(self, command: str) -> Iterator[subprocess.Popen[str]]:
        name, *arguments = shlex.split(command)
        with subprocess.Popen(
            [_program(self._programs.directory(self._installed), name), *arguments],
            cwd=self._directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**self._programs.environment(), **ENVIRONMENT, **self._variables},
        ) as process:
            watchdog = threading.Timer(DEADLINE, process.kill)
            watchdog.start()
            try:
                yield process
            finally:
                watchdog.cancel()
                process.kill()


def _program(directory: Path, name: str) -> str:
    beside = directory / name
    assert beside.exists(), f"{name} is not in {directory}"
    return str(beside)


def _commands(body: str) -> Iterator[tuple[str, list[str]]]:
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, _lines(output)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def _split(expected: list[str]) -> tuple[list[str], bool, list[str]]:
    if "^C" not in expected:
        return expected, False, []
    at = expected.index("^C")
    return expected[:at], True, expected[at + 1 :]


def _changed(text: str, lines: list[str]) -> str:
    for line in lines:
        head = line.partition("(")[0]
        text, count = re.subn(rf"^{re.escape(head)}\(.*$", lambda _: line, text, flags=re.MULTILINE)  # noqa: B023
        assert count == 1, f"{count} lines begin with {head!r}"
    return text


def _await(process: subprocess.Popen[str], expected: list[str], command: str) -> None:
    """Read what a process says until it has said all that is expected, in this order.

    Other lines may come between them: `…` is one of those, or several, or none.
    """
    assert process.stdout is not None
    said: list[str] = []
    for line in (each for each in expected if each != "…"):
        for got in process.stdout:
            said.append(got.rstrip())
            if _fits(line, said[-1]):
                break
        else:
            raise AssertionError(_differs([command], expected, said))


def _matches_all(expected: list[str], said: list[str]) -> bool:
    if not expected or not said:
        return expected == ["…"] or expected == said
    if expected[0] == "…":
        return any(_matches_all(expected[1:], said[n:]) for n in range(len(said) + 1))
    return _fits(expected[0], said[0]) and _matches_all(expected[1:], said[1:])


def _fits(expected: str, said: str) -> bool:
    expected, said = _plain(expected), _plain(said)
    if expected.endswith(" <seconds>"):  # on a slow machine more than ten, shown without a fraction
        said = re.sub(r" \d+$", " <seconds>", said)
    return re.fullmatch(".*".join(map(re.escape, expected.split("…"))), said) is not None


def _plain(line: str) -> str:
    line = line.rstrip()
    for variable, name in _VARIABLE:
        line = variable.sub(name, line)
    return line


def _differs(commands: list[str], expected: list[str], said: list[str]) -> str:
    lines = ["The page shows:", *expected, "", f"but `{' ; '.join(commands)}` said:", *said]
    return "\n".join(lines)

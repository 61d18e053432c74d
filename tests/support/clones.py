"""Fresh clones of this tree, and commands that find nothing but what is installed from these.

A command gets PATH, HOME, and the variables for reaching packages (PIP_…, proxies): no environment
of Python that is active, no setting of ours. Commands share a clone only where they begin by the
same installation, which is what an untouched clone answers to `make -n`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.scratch import on_disk

ROOT = Path(__file__).parents[2]
LONG = 600.0  # seconds for a command with what it installs; a test of `make test-all` may take 700
_KEPT = re.compile(r"PATH|HOME|TMPDIR|PIP_\w+|(https?|all|no)_proxy|SSL_CERT_FILE", re.IGNORECASE)
_INSTALLS = re.compile(r"-m (venv|pip install) ")


class Clones:
    """The clones of a session, by what is installed in them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._untouched: Path | None = None
        self._each: dict[str, Path] = {}

    def run(self, command: str, timeout: float, **more: str) -> str:
        """Run a line of a shell in a clone; return what it printed, after its exit status was 0.

        Parameters:
            command: as the documents show it.
            timeout: in seconds, with what is installed first.
            more: variables that the documents ask the reader to set.
        """
        done = _in(self._clone(command), command, timeout, more)
        assert done.returncode == 0, f"`{command}` ended with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def run_until(self, command: str, printed: str, timeout: float) -> None:
        """Run a program that runs on; interrupt it once it has printed this. It must end with 0."""
        _until(self._clone(command), command, printed, timeout)

    def _clone(self, command: str) -> Path:
        if self._untouched is None:
            self._untouched = cloned(self._directory / "untouched")
        first = re.match(r"make [a-z-]+( DATABASE=\S+)?", command)
        wanted = f"{first[0]} -n" if first else "make venv -n"
        planned = _in(self._untouched, wanted, 60, {})
        assert planned.returncode == 0, planned.stdout
        key = "\n".join(line for line in planned.stdout.splitlines() if _INSTALLS.search(line))
        if key not in self._each:
            self._each[key] = cloned(self._directory / f"clone{len(self._each)}")
            if first is None:  # the page says to make the environment before
                made = _in(self._each[key], "make venv", 600, {})
                assert made.returncode == 0, made.stdout
        return self._each[key]


class Installed:
    """Environments that hold what a page has had installed, of a clone, and nothing else.

    There is one for each set of packages; pages that have the same installed share it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._each: dict[frozenset[str], Path] = {}

    def directory(self, installed: frozenset[str]) -> Path:
        """Return where the programs are, after these extras and packages have been installed."""
        if installed not in self._each:
            self._each[installed] = self._made(installed)
        return self._each[installed]

    def environment(self) -> dict[str, str]:
        """Return what there is in an empty environment."""
        return environment({})

    def _made(self, installed: frozenset[str]) -> Path:
        clone = self._directory / "clone"
        if not clone.exists():
            cloned(clone)
        place = self._directory / f"environment{len(self._each)}"
        extras = ",".join(sorted(each.strip("[]") for each in installed if each[0] == "["))
        packages = sorted(each for each in installed if each[0] != "[")
        wanted = [f"{clone}[{extras}]" if extras else f"{clone}", *packages]
        for command in (
            [sys.executable, "-m", "venv", str(place)],
            [str(place / "bin" / "pip"), "install", "--quiet", *wanted],
        ):
            done = _in(self._directory, shlex.join(command), LONG, {})
            assert done.returncode == 0, f"`{shlex.join(command)}`:\n{done.stdout}"
        return place / "bin"


def cloned(into: Path) -> Path:
    """Make what a clone would have once all files of this tree were committed."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).exists():  # neither removed nor a link that leads nowhere
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, into / name)
    return into


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return what `env -i` would leave to commands that need a network, and `more`."""
    found = {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)}
    ours = str(Path(sys.prefix) / "bin")
    path = [each for each in found["PATH"].split(os.pathsep) if each != ours]
    return {**found, "PATH": os.pathsep.join(path), **more}


def _in(
    clone: Path, command: str, timeout: float, more: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    with _started(clone, command, more) as process:
        try:
            said, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            raise AssertionError(f"`{command}` takes more than {timeout:g} s:\n{said}") from None
    return subprocess.CompletedProcess(command, process.returncode, said)


def _until(clone: Path, command: str, printed: str, timeout: float) -> None:
    """Wait for a line, and send what Ctrl-C sends; a shell in between would end by itself."""
    with _started(clone, f"exec {command}", {}) as process:
        watchdog = threading.Timer(timeout, os.killpg, (process.pid, signal.SIGKILL))
        watchdog.start()
        try:
            assert process.stdout is not None
            said = []
            for line in process.stdout:
                said.append(line)
                if printed in line:
                    os.killpg(process.pid, signal.SIGINT)
        finally:
            watchdog.cancel()
    assert process.returncode == 0, f"`{command}` ended with {process.returncode}:\n{''.join(said)}"


def _started(clone: Path, command: str, more: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["/bin/sh", "-c", command],
        cwd=clone,
        env=environment(more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.fixture(scope="session")
def clones() -> Iterator[Clones]:
    """Fresh clones; they are large, and removed at the end."""
    with on_disk("mutirao-clones-") as directory:
        yield Clones(directory)


@pytest.fixture(scope="session")
def installed() -> Iterator[Installed]:
    """Environments of what pages have had installed; removed at the end."""
    with on_disk("mutirao-installed-") as directory:
        yield Installed(directory)

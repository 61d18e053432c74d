"""Environments, one for each Python and set of dependencies, in `.matrix` of this clone.

A Python is one of the machine's, or else Debian's of the branch sid. Packages come from where pip
takes them, the newest ones or the lowest that `pyproject.toml` allows.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.matrix.roots import python as root_of
from tests.support.debian import PackageNotFetched

CLONE = Path(__file__).parents[2]
HERE = CLONE / ".matrix"
# Each has packages that are built by compilers which not everybody has: an earlier release of
# whatever needs them is taken rather than one without a wheel.
_WHEELS = "pydantic-core,cryptography,greenlet,jsonschema-rs,rpds-py"


def extras() -> str:
    """Return all extras that `pyproject.toml` has, with commas."""
    project = tomllib.loads((CLONE / "pyproject.toml").read_text())["project"]
    return ",".join(project["optional-dependencies"])


class NotToBeHad(Exception):
    """Something of a row cannot be had here; the message says why."""


@dataclass(frozen=True)
class Interpreter:
    """A Python with its packages.

    Parameters:
        version: such as `3.14`.
        lowest: whether dependencies are the lowest that are allowed.
    """

    version: str
    lowest: bool = False

    @property
    def name(self) -> str:
        """How its directory is called."""
        return f"python-{self.version}{'-lowest' if self.lowest else ''}"

    def made(self) -> Path:
        """Return its program, once all packages are there; `NotToBeHad` where they are not."""
        place = HERE / self.name
        if not (place / ".made").exists():
            shutil.rmtree(place, ignore_errors=True)
            _run("No environment", self._found(), "-m", "venv", "--without-pip", place)
            self._install(place)
            (place / ".made").touch()
        return place / "bin" / "python"

    def _found(self) -> Path:
        for each in _candidates(self.version):
            if _is(each, self.version):
                return each
        try:
            return root_of(self.version).made() / f"usr/bin/python{self.version}"
        except PackageNotFetched as error:
            raise NotToBeHad(f"This machine has no Python {self.version}, and {error}") from error

    def _install(self, place: Path) -> None:
        bounds = place / "constraints.txt"
        bounds.write_text(self._bounds(place))
        install(
            place,
            *("--only-binary", _WHEELS, "-c", bounds),
            *("-e", f".[{extras()}]", "-e", "./conformance", "--group", "dev"),
            CPATH=str(self._headers(place)),
        )

    def _bounds(self, place: Path) -> str:
        if not self.lowest:
            return ""
        script: list[str | Path] = [place / "bin" / "python", "scripts/lowest_versions.py"]
        return subprocess.run(
            script, check=True, stdout=subprocess.PIPE, text=True, cwd=CLONE
        ).stdout

    def _headers(self, place: Path) -> Path:
        """Return a directory that has the headers which Debian keeps apart for each processor."""
        base = (place / "bin" / "python").resolve().parents[1] / "include"
        for found in base.glob(f"*-linux-gnu/python{self.version}"):
            link = place / "headers" / found.relative_to(base)
            link.parent.mkdir(parents=True)
            link.symlink_to(found)
        return place / "headers"


def install(place: Path, *wanted: str | Path, **environment: str) -> None:
    """Install packages in an environment; `NotToBeHad` where they are not."""
    pip = (sys.executable, "-m", "pip", "--python", place / "bin" / "python", "install", "-q")
    _run("Not all packages can be had", *pip, "--no-compile", *wanted, **environment)


def _candidates(version: str) -> Iterator[Path]:
    if found := shutil.which(f"python{version}"):
        yield Path(found)
    several = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    yield from sorted(several.glob(f"{version}.*/bin/python"))


def _is(program: Path, version: str) -> bool:
    """Return whether it runs, and is of that version: there are stand-ins that do not."""
    asked = "import sys, venv, ssl, sqlite3; print('%d.%d' % sys.version_info[:2])"
    ran = subprocess.run([program, "-c", asked], check=False, capture_output=True, text=True)
    return ran.returncode == 0 and ran.stdout.strip() == version


def _run(what: str, *command: str | Path, **environment: str) -> None:
    ran = subprocess.run(
        command,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=CLONE,
        env={**os.environ, **environment},
    )
    if ran.returncode != 0:
        said = [line for line in ran.stdout.splitlines() if "error" in line.lower()]
        raise NotToBeHad(f"{what}: {(said or ran.stdout.splitlines() or ['no word'])[-1].strip()}")

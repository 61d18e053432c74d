"""A row is run: its servers found, its tests run by pytest, and what came of them counted."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from tests.matrix.interpreters import CLONE, HERE, NotToBeHad
from tests.matrix.results import Result
from tests.matrix.rows import Row
from tests.support.binaries import ROOT
from tests.support.debian import PackageNotFetched

LIMIT = 3600.0  # seconds that the tests of a row may take


@dataclass(frozen=True)
class Outcome:
    """What came of a run of pytest: how many tests passed, and which did not."""

    passed: int
    failures: tuple[str, ...]


def run(row: Row, processes: int) -> Result:
    """Run a row, or say why it cannot be.

    Parameters:
        processes: how many run its tests beside each other.
    """
    result = Result(row.name, row.product, row.version, datetime.now(UTC).date().isoformat())
    if row.missing:
        return replace(result, missing=row.missing)
    try:
        if row.root is not None:
            os.environ[ROOT] = str(row.root.made())
        return _run(row, result, processes)
    except (NotToBeHad, PackageNotFetched) as error:
        return replace(result, missing=str(error))
    finally:
        os.environ.pop(ROOT, None)


def _run(row: Row, result: Result, processes: int) -> Result:
    python = row.python.made() if row.python else Path(sys.executable)
    version = row.found()
    if not f"{version}.".startswith(f"{row.version}."):
        return replace(result, missing=f"{version} is what is here")
    first = _tests(row, python, *row.tests, "-n", str(processes), "--dist", "loadscope")
    # Under load a deadline may pass: what failed is tried once more, alone, and that is told.
    second = _tests(row, python, *row.tests, "--last-failed") if first.failures else first
    return replace(
        result,
        version=version,
        python=_version(python),
        tests=row.tests,
        passed=first.passed + len(first.failures) - len(second.failures),
        failed=len(second.failures),
        failures=second.failures,
        again=tuple(each for each in first.failures if each not in second.failures),
    )


def _tests(row: Row, python: Path, *arguments: str) -> Outcome:
    report = HERE / f"{row.name}.xml"
    report.parent.mkdir(exist_ok=True)
    report.unlink(missing_ok=True)
    cache = f"cache_dir={HERE / row.name}.cache"
    command: list[str | Path]
    command = [python, "-m", "pytest", "-q", "-o", cache, f"--junitxml={report}", *arguments]
    # Programs that the tests start would compile all packages again each time.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with (HERE / f"{row.name}.log").open("w") as log:
        ran = subprocess.run(
            command, check=False, stdout=log, stderr=log, cwd=CLONE, timeout=LIMIT, env=kept
        )
    if not report.exists():
        raise NotToBeHad(f"pytest ended with {ran.returncode}: {log.name} has what it said")
    return _outcome(report)


def _outcome(report: Path) -> Outcome:
    cases = [*ET.parse(report).iter("testcase")]  # noqa: S314 - pytest wrote it
    failed = tuple(_failed(cases))
    return Outcome(len(cases) - len(failed), failed)


def _failed(cases: list[ET.Element]) -> Iterator[str]:
    for case in cases:
        if any(case.find(kind) is not None for kind in ("failure", "error", "skipped")):
            yield f"{case.get('classname')}.{case.get('name')}"


def _version(python: Path) -> str:
    said = subprocess.run([python, "--version"], check=True, capture_output=True, text=True).stdout
    return said.removeprefix("Python ").strip()

"""`python -m tests.acceptance.with_wagtail`: a site of Wagtail does its work by our workers.

Wagtail is installed from PyPI into an environment of its own, `.matrix/wagtail`, and `wagtail
start` writes a site. Nothing of either is committed. Prints what was there before and after; exits
with 1 if anything is missing.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.matrix.interpreters import CLONE, HERE
from tests.support.waiting import wait_until

BESIDE = Path(__file__).parent
AFTER = {"pages": ["Festival of lanterns"], "pictures": ["lantern"], "files": ["lantern.png"]}


def main() -> int:
    """Make the site, edit, work, compare."""
    bin_ = _environment() / "bin"
    with tempfile.TemporaryDirectory(prefix="mutirao-wagtail-") as name:
        place = Path(name)
        _run(place, bin_ / "wagtail", "start", "press", ".")
        shutil.copy(BESIDE / "local_settings.py", place / "press" / "settings" / "local.py")
        shutil.copy(BESIDE / "editing.py", place)
        for words in (("migrate", "--verbosity", "0"), ("check",)):
            _run(place, bin_ / "python", "manage.py", *words)
        before = _found(place, bin_, "edit")
        print("before", json.dumps(before, indent=1))
        worker: list[str | Path] = [
            bin_ / "python",
            "manage.py",
            "mutirao",
            "worker",
            "--log-level",
            "error",
        ]
        with subprocess.Popen(worker, cwd=place) as process:
            try:
                wait_until(lambda: "ready" not in str(_found(place, bin_, "look")), deadline=120)
            finally:
                process.terminate()
        after = _found(place, bin_, "look")
    print("after", json.dumps(after, indent=1))
    missing = {name: after[name] for name, value in AFTER.items() if after[name] != value}
    return int(bool(missing) or not after["references"] or before["pages"] != [])


def _environment() -> Path:
    place = HERE / "wagtail"
    if not (place / ".made").exists():
        shutil.rmtree(place, ignore_errors=True)
        _run(CLONE, sys.executable, "-m", "venv", place)
        _run(CLONE, place / "bin" / "pip", "install", "-q", "wagtail", "-e", ".[django]")
        (place / ".made").touch()
    return place


def _found(place: Path, bin_: Path, what: str) -> dict[str, Any]:
    said = _run(place, bin_ / "python", "editing.py", what)
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


def _run(place: Path, *command: str | Path) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=place).stdout


if __name__ == "__main__":
    sys.exit(main())

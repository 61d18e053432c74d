"""`python -m tests.acceptance.with_wagtail`: a site of Wagtail does its work by our workers.

Wagtail is installed from PyPI into an environment of its own, `.matrix/wagtail`, and `wagtail
start` writes a site. Nothing of either is committed. Prints what was there before and after; exits
with 1 if anything is missing.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.acceptance.fetched import environment, run, working

BESIDE = Path(__file__).parent
AFTER = {"pages": ["Festival of lanterns"], "pictures": ["lantern"], "files": ["lantern.png"]}


def main() -> int:
    """Make the site, edit, work, compare."""
    bin_ = environment("wagtail", "wagtail") / "bin"
    python = bin_ / "python"
    with tempfile.TemporaryDirectory(prefix="mutirao-wagtail-") as name:
        place = Path(name)
        run(place, bin_ / "wagtail", "start", "press", ".")
        shutil.copy(BESIDE / "local_settings.py", place / "press" / "settings" / "local.py")
        shutil.copy(BESIDE / "editing.py", place)
        for words in (("migrate", "--verbosity", "0"), ("check",)):
            run(place, python, "manage.py", *words)
        before = _found(place, python, "edit")
        print("before", json.dumps(before, indent=1))
        with working(place, python) as until:
            until(lambda: not {"ready", "running"} & {*_states(_found(place, python, "look"))})
        after = _found(place, python, "look")
    print("after", json.dumps(after, indent=1))
    missing = {name: after[name] for name, value in AFTER.items() if after[name] != value}
    return int(bool(missing) or not after["references"] or before["pages"] != [])


def _found(place: Path, python: Path, what: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(place, python, "editing.py", what).splitlines()[-1])
    return found


def _states(found: dict[str, Any]) -> list[str]:
    return [each.split()[-1] for each in found["jobs"]]


if __name__ == "__main__":
    sys.exit(main())

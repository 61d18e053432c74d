"""Sources of other packages, with their tests, which wheels leave out: fetched from PyPI, kept.

They are in no commit, and kept where the tests keep what they have fetched.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

from tests.support.debian import cache

DEADLINE = 240.0  # seconds that fetching one may take


def source_of(package: str, version: str) -> Path:
    """Return the directory of a package's source distribution, fetched unless it is there."""
    place = cache() / "sdists"
    place.mkdir(exist_ok=True)
    name = f"{package.replace('-', '_')}-{version}"
    if not (place / f"{name}.tar.gz").exists():
        asked = ["--no-deps", "--no-binary", package, "--dest", str(place), f"{package}=={version}"]
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", *asked],
            check=True,
            timeout=DEADLINE,
        )
    if not (place / name).exists():
        with tarfile.open(place / f"{name}.tar.gz") as archive:
            archive.extractall(place, filter="data")
    return place / name

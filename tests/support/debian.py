"""Programs of Debian's branch "sid", which has the newest servers, beside those of the machine.

Packages are fetched with apt-get, which checks their signatures, and extracted into a cache. apt is
given lists, a cache and a record of installed packages of its own, so the machine's are neither
read nor changed, and everything that a package depends on is fetched, the C library and its loader
too. Nothing is installed, and no root is needed.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_MIRROR = "http://deb.debian.org/debian"
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_NEEDED = ("apt-get", "dpkg-deb")


class PackageNotFetched(Exception):
    """A package cannot be had here; the message says why, and what to do."""


class Extracted(NamedTuple):
    """A directory that has a package, and all that it depends on, as a root directory would."""

    root: Path

    def command(self, program: str) -> list[str | Path]:
        """Return what runs a program: its own loader, with the libraries beside that."""
        [loader] = self.root.glob("usr/lib/*/ld-linux-*.so.*")
        return [loader, "--library-path", loader.parent, self.root / program]


def fetched(package: str, *beside: str) -> Extracted:
    """Return where a package is extracted, fetching it if it never was; one process at a time.

    Parameters:
        beside: other packages that are extracted into the same directory.

    Raises `PackageNotFetched` where that is not possible.
    """
    with alone(package):
        root = cache() / package
        if not root.is_dir():
            _fetch(package, beside, root)
    return Extracted(root)


def cache() -> Path:
    """Return the directory that is kept between runs, which others may read."""
    if os.geteuid() == 0:  # servers run as another user, which may not enter root's home
        path = Path("/var/cache/mutirao-tests")
    else:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        path = Path(home) / "mutirao-tests"
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Keep other processes from doing the same in the cache."""
    with (cache() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(package: str, beside: Iterable[str], root: Path) -> None:
    missing = [each for each in _NEEDED if shutil.which(each) is None]
    if missing:
        raise PackageNotFetched(
            f"{package} is fetched from Debian with {' and '.join(_NEEDED)}, and {missing[0]} is"
            " missing here. Use a machine that has both, with Debian or one of its descendants."
        )
    with tempfile.TemporaryDirectory(dir=root.parent) as name:
        new, own = Path(name) / "root", Path(name) / "apt"
        apt = ["apt-get", "-q", *_own_configuration(own)]
        _run(package, *apt, "update")
        wanted = ("--download-only", "--no-install-recommends", package, *beside)
        _run(package, *apt, "install", "-y", *wanted)
        for each in (own / "archives").glob("*.deb"):
            _run(package, "dpkg-deb", "-x", str(each), str(new))
        Path(name).chmod(0o755)
        new.rename(root)


def _own_configuration(own: Path) -> Iterator[str]:
    """Make apt a directory of its own, and yield the options that say so."""
    for each in ("lists/partial", "archives/partial"):
        (own / each).mkdir(parents=True)
    (own / "status").touch()  # as if nothing was installed
    (own / "sid.sources").write_text(
        f"Types: deb\nURIs: {_mirror()}\nSuites: sid\nComponents: main\nSigned-By: {_KEYS}\n"
    )
    for option, value in {
        "Dir::Etc::SourceList": own / "sid.sources",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State": own,
        "Dir::State::Lists": own / "lists",
        "Dir::State::Status": own / "status",
        "Dir::Cache": own,
        "Dir::Cache::Archives": own / "archives",
        "APT::Sandbox::User": "root",  # which means: as its caller
    }.items():
        yield f"-o{option}={value}"


def _mirror() -> str:
    """Return the server of Debian's packages that the machine's own apt uses, if it uses one."""
    sources = Path("/etc/apt").glob("**/*.sources"), Path("/etc/apt").glob("**/*.list")
    for path in (each for several in sources for each in sorted(several)):
        for uri in re.findall(r"https?://[^\s\]]+/debian/?(?=\s)", path.read_text()):
            return str(uri)
    return _MIRROR


def _run(package: str, *command: str) -> None:
    ran = subprocess.run(
        command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if ran.returncode != 0:
        said = "\n".join(ran.stdout.splitlines()[-10:])
        raise PackageNotFetched(
            f"{package} could not be fetched from Debian's branch sid: {' '.join(command)!r} failed"
            f" with {ran.returncode} and said:\n{said}\nMend that."
        )

"""Finds the programs of servers, PgBouncer and libfaketime, and fetches those that are missing.

The tests need a real server. They look where distributions put one, and where there is none they
install Debian's, if they may. `MUTIRAO_TEST_ROOT` names a directory that has other servers, as a
root directory would: what is found there is taken, and the machine's for what is not.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

OLDEST_SERVED = 14
"""The oldest major version of PostgreSQL that Mutirão supports."""

ROOT = "MUTIRAO_TEST_ROOT"
_NO_CLUSTER = Path("/etc/postgresql-common/createcluster.d/mutirao-tests.conf")


class ServerNotFound(Exception):
    """No PostgreSQL server of a supported version is installed; the message says how to get one."""


class FaketimeNotFound(Exception):
    """libfaketime is not installed; the message says how to get it."""


class MariadbNotFound(Exception):
    """MariaDB's server is not installed; the message says how to get it."""


class RabbitNotFound(Exception):
    """RabbitMQ is not installed; the message says how to get it."""


class PoolerNotFound(Exception):
    """PgBouncer is not installed; the message says how to get it."""


class PrometheusNotFound(Exception):
    """Prometheus is not installed; the message says how to get it."""


class BrowserNotFound(Exception):
    """Chromium is not installed; the message says how to get it."""


def find_server() -> Path:
    """Return the directory of the server programs, installing them where that is possible.

    Raises `ServerNotFound`, with the command to run, where there is none and none can be installed.
    """
    found = next(_supported(), None)
    if found is None and _may_install():
        _install_server()
        found = next(_supported(), None)
    if found is None:
        raise ServerNotFound(
            f"The tests need the server programs of PostgreSQL {OLDEST_SERVED} or newer (initdb and"
            f" postgres), and found none in PATH nor in the usual places. Run: {_command_to_run()}"
        )
    return found


def find_faketime() -> Path:
    """Return the library that gives a process (LD_PRELOAD) a clock of its own.

    Raises `FaketimeNotFound`, with the command to run, where it is missing and cannot be installed.
    """
    return _found(
        _faketime,
        "libfaketime",
        FaketimeNotFound,
        "Clocks can be made to jump with libfaketime only, which is in none of the usual places.",
    )


def find_pgbouncer() -> Path:
    """Return the pooler's program, installing it where that is possible.

    Raises `PoolerNotFound`, with the command to run, where there is none and none can be installed.
    """
    return _found(_pgbouncer, "pgbouncer", PoolerNotFound, "PgBouncer is missing.")


def find_mariadb() -> Path:
    """Return the program of MariaDB's server, installing it where that is possible.

    Debian's packages without the service: nothing is started, and there is no data directory.
    """
    packages = "mariadb-server-core mariadb-client-core"
    return _found(_mariadb, packages, MariadbNotFound, "MariaDB's server is missing.")


def find_rabbitmq() -> Path:
    """Return the program of RabbitMQ's node, not the wrapper that only root may call.

    Debian's package starts a node of its own where policy allows it, which is not used here.
    """
    return _found(_rabbitmq, "rabbitmq-server", RabbitNotFound, "RabbitMQ is missing.")


def find_chromium() -> Path:
    """Return the browser, with fonts in which all widths are the same everywhere."""
    packages = "chromium fonts-liberation"
    return _found(_chromium, packages, BrowserNotFound, "Chromium is missing.")


def find_prometheus() -> Path:
    """Return the program of Prometheus; promtool lies beside it.

    Debian's package starts a server of its own where policy allows it, which is not used here.
    """
    return _found(_prometheus, "prometheus", PrometheusNotFound, "Prometheus is missing.")


class SystemdNotFound(Exception):
    """There is no systemd-analyze, and it cannot be installed."""


def systemd_analyze() -> Path:
    """Return the program that checks units, installing it on Debian; it starts nothing.

    Raises:
        SystemdNotFound: there is none; the message says how to install it.
    """
    return _found(_systemd, "systemd", SystemdNotFound, "systemd-analyze is missing.")


def _systemd() -> Iterator[Path]:
    found = shutil.which("systemd-analyze")
    if found is not None:
        yield Path(found)


def _found(
    look: Callable[[], Iterator[Path]], package: str, missing: type[Exception], why: str
) -> Path:
    """Return the first place there is, installing the package where there is none."""
    found = next(look(), None)
    if found is None and _may_install():
        failed = _install_from_debian(package)
        if failed is not None:
            raise missing(f"{failed!r} failed; what it said is above. Mend that.")
        found = next(look(), None)
    if found is None:
        raise missing(f"{why} Run: sudo apt-get install -y {package}")
    return found


def _pgbouncer() -> Iterator[Path]:
    found = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if found is not None:
        yield Path(found)


def _prometheus() -> Iterator[Path]:
    yield from _given("usr/bin/prometheus")
    found = shutil.which("prometheus")
    if found is not None and shutil.which("promtool") is not None:
        yield Path(found)


def _mariadb() -> Iterator[Path]:
    yield from _given("usr/sbin/mariadbd")
    found = shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/libexec")
    if found is not None and shutil.which("mariadb-install-db") is not None:
        yield Path(found)


def _chromium() -> Iterator[Path]:
    yield from _given("usr/bin/chromium")
    found = shutil.which("chromium")
    if found is not None:
        yield Path(found)


def _rabbitmq() -> Iterator[Path]:
    place = "usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server"
    yield from _given(place)
    yield from Path("/").glob(place)


def _given(pattern: str) -> Iterator[Path]:
    """Yield what is found in the directory that the environment names, if it names one."""
    if ROOT in os.environ:
        yield from sorted(Path(os.environ[ROOT]).glob(pattern))


def _faketime() -> Iterator[Path]:
    for pattern in ("lib/*/faketime", "lib64/faketime", "lib/faketime", "local/lib/faketime"):
        yield from Path("/usr").glob(f"{pattern}/libfaketime.so.1")


def major_version(directory: Path) -> int:
    """Return the major version of the server programs in `directory`."""
    said = subprocess.run(
        [directory / "postgres", "--version"], check=True, capture_output=True, text=True
    ).stdout
    number = re.search(r"\d+", said)
    if number is None:
        raise ServerNotFound(f"{directory / 'postgres'} --version said {said!r}, not its version.")
    return int(number[0])


def _supported() -> Iterator[Path]:
    for directory in _candidates():
        complete = (directory / "initdb").is_file() and (directory / "postgres").is_file()
        if complete and major_version(directory) >= OLDEST_SERVED:
            yield directory


def _candidates() -> Iterator[Path]:
    yield from _given("usr/lib/postgresql/*/bin")
    on_path = shutil.which("initdb")
    if on_path:
        yield Path(on_path).resolve().parent
    if shutil.which("pg_config"):
        answer = subprocess.run(
            ["pg_config", "--bindir"], check=False, capture_output=True, text=True
        )
        yield Path(answer.stdout.strip())
    for root, pattern in (
        ("/usr/lib/postgresql", "*/bin"),
        ("/usr", "pgsql-*/bin"),
        ("/usr/local", "pgsql/bin"),
        ("/opt/homebrew/opt", "postgresql*/bin"),
        ("/usr/local/opt", "postgresql*/bin"),
        ("/Applications/Postgres.app/Contents/Versions", "*/bin"),
    ):
        yield from sorted(Path(root).glob(pattern), key=_number_in, reverse=True)


def _number_in(directory: Path) -> int:
    digits = re.findall(r"\d+", str(directory))
    return int(digits[-1]) if digits else 0


def _may_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def _install_server() -> None:
    # Debian's package would create and start a cluster of its own, which is not used here.
    _NO_CLUSTER.parent.mkdir(parents=True, exist_ok=True)
    _NO_CLUSTER.write_text("create_main_cluster = false\n")
    failed = _install_from_debian("postgresql")
    if failed is not None:
        raise ServerNotFound(
            f"No PostgreSQL server is installed, and {failed!r} failed; what it said"
            f" is above. Mend that, then run: {_command_to_run()}"
        )


def _install_from_debian(package: str) -> str | None:
    """Install a package; return the command that failed, if one did."""
    # Without a run level, packages do not start servers of their own.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for arguments in ("update", f"install -y --no-install-recommends {package}"):
        command = ["apt-get", "-q", *arguments.split()]
        if subprocess.run(command, check=False, env=environment).returncode != 0:
            return " ".join(command)
    return None


def _command_to_run() -> str:
    for tool, command in (
        ("apt-get", "sudo apt-get install -y postgresql"),
        ("dnf", "sudo dnf install -y postgresql-server"),
        ("brew", "brew install postgresql@17"),
        ("apk", "sudo apk add postgresql"),
        ("pacman", "sudo pacman -S postgresql"),
    ):
        if shutil.which(tool):
            return command
    return "your package manager's installation of PostgreSQL's server"

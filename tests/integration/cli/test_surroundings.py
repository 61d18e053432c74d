"""Commands in surroundings that are unfit: options that no driver knows, closed streams."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import make_url

from mutirao.errors import ConfigurationError
from tests.integration.cli.conftest import Shell, make_shop
from tests.support.engine import refuse_patched
from tests.support.waiting import wait_until


@pytest.mark.parametrize("command", ["list", "worker"])
@pytest.mark.parametrize(
    ("where", "driver"),
    [
        ("postgresql_url", "postgresql+psycopg"),
        ("postgresql_url", "postgresql+asyncpg"),
        ("mysql_url", "mysql+pymysql"),
        ("mysql_url", "mysql+aiomysql"),
        ("mysql_url", "mysql+mysqldb"),
    ],
)
def test_an_option_that_the_driver_does_not_know(
    where: str,
    driver: str,
    command: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is called wrongly, and the option is named."""
    url = make_url(request.getfixturevalue(where)).set(drivername=driver)
    url = url.update_query_dict({"nonsense": "1"})
    shell = make_shop(url.render_as_string(hide_password=False), tmp_path, monkeypatch)
    said = shell.refused(2, command, "shop:app")
    assert "'nonsense'" in said.replace('"', "'")


def test_closed_descriptors(sqlite_shell: Shell) -> None:
    """A worker without standard output and error ends with 0 when it is told to."""
    sqlite_shell.ok("enqueue", "shop:app", "send")
    command = f"exec {sys.executable} -m mutirao worker shop:app --poll 0.1 >&- 2>&-"
    worker = subprocess.Popen(["sh", "-c", command], cwd=sqlite_shell.directory)
    try:
        wait_until(lambda: sqlite_shell.json("list", "shop:app")[0]["state"] == "succeeded")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
    finally:
        worker.kill()
        worker.wait()


def test_patched_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker under gevent is refused in one sentence, which says where it can run."""

    class Monkey:
        @staticmethod
        def is_module_patched(name: str) -> bool:
            return name == "threading"

    monkeypatch.setitem(sys.modules, "gevent.monkey", Monkey)
    with pytest.raises(ConfigurationError, match=r"gevent has patched.*a process of its own"):
        refuse_patched()

"""The command `mutirao hub`, as people start it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mutirao import Mutirao, NewJob
from mutirao.hub.address import parse_address
from mutirao.hub.protocol import Serves
from mutirao.notifiers.hub import HubNotifier
from mutirao.sql.store.jobs import SqlStore
from tests.support.hubs import hub_process
from tests.support.waiting import soon

SHOP = """
from mutirao import Mutirao

app = Mutirao({url!r}, hub="tcp://127.0.0.1:1?name=shop")
"""


async def test_it_looks_at_applications_and_urls(
    lite_url: str, migrated_sqlite_url: str, tmp_path: Path
) -> None:
    """By the name that each application has for its database."""
    (tmp_path / "shop.py").write_text(SHOP.format(url=lite_url))
    args = ("shop:app", "--database", migrated_sqlite_url, "--every", 0.05)
    with hub_process(*args, cwd=tmp_path, MUTIRAO_HUB_TOKEN="secret") as process:
        address = parse_address(process.url).with_token("secret")
        for url, name in (
            (lite_url, "shop"),
            (migrated_sqlite_url, Mutirao(migrated_sqlite_url).hub_name),
        ):
            notifier, store = HubNotifier(address, name, Serves()), SqlStore(url)
            wakes = notifier.listen()
            await soon(anext(wakes))
            while not notifier.complete:
                await soon(anext(wakes))
            await store.aenqueue([NewJob(task="t", queue="mail")])
            while (await soon(anext(wakes))).queue != "mail":
                pass
            await wakes.aclose()
            await store.close()


@pytest.mark.parametrize(
    ("args", "status", "why"),
    [
        (["--bind", "0.0.0.0:0"], 2, "without a token"),
        (["--bind", "here"], 2, "write 127.0.0.1:8770"),
        (["--database", "nosql://"], 2, "the database URL begins with"),
        (["nowhere:app"], 2, "there is no module"),
        (["--database", "sqlite:///empty.db"], 3, "mutirao migrate"),
    ],
)
def test_what_it_refuses(args: list[str], status: int, why: str, tmp_path: Path) -> None:
    """In one line, with the status that says of which kind it is."""
    (tmp_path / "empty.db").touch()
    ran = subprocess.run(
        [sys.executable, "-m", "mutirao", "hub", *args],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (status, "")
    assert why in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_signal_ends_it(lite_url: str) -> None:
    """At once, with status 0."""
    with hub_process("--database", lite_url) as process:
        process._process.terminate()
        assert process._process.wait() == 0

"""Every command that the documents show works in a fresh clone, with an empty environment.

Pages that are followed from the first line to the last find what they have had installed by then.

`make test` runs none but those that a test of its own looks at: it is itself such a command, in a
clean clone. `make test-all` runs all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.acceptance.documented.how import HOW, NotRun, Run, Shown, how, longer
from tests.acceptance.documented.shown import ROOT, Command, commands
from tests.support.clones import LONG, Clones, Installed
from tests.support.documents import blocks, installed as installed_by
from tests.support.followed import FOLLOWED, follow
from tests.support.mariadb import MysqlServer

COMMANDS = commands()
TRIED = [each for each in COMMANDS if isinstance(how(each.text), Run)]


@dataclass
class Places:
    """What there is for what the pages have: databases and brokers."""

    request: pytest.FixtureRequest

    def filled(self, command: str) -> str:
        """Return a command with real places."""
        for shown, real in self._real().items():
            if shown in command:
                command = command.replace(shown, real())
        return command

    def _real(self) -> dict[str, Callable[[], str]]:
        return {
            "postgresql+psycopg:///bench": self.postgresql,
            "postgresql+psycopg://…": self.postgresql,
            "--database URL": lambda: f"--database {self.postgresql()}",
            "mysql://user:password@host/": self._mysql,
            "amqp://…": self._amqp,
        }

    def postgresql(self) -> str:
        """Return the URL of an empty database."""
        return str(self.request.getfixturevalue("postgresql_url"))

    def _mysql(self) -> str:
        server: MysqlServer = self.request.getfixturevalue("mysql")
        url = make_url(server.url("")).set(drivername="mysql")
        return url.render_as_string(hide_password=False)

    def _amqp(self) -> str:
        return str(self.request.getfixturevalue("rabbit").url())


def test_somebody_says_how_each_is_tried() -> None:
    """No command is forgotten, and no line of the list is left over."""
    assert len(COMMANDS) > 60
    used = {id(how(each.text)) for each in COMMANDS}
    assert [pattern for pattern, each in HOW if id(each) not in used] == []
    for _, each in HOW:
        match each:
            case Shown(by):
                assert (ROOT / by).exists()
            case NotRun(why):
                assert why


@pytest.mark.repeats(decided="tests/acceptance/documented/how.py")
@pytest.mark.parametrize("command", TRIED, ids=lambda each: each.text)
def test_it_works_in_a_fresh_clone(
    command: Command, clones: Clones, request: pytest.FixtureRequest
) -> None:
    """What a page shows ends with 0, but for more options that make it shorter."""
    way, places = how(command.text), Places(request)
    assert isinstance(way, Run)
    if way.until:
        clones.run_until(command.text, way.until, LONG)
        return
    given = {}
    if re.match(r"make measure ARGS=(?!.*(--database|\bsqs\b|\brabbitmq\b))", command.text):
        given["MUTIRAO_DATABASE"] = places.postgresql()  # as the page says
    clones.run(longer(places.filled(command.text), way.more), LONG, **given)


@pytest.mark.repeats(decided="tests/unit/test_readme.py")
@pytest.mark.parametrize("page", FOLLOWED)
def test_a_page_is_followed_with_what_it_has_installed(
    page: str, tmp_path: Path, installed: Installed, request: pytest.FixtureRequest
) -> None:
    """Its commands find the clone, with the extras that the page has named until then."""
    follow(page, tmp_path, request, installed)


def test_what_a_page_has_installed() -> None:
    """Install lines count from where they stand, in blocks and in text."""
    page = (ROOT / "docs" / "first-steps.md").read_text(encoding="utf-8")
    shown = [installed_by(page, block.line) for block in blocks(page)]
    assert shown[0] == frozenset()
    assert shown[-1] == {"[postgresql]", "pytest"}
    assert frozenset({"[postgresql]"}) in shown
    both = "pip install '.[postgresql,web]' pytest\n"
    assert installed_by(both, 1) == {"[postgresql]", "[web]", "pytest"}

"""Every command that the documents show works in a fresh clone, with an empty environment.

`make test` runs none but those that a test of its own looks at: it is itself such a command, in a
clean clone. `make test-all` runs all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from sqlalchemy import make_url

from tests.acceptance.documented.how import HOW, LONG, NotRun, Run, Shown, how, longer
from tests.acceptance.documented.shown import ROOT, Command, commands
from tests.support.clones import Clones
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

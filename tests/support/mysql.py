"""A private MySQL server: real, thrown away afterwards, and stopped whatever happens.

Debian packages it in its branch sid only, so it is fetched from there and runs with the loader and
the libraries that came with it (`tests.support.debian`). What it makes of an empty directory takes
seconds, and is kept beside it: each server begins with a copy. `python -m tests.support.mysql` runs
one until Ctrl-C. `MUTIRAO_TEST_MYSQL_URL` names another one, which the tests use instead.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from tests.support.debian import PackageNotFetched, alone, cache, fetched
from tests.support.mariadb import GIVEN, LocalServer, MysqlServer, given_server
from tests.support.servers import Command, serve, unprivileged

PACKAGE = "mysql-server-core"
_EMPTY = "mysql-empty"  # in the cache: what the server makes of an empty directory
# Its data need not survive a power cut, only what the tests do to it. All else is as usual.
_FAST = {
    "innodb-flush-log-at-trx-commit": "0",
    "sync-binlog": "0",
    "innodb-buffer-pool-size": "64M",
    "innodb-redo-log-capacity": "32M",
    "max-allowed-packet": "4M",
    "performance-schema": "OFF",
}


class RealMysqlServer(LocalServer):
    """One private server. Use it as a context manager.

    Parameters:
        settings: instead of those by which it is fast, and forgets what a power cut may cost.
    """

    name = "MySQL"

    def __init__(self, settings: Mapping[str, str] = MappingProxyType(_FAST)) -> None:
        super().__init__(settings)

    def _make(self) -> None:
        """Copy what the server has made of an empty directory once, and write down the user."""
        try:
            self._root = fetched(PACKAGE)
        except PackageNotFetched as error:
            error.add_note(f"Or name a MySQL that is there: {GIVEN}=mysql://user:password@host/")
            raise
        self._make_directory()
        with alone(_EMPTY):
            empty = cache() / _EMPTY
            if not empty.is_dir():
                self._make_empty(empty)
        shutil.copytree(empty, self.directory / "data")
        (self.directory / "data" / "auto.cnf").unlink()  # each server has a number of its own
        self._give_away(self.directory / "data")
        self._write_user()

    def _make_empty(self, empty: Path) -> None:
        made = self.directory / "empty"
        self._run(*self._program(made), "--initialize-insecure")
        new = empty.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        shutil.copytree(made, new)
        shutil.rmtree(made)
        new.rename(empty)

    def _give_away(self, directory: Path) -> None:
        """Let the user have a directory as whom the server runs."""
        if run_as := unprivileged():
            for path in (directory, *directory.rglob("*")):
                os.chown(path, run_as["user"], run_as["group"])

    def _program(self, data: Path) -> list[str | Path]:
        """Return the command with all that says where something is."""
        settings = {
            "lc-messages-dir": self._root.root / "usr/share/mysql",
            "character-sets-dir": self._root.root / "usr/share/mysql/charsets",
            "plugin-dir": self._root.root / "usr/lib/mysql/plugin",
            "datadir": data,
            "tmpdir": self.directory,
            "secure-file-priv": "NULL",
            "innodb-redo-log-capacity": _FAST["innodb-redo-log-capacity"],
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        return [*self._root.command("usr/sbin/mysqld"), "--no-defaults", *options]

    def _command(self) -> Command:
        settings = {**self._everywhere(), "mysqlx": "OFF", **self._settings}
        options = [f"--{name}={value}" for name, value in settings.items()]
        return [*self._program(self.directory / "data"), *options]


@contextmanager
def real_mysql_server() -> Iterator[MysqlServer]:
    """Lend the server that is given, or else one of our own."""
    if GIVEN in os.environ:
        with given_server() as given:
            yield given
    else:
        with RealMysqlServer() as own:
            yield own


def main() -> None:
    """Run a server, print the URL of an empty database, and stop it at Ctrl-C or SIGTERM."""
    server = RealMysqlServer()
    serve(server, lambda: server.url(server.create_database()))


if __name__ == "__main__":
    main()

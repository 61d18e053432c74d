"""Troubles that only a MariaDB or a MySQL has, beside those in `troubles_server`."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence

from tests.faults.ordeal.plan import Event
from tests.faults.ordeal.stage_mysql import MysqlStage
from tests.faults.ordeal.stage_server import NAME, ROLE
from tests.faults.ordeal.troubles import Catalogue, Scene

MYSQL = Catalogue()
# What an administrator may give to all new sessions, and what of it would do the most harm.
DEFAULTS: Sequence[Mapping[str, object]] = (
    {"completion_type": "CHAIN"},
    {"completion_type": "RELEASE"},
    {"sql_mode": "ANSI_QUOTES,NO_BACKSLASH_ESCAPES"},
    {"sql_safe_updates": "ON", "sql_select_limit": 1},
    {"time_zone": "-11:00", "autocommit": "OFF"},
    {"innodb_lock_wait_timeout": 1},
)

MysqlScene = Scene[MysqlStage]


@MYSQL.trouble("freeze-server")
def freeze_server(scene: MysqlScene, event: Event) -> Iterator[str]:
    """Suspend the server, as a paused machine is: connections stay, and nothing answers."""
    pid = scene.stage.server.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield "SIGSTOP of the server"
    finally:
        os.kill(pid, signal.SIGCONT)


@MYSQL.trouble("wait-timeout")
def wait_timeout(scene: MysqlScene, event: Event) -> Iterator[str]:
    """Have the server end sessions that rest for a second."""
    with scene.stage.having({"wait_timeout": 1}):
        yield f"{scene.stage.terminate()} sessions begin anew, and end after a second's rest"
    scene.stage.terminate()


@MYSQL.trouble("defaults")
def defaults(scene: MysqlScene, event: Event) -> Iterator[str]:
    """Give new sessions other defaults; others each time."""
    others = DEFAULTS[(scene.plan.seed + event.turn) % len(DEFAULTS)]
    told = ", ".join(f"{name} = {value}" for name, value in others.items())
    with scene.stage.having(others):
        yield f"{scene.stage.terminate()} sessions begin anew, with {told}"
    scene.stage.terminate()


@MYSQL.trouble("revoke")
def revoke(scene: MysqlScene, event: Event) -> Iterator[str]:
    """Take the workers' privileges away."""
    scene.stage.administer(f"REVOKE ALL ON {NAME}.* FROM {ROLE}@'%'")
    try:
        yield f"no privileges, {scene.stage.terminate()} sessions are terminated"
    finally:
        scene.stage.administer(f"GRANT ALL ON {NAME}.* TO {ROLE}@'%'")

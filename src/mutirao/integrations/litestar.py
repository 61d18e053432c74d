"""Mutirão in an application of Litestar.

    Litestar(…, plugins=[MutiraoPlugin(jobs, worker=True)])

Connections are closed with the application, a worker runs in it if one is wanted, and
`litestar mutirao worker` is `mutirao worker` without naming the application.
"""

import sys
from typing import TYPE_CHECKING, Unpack

import click

from mutirao.app import Mutirao
from mutirao.cli import HostProgram, Within
from mutirao.errors import MissingDriver
from mutirao.integrations.places import place_of

if TYPE_CHECKING:
    from litestar.cli._utils import LitestarEnv
    from litestar.config.app import AppConfig

    from mutirao.engine.settings import WorkerTerms

try:
    from litestar.plugins import CLIPlugin, InitPlugin
except ModuleNotFoundError as missing:
    raise MissingDriver(
        f"mutirao.integrations.litestar needs {missing.name}, which is not installed: run"
        " pip install 'mutirao[litestar]'"
    ) from missing

NAME = "mutirao"  # of the command


class MutiraoPlugin(InitPlugin, CLIPlugin):
    """A plugin of Litestar that holds the jobs of its application.

    Attributes:
        jobs: the `Mutirao`.
        lifespan: what is held while the application serves; its `health()` is that of the worker.
    """

    def __init__(
        self, jobs: Mutirao, *, worker: bool = False, **settings: Unpack["WorkerTerms"]
    ) -> None:
        """Set the jobs; the other parameters are those of `Mutirao.lifespan`.

        Raises:
            ConfigurationError: there are settings, and no worker; or a setting is out of range.
        """
        self.jobs = jobs
        self.lifespan = jobs.lifespan(worker=worker, **settings)

    def on_app_init(self, app_config: "AppConfig") -> "AppConfig":
        """Make the application enter and leave the lifespan."""
        app_config.lifespan.append(self.lifespan)
        return app_config

    def on_cli_init(self, cli: click.Group) -> None:
        """Add our commands, with this application's jobs."""
        cli.add_command(Within(self._host), NAME)

    def _host(self, context: click.Context) -> HostProgram:
        env: LitestarEnv = context.find_root().obj
        name = ":".join(place_of(self.jobs) or ("litestar", NAME))
        again = [sys.executable, "-m", "litestar", "--app", env.app_path, NAME]
        return HostProgram(lambda: self.jobs, name, again)

"""The command `mutirao`: an application's jobs on the command line.

Every command takes the application as `module:attribute`, or from MUTIRAO_APP; every option also
from a variable that its help names. Only this package reads the environment, but for the
variables of a hub, of brokers, and those by which systemd says where it listens.
"""

from mutirao.cli.group import main

__all__ = ["main"]

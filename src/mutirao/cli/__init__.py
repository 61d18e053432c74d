"""The command `mutirao`: an application's jobs on the command line.

Every command takes the application as `module:attribute`, or from MUTIRAO_APP; every option also
from a variable that its help names. Only this package reads the environment, but for the
variables of a hub, of brokers, and those by which systemd says where it listens.
"""

from mutirao.cli.group import Within, main
from mutirao.cli.target import HostProgram

__all__ = ["HostProgram", "Within", "main"]

"""`probe`: ask a worker's or the dashboard's port how it does, for health checks of containers."""

from http.client import HTTPConnection, HTTPException
from typing import NoReturn
from urllib.parse import urlsplit

import click

from mutirao.cli.options import POSITIVE, option

OF_A_WORKER = "http://127.0.0.1:9464/livez"
SAID = 300  # characters of an answer that are shown


@click.command()
@click.argument("url", default=OF_A_WORKER, envvar="MUTIRAO_PROBE_URL")
@option("--timeout", type=POSITIVE, default=5.0, help="Seconds within which it has to answer.")
def probe(url: str, timeout: float) -> None:
    """Ask an address how a process does; exit status 0 if it does well, 1 if not.

    Without URL it is http://127.0.0.1:9464/livez, of `mutirao worker --metrics-port 9464`. /readyz
    says whether it takes jobs, or requests; the dashboard has both as well.
    """
    where = urlsplit(url)
    if where.scheme != "http" or not where.hostname:
        raise click.BadParameter(f"{url!r} is none; give one such as {OF_A_WORKER}")
    line = HTTPConnection(where.hostname, where.port, timeout=timeout)
    try:
        line.request("GET", where.path or "/", headers={"Connection": "close"})
        answer = line.getresponse()
        said = answer.read(SAID).decode(errors="replace").strip()
    except (OSError, HTTPException) as error:
        _end(f"{url} does not answer: {type(error).__name__}: {error}", well=False)
    finally:
        line.close()
    _end(f"{answer.status} {said}", well=answer.status == 200)


def _end(said: str, *, well: bool) -> NoReturn:
    from mutirao.cli.output import say

    say(said, error=not well)
    raise click.exceptions.Exit(0 if well else 1)

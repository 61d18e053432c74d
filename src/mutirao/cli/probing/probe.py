"""`probe`: ask a worker's or the dashboard's port how it does, for health checks of containers."""

import threading
from http.client import HTTPConnection, HTTPException
from typing import NoReturn
from urllib.parse import urlsplit

import click

from mutirao.cli.options import POSITIVE, option
from mutirao.model.display import without_password

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
    try:
        where = urlsplit(url)
        host, port = where.hostname, where.port
    except ValueError:
        where, host, port = urlsplit(""), None, None
    shown = without_password(url)
    if where.scheme != "http" or not host:
        raise click.BadParameter(f"{shown!r} is none; give one such as {OF_A_WORKER}")
    answers: list[tuple[int, str] | Exception] = []
    # The time limit of a connection starts again with each byte: this one does not.
    asked = (host, port, where.path or "/", timeout, answers)
    asking = threading.Thread(target=_ask, args=asked, daemon=True)
    asking.start()
    asking.join(timeout)
    match answers or [TimeoutError(f"not within {timeout:g} s")]:
        case [(status, said)]:
            _end(f"{status} {said}", well=status == 200)
        case [error]:
            _end(f"{shown} does not answer: {type(error).__name__}: {error}", well=False)


def _ask(
    host: str,
    port: int | None,
    path: str,
    timeout: float,
    answers: list[tuple[int, str] | Exception],
) -> None:
    try:
        line = HTTPConnection(host, port, timeout=timeout)
        try:
            line.request("GET", path, headers={"Connection": "close"})
            answer = line.getresponse()
            answers.append((answer.status, answer.read(SAID).decode(errors="replace").strip()))
        finally:
            line.close()
    except (OSError, HTTPException, UnicodeError) as error:
        answers.append(error)


def _end(said: str, *, well: bool) -> NoReturn:
    from mutirao.cli.output import say

    say(said, error=not well)
    raise click.exceptions.Exit(0 if well else 1)

"""`web`: serve the dashboard."""

from pathlib import Path

import click

from mutirao.app import Mutirao
from mutirao.cli import logs
from mutirao.cli.options import log_options, option
from mutirao.cli.target import APP_VARIABLE, host, load_app
from mutirao.errors import ConfigurationError, MissingDriver

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("target", metavar="[MODULE:APP]", required=False, envvar=APP_VARIABLE)
@option("--bind", default="127.0.0.1:8765", help="Where to listen: host:port.")
@option(
    "--database",
    "databases",
    multiple=True,
    metavar="URL",
    help="Where the jobs are, if not in the application's own database; needed without one; may be"
    " repeated.",
)
@option("--user", default="admin", help="Who is asked for the password.")
@option(
    "--password-file",
    type=_FILE,
    help="File of the password; it, a token or tokens are needed where others can connect.",
)
@option("--token-file", type=_FILE, help="File of a token, which is a password of any user, too.")
@option("--tokens-file", type=_FILE, help="File of the tokens of programs, each with a scope.")
@option("--password", hidden=True)
@option("--token", hidden=True)
@option("--host", "hosts", multiple=True, help="A name by which it may be asked; may be repeated.")
@option(
    "--origin",
    "origins",
    multiple=True,
    help="Where browsers have the pages from, behind a proxy: https://jobs.example.com; may be"
    " repeated.",
)
@option("--redact", multiple=True, help="An argument whose value is a secret; may be repeated.")
@log_options
def web(
    target: str | None,
    bind: str,
    databases: tuple[str, ...],
    user: str,
    password_file: Path | None,
    token_file: Path | None,
    tokens_file: Path | None,
    password: str | None,
    token: str | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    redact: tuple[str, ...],
    log_format: logs.Format,
    log_level: str,
) -> None:
    """Serve the dashboard until SIGTERM or SIGINT: all jobs, and what can be done about them.

    Without an application, by --database alone, it shows and does the same, but does not know which
    tasks there are. Others than this machine can connect only if a password or a token is given, in
    a file or as MUTIRAO_WEB_PASSWORD or MUTIRAO_WEB_TOKEN, or tokens by --tokens-file.
    """
    with logs.configured(log_format, log_level):
        app = _application(target, databases)
    try:
        from mutirao.web import serving  # its packages are needed by nothing else
    except ModuleNotFoundError as missing:
        raise MissingDriver(
            f"the dashboard needs {missing.name}, which is not installed: run"
            " pip install 'mutirao[web]'"
        ) from missing
    given = serving.ServingOptions(
        bind=bind,
        user=user,
        password=_secret(password_file, password),
        token=_secret(token_file, token),
        tokens=None if tokens_file is None else tokens_file.read_text(),
        hosts=hosts,
        origins=origins,
        redact=redact,
    )
    serving.serve(app, given)


def _application(target: str | None, databases: tuple[str, ...]) -> Mutirao:
    named = target is not None or host() is not None
    app = load_app(target or "") if named else None
    if app is None and not databases:
        raise ConfigurationError(
            "neither an application nor a database is named; write `mutirao web shop:app`, or"
            " `mutirao web --database URL`"
        )
    app = app or Mutirao(databases[0])
    if len(databases) == 1:
        app.use_database(*databases)
    elif databases:
        app.databases(lambda: databases)
    return app


def _secret(file: Path | None, variable: str | None) -> str:
    return (variable or "") if file is None else file.read_text().strip()

"""Mutirão in an application of Flask.

    jobs = FlaskMutirao("postgresql+psycopg://…")
    jobs.init_app(web)

Handlers run in the application's context, `web.extensions["mutirao"]` is `jobs`, and
`flask mutirao worker` is `mutirao worker` without naming it.
"""

import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any

import click

from mutirao.app import Mutirao
from mutirao.cli import HostProgram, Within
from mutirao.errors import ConfigurationError, MissingDriver
from mutirao.integrations.places import place_of
from mutirao.model.jobs.job import Job

try:
    from flask import Flask, current_app, has_app_context
    from flask.cli import ScriptInfo
except ModuleNotFoundError as missing:
    raise MissingDriver(
        f"mutirao.integrations.flask needs {missing.name}, which is not installed: run"
        " pip install 'mutirao[flask]'"
    ) from missing

NAME = "mutirao"  # of the extension, and of the command


class FlaskMutirao(Mutirao):
    """A `Mutirao` whose handlers run in the context of a Flask application.

    It is made like any other, at module level, and given the application by `init_app`. Each
    attempt has an application context of its own, in its thread, event loop or child process: with
    Flask-SQLAlchemy a session of its own, which is removed at its end.
    """

    _web: Flask | None = None
    _factory: str | None = None
    _making: threading.Lock
    _around: Any = None  # the hook around plain functions, where a child process looks for it

    def init_app(self, web: Flask) -> None:
        """Make this the jobs of a Flask application; call it in each `create_app`.

        `MUTIRAO_URL` of its configuration, if it is there, is where the jobs are. The last
        application counts.

        Raises:
            ConfigurationError: the URL is of no database that is known.
        """
        if (url := web.config.get("MUTIRAO_URL")) is not None:
            self.use_database(url)
        self._web = web
        web.extensions[NAME] = self
        web.cli.add_command(Within(self._host), NAME)
        self._stand_around()

    def app_factory(self, path: str) -> None:
        """Say where the function is that makes the Flask application: "shop:create_app".

        It is called, without arguments, where a handler is to run in a process that has no
        application yet: a child process, or a worker that `mutirao worker` has started.
        """
        self._factory, self._making = path, threading.Lock()
        self._stand_around()

    def _stand_around(self) -> None:
        """Register the hooks, once; a child process finds the plain one by its name."""
        if self._around is None:

            def around(job: Job) -> Iterator[None]:
                with self._context():
                    yield

            async def around_coroutine(job: Job) -> AsyncIterator[None]:
                with self._context():
                    yield

            self._around = self.around_handler(around)
            self.around_handler(around_coroutine)
        if (place := place_of(self)) is not None:
            self._around.__module__, name = place
            self._around.__qualname__ = f"{name}._around"

    def _context(self) -> AbstractContextManager[Any]:
        """Return a new context; a test that runs jobs by itself has one, whose session they use."""
        web = self._application()
        if web.testing and has_app_context() and current_app == web:
            return nullcontext()
        return web.app_context()

    def _application(self) -> Flask:
        if self._web is None and self._factory is not None:
            with self._making:  # one of the threads that run handlers
                if self._web is None:
                    module, _, name = self._factory.partition(":")
                    getattr(import_module(module), name)()
        if self._web is None:
            raise ConfigurationError(
                "no Flask application was made in this process, in whose context the handler could"
                " run; call init_app(web) where tasks are imported, or say where the function is"
                f' that does: app_factory("shop:create_app"){_given(self._factory)}'
            )
        return self._web

    def _host(self, context: click.Context) -> HostProgram:
        path = context.ensure_object(ScriptInfo).app_import_path
        where = ["--app", path] if path else []
        name = ":".join(place_of(self) or ("flask", NAME))
        return HostProgram(lambda: self, name, [sys.executable, "-m", "flask", *where, NAME])


def _given(factory: str | None) -> str:
    return "" if factory is None else f"; {factory} was called, and did not"

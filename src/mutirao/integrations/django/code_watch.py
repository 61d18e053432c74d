"""`manage.py mutirao worker --reload`: again when code changes, as Django's autoreloader sees it.

A process starts another one, as `runserver` does. In that the worker has the main thread, as its
signals need it, and another one looks at the files that Django's reloader would: after a change the
worker ends as after SIGTERM, so that no job is lost, and the first process starts it again.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.utils import autoreload

CHANGED = 3  # the exit status that asks for a new start, as Django's
_SINCE = "_MUTIRAO_CODE_SINCE"  # for the process that is started here: when that was
_LOOK_AGAIN = 0.5  # seconds
Code = dict[Path, float]


def reloaded(run: Callable[[], Any]) -> Any:
    """Run a worker that starts again when code changes, until a signal stops it.

    Parameters:
        run: runs the worker in this thread until SIGTERM; may end by SystemExit.

    Returns the exit status, in the process that was called; the one with the worker exits.
    """
    if os.environ.get(autoreload.DJANGO_AUTORELOAD_ENV) == "true":
        return _watched(run)
    return _Parent().run()


def _watched(run: Callable[[], Any]) -> Any:
    ended, changed = threading.Event(), threading.Event()

    def watch() -> None:
        since, known = float(os.environ.get(_SINCE, "inf")), dict[Path, float]()
        while not ended.wait(_LOOK_AGAIN):
            for path, at in _code().items():
                # What was changed while we started differs from nothing that we have seen.
                if known.setdefault(path, at) != at or since < at <= time.time():
                    sys.stderr.write(f"{path} changed: starting the worker again\n")
                    changed.set()
                    os.kill(os.getpid(), signal.SIGTERM)
                    return

    threading.Thread(target=watch, name="mutirao-code", daemon=True).start()
    try:
        status = run()
    except SystemExit as exiting:
        status = exiting.code
    finally:
        ended.set()
    sys.exit(CHANGED if changed.is_set() else status)


def _code() -> Code:
    """Return the files of code, with the moments of their last changes."""
    return dict(autoreload.StatReloader().snapshot_files())


class _Parent:
    """Starts the process of the worker again and again; passes a signal on."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped = threading.Event()

    def run(self) -> int:
        before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
        for each in before:
            signal.signal(each, self._pass_on)
        try:
            while True:
                code = _code()  # before it is loaded: a change from then on is news
                status = self._once()
                if self._stopped.is_set() or status == 0:
                    return status
                if status != CHANGED and not self._changed(code, status):
                    return status
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _once(self) -> int:
        command = autoreload.get_child_arguments()
        env = {**os.environ, autoreload.DJANGO_AUTORELOAD_ENV: "true", _SINCE: str(time.time())}
        # In a group of its own: Ctrl-C reaches it once, through us.
        self._child = subprocess.Popen(command, env=env, process_group=0)  # noqa: S603 (ourselves)
        if self._stopped.is_set():
            self._child.terminate()
        return self._child.wait()

    def _changed(self, code: Code, status: int) -> bool:
        """Wait for a change after a start that failed; return False if there is none any more."""
        sys.stderr.write(f"the worker ended with status {status}; it starts again after a change\n")
        while not self._stopped.wait(_LOOK_AGAIN):
            if _code() != code:
                return True
        return False

    def _pass_on(self, number: int, frame: object) -> None:
        self._stopped.set()
        if self._child is not None:
            with suppress(ProcessLookupError):
                self._child.send_signal(number)

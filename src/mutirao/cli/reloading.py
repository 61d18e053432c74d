"""Watches for `worker --reload` the Python files of the directory that it was started in."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from mutirao.cli.supervisor import Watch
from mutirao.errors import ConfigurationError


def watch_here() -> Watch:
    """Return a watch over the current directory, without directories that tools keep in it.

    Raises:
        ConfigurationError: watchfiles is not installed.
    """
    try:
        from watchfiles import PythonFilter, awatch
    except ModuleNotFoundError:
        raise ConfigurationError(
            "--reload needs the package watchfiles, which is not installed; run pip install"
            " 'mutirao[reload]'"
        ) from None
    here = Path.cwd()

    async def watch(ended: asyncio.Event) -> AsyncIterator[str]:
        try:
            async for changes in awatch(here, watch_filter=PythonFilter(), stop_event=ended):
                files = sorted({str(Path(path).relative_to(here)) for _, path in changes})
                yield f"{', '.join(files)} changed"
        except (OSError, RuntimeError) as failed:  # what watchfiles raises
            raise ConfigurationError(
                f"--reload cannot watch the files below {here}: {failed}; start it in a directory"
                " with fewer files, raise the system's limit (on Linux sysctl"
                " fs.inotify.max_user_watches and max_user_instances), or leave --reload out"
            ) from failed

    return watch

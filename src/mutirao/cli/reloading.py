"""What `worker --reload` watches: the Python files of the directory that it was started in."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from mutirao.cli.supervisor import Watch
from mutirao.errors import ConfigurationError


def watch_here() -> Watch:
    """Return a watch over the current directory, and all in it but for what tools keep there.

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
        async for changes in awatch(here, watch_filter=PythonFilter(), stop_event=ended):
            files = sorted({str(Path(path).relative_to(here)) for _, path in changes})
            yield f"{', '.join(files)} changed"

    return watch
